import { describe, expect, test } from "bun:test";
import type { ModelShape } from "../gguf/shape.ts";
import type { LoraSettings } from "./lora.ts";
import { blocksFor, canBe4Bit, dimensionsOf, estimateMemory, type MemoryPlan } from "./memory.ts";

const GIB = 2 ** 30;
const LORA: LoraSettings = {
  r: 16,
  alpha: 32,
  dropout: 0,
  target_modules: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
  use_rslora: false,
};
/** Llama 3.2 1B in BF16. */
const ONE_B: ModelShape = {
  architecture: "llama",
  parameters: 1_235_814_432,
  context_length: 131_072,
  quantization: "BF16",
  layers: 16,
  embedding_length: 2048,
  heads: 32,
  kv_heads: 8,
  key_length: 64,
  value_length: 64,
  vocab_size: 128_256,
  weight_bytes: 2_471_628_864,
  name: null,
  has_chat_template: true,
  type: "model",
};
/** Qwen 2.5 7B. */
const SEVEN_B: ModelShape = {
  ...ONE_B,
  architecture: "qwen2",
  parameters: 7_615_616_512,
  layers: 28,
  embedding_length: 3584,
  heads: 28,
  kv_heads: 4,
  key_length: 128,
  value_length: 128,
  vocab_size: 152_064,
  weight_bytes: 15_231_233_024,
};
const plan = (over: Partial<MemoryPlan> = {}): MemoryPlan => ({
  method: "sft",
  lora: LORA,
  hyperparameters: { max_length: 1024, per_device_train_batch_size: 8 },
  microDivisor: 1,
  device: "cuda",
  ...over,
});

test("the width inside a layer and the number of tables follow from the count of parameters", () => {
  expect(dimensionsOf(ONE_B).forward).toBe(8192);
  expect(dimensionsOf(SEVEN_B).forward).toBe(18_944);
});

describe("an estimate", () => {
  test("of a LoRA on 1B at 8 × 1024 tokens is of the order that was measured", () => {
    const { weights, total } = estimateMemory(ONE_B, plan());
    expect(weights / ONE_B.weight_bytes).toBeCloseTo(2, 3);
    expect(total).toBeGreaterThan(12 * GIB);
    expect(total).toBeLessThan(32 * GIB);
  });

  test("is the sum of its parts, and no part is negative or broken", () => {
    for (const device of ["cpu", "cuda"] as const)
      for (const method of ["grpo", "sft", "dpo"] as const)
        for (const lora of [LORA, null]) {
          const { total, ...parts } = estimateMemory(SEVEN_B, plan({ device, method, lora }));
          const sum = Object.values(parts).reduce((a, b) => a + b, 0);
          expect(Object.values(parts).every((part) => part >= 0)).toBe(true);
          expect(total).toBeGreaterThan(sum);
          expect(total).toBeLessThan(sum + 1.1 * GIB);
        }
  });

  test.each([
    ["smaller micro-batches", { microDivisor: 4 }],
    ["shorter sequences", { hyperparameters: { max_length: 128, per_device_train_batch_size: 8 } }],
    ["an adapter of a smaller rank", { lora: { ...LORA, r: 4 } }],
  ])("falls with %s", (_name, over) => {
    expect(estimateMemory(ONE_B, plan(over)).total).toBeLessThan(estimateMemory(ONE_B, plan()).total);
  });

  test("counts a second copy for GRPO, and the reference model if there is no adapter to remove", () => {
    expect(estimateMemory(ONE_B, plan()).rollouts).toBe(0);
    const grpo = estimateMemory(ONE_B, plan({ method: "grpo", hyperparameters: { max_completion_length: 512 } }));
    expect(grpo.rollouts).toBeGreaterThan(ONE_B.weight_bytes);
    expect(estimateMemory(ONE_B, plan({ method: "dpo" })).reference).toBe(0);
    expect(estimateMemory(ONE_B, plan({ method: "dpo", lora: null })).reference).toBeGreaterThan(0);
  });

  test("of an adapter of a Q4_K model counts the file once: 8B trains within 12 GiB, 32B on one large card", () => {
    const eight: ModelShape = {
      ...ONE_B,
      parameters: 8_030_261_312,
      layers: 32,
      embedding_length: 4096,
      key_length: 128,
      value_length: 128,
      quantization: "Q4_K_M",
      weight_bytes: 4_912_898_304,
    };
    const one = { max_length: 1024, per_device_train_batch_size: 1 };
    const { weights, total } = estimateMemory(eight, plan({ microDivisor: 4, hyperparameters: one }));
    expect(weights / eight.weight_bytes).toBeWithin(1, 1.1);
    expect(total).toBeLessThan(12 * GIB);
    const whole = estimateMemory(
      { ...eight, quantization: "BF16", weight_bytes: 16e9 },
      plan({ hyperparameters: one }),
    );
    expect(whole.total).toBeGreaterThan(30 * GIB);
    const half = { ...eight, quantization: "BF16", weight_bytes: 16e9 };
    const nf4 = estimateMemory(half, plan({ microDivisor: 4, hyperparameters: { ...one, load_in_4bit: true } }));
    expect(nf4.weights / GIB).toBeWithin(5, 6.5);
    expect(nf4.total).toBeLessThan(12 * GIB);
    expect(canBe4Bit(half, plan())).toBe(true);
    expect(canBe4Bit(half, plan({ device: "cpu" }))).toBe(false);
    expect(canBe4Bit(half, plan({ lora: null }))).toBe(false);
    const full = estimateMemory(eight, plan({ lora: null, hyperparameters: one }));
    expect(full.weights).toBe(eight.parameters * 4);
    const large: ModelShape = {
      ...SEVEN_B,
      parameters: 32_763_876_352,
      layers: 64,
      embedding_length: 5120,
      heads: 40,
      kv_heads: 8,
      quantization: "Q4_K_M",
      weight_bytes: 19_844_173_824,
    };
    expect(estimateMemory(large, plan({ hyperparameters: { max_length: 1024 } })).total).toBeLessThan(80 * GIB);
  });

  test("moments of 8 bits take a quarter: all weights of 1B train within 24 GiB", () => {
    const hyperparameters = { max_length: 1024, per_device_train_batch_size: 8, optim: "adamw_8bit" };
    const { training, total } = estimateMemory(ONE_B, plan({ lora: null, hyperparameters }));
    expect(training / ONE_B.parameters).toBeWithin(6, 7);
    expect(total).toBeLessThan(24 * GIB);
    expect(estimateMemory(ONE_B, plan({ lora: null })).total).toBeGreaterThan(30 * GIB);
  });

  test("training all weights of 7B needs more memory than a single card has", () => {
    expect(estimateMemory(SEVEN_B, plan({ lora: null })).total).toBeGreaterThan(110 * GIB);
  });
});

/** The tests of the trainer compare estimates with what the device holds; here each change of one is seen at once. */
const ROLLED = {
  max_prompt_length: 256,
  max_completion_length: 512,
  num_generations: 8,
  per_device_train_batch_size: 8,
};
const LONG = { max_length: 32_768, per_device_train_batch_size: 2 };
const QUARTER: ModelShape = { ...ONE_B, quantization: "Q4_K_M", weight_bytes: 807_694_464 };
test.each<[string, ModelShape, Partial<MemoryPlan>, number[]]>([
  ["an adapter", ONE_B, {}, [4_943_257_728, 180_355_072, 20_434_649_088, 0, 0]],
  ["an adapter in four parts", ONE_B, { microDivisor: 4 }, [4_943_257_728, 180_355_072, 5_108_662_272, 0, 0]],
  ["an adapter on a CPU", ONE_B, { device: "cpu" }, [2_471_628_864, 180_355_072, 1_402_208_256, 0, 0]],
  ["all weights", ONE_B, { lora: null }, [4_943_257_728, 16_931_119_488, 9_688_842_240, 0, 0]],
  ["pairs", ONE_B, { method: "dpo" }, [4_943_257_728, 180_355_072, 20_434_649_088, 0, 0]],
  [
    "rewards for an adapter",
    ONE_B,
    { method: "grpo", hyperparameters: ROLLED },
    [4_943_257_728, 180_355_072, 20_434_649_088, 3_317_839_168, 0],
  ],
  [
    "rewards on a CPU",
    ONE_B,
    { method: "grpo", hyperparameters: ROLLED, device: "cpu" },
    [2_471_628_864, 180_355_072, 1_402_208_256, 3_067_654_208, 0],
  ],
  [
    "rewards for all weights",
    ONE_B,
    { method: "rloo", lora: null, hyperparameters: ROLLED },
    [4_943_257_728, 16_931_119_488, 9_688_842_240, 3_317_839_168, 0],
  ],
  ["a packed model", QUARTER, {}, [874_803_328, 180_355_072, 20_434_649_088, 0, 0]],
  ["long rows of a packed model", QUARTER, { hyperparameters: LONG }, [874_803_328, 180_355_072, 17_878_745_088, 0, 0]],
  [
    "long rows of a larger model",
    SEVEN_B,
    { hyperparameters: LONG },
    [30_462_466_048, 645_922_816, 40_523_192_832, 0, 0],
  ],
])("the bytes of %s", (_, shape, over, bytes) => {
  const { weights, training, activations, rollouts, reference } = estimateMemory(shape, plan(over));
  expect([weights, training, activations, rollouts, reference]).toEqual(bytes);
});

test("experts are frozen: a token is computed by those that are used, and none is stored transposed", () => {
  /** The width of Qwen3 30B-A3B, with two layers. */
  const mixture: ModelShape = {
    ...ONE_B,
    architecture: "qwen3moe",
    quantization: "F32",
    layers: 2,
    heads: 32,
    kv_heads: 4,
    key_length: 128,
    vocab_size: 1024,
    parameters: 2 * (2048 * (128 + 2 * 4608) + 128 * 3 * 2048 * 768) + 2048 * 1024,
    experts: { count: 128, used: 8 },
  };
  mixture.weight_bytes = mixture.parameters / 2;
  expect(dimensionsOf(mixture)).toMatchObject({ mixture: { used: 8, forward: expect.closeTo(128 * 768, -3) } });
  expect(dimensionsOf(mixture).forward).toBeWithin(8 * 760, 8 * 780);
  const cpu = plan({ device: "cpu" });
  expect(estimateMemory(mixture, cpu).weights).toBeLessThan(1.1 * mixture.weight_bytes);
  const { experts: _, ...older } = mixture;
  expect(estimateMemory(older, cpu).activations).toBeGreaterThan(1.4 * estimateMemory(mixture, cpu).activations);
});

test("blocks divide the work into equal parts within their limits", () => {
  const of = dimensionsOf(ONE_B);
  const { headChunk, attentionBlock } = blocksFor(of, { tokens: 1024, rows: 8, scored: 8192 }, plan());
  expect(headChunk * of.vocab * 4).toBeLessThanOrEqual(GIB);
  expect(8192 % headChunk).toBe(0);
  expect(attentionBlock * 8192 * of.heads * 4).toBeLessThanOrEqual(GIB);
});
