import { expect, test } from "bun:test";
import { FAMILIES, familyOf, familyOfConfig } from "../../lib/checkpoints/families.ts";
import { configOf, configText, headLength, metadataOf, textConfig } from "./config.ts";
import { ropeTensors } from "./rope.ts";
import { rotatedRow, tensorNames, unrotatedRow } from "./tensors.ts";

const BASE = {
  num_hidden_layers: 2,
  max_position_embeddings: 512,
  hidden_size: 64,
  intermediate_size: 128,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  vocab_size: 300,
  rms_norm_eps: 1e-5,
  rope_theta: 50_000,
};

test("no tensor has two names in one format", () => {
  for (const family of FAMILIES) {
    const names = tensorNames(family, { layers: 2, experts: 4 });
    const gguf = names.map((each) => each.gguf);
    expect(new Set(gguf).size).toBe(gguf.length);
    const whole = names.filter(({ change }) => change !== "even_rows" && change !== "odd_rows").flatMap(({ hf }) => hf);
    expect(new Set(whole).size).toBe(whole.length);
  }
});

test("llama reorders q and k, gemma adds one to its norms", () => {
  const change = (architecture: string, gguf: string) => {
    const family = familyOf(architecture);
    return family && tensorNames(family, { layers: 1 }).find((each) => each.gguf === gguf);
  };
  expect(change("llama", "blk.0.attn_q.weight")).toEqual({
    gguf: "blk.0.attn_q.weight",
    hf: ["model.layers.0.self_attn.q_proj.weight"],
    change: "rotate_q",
    optional: false,
  });
  expect(change("qwen3", "blk.0.attn_q.weight")?.change).toBe("same");
  expect(change("gemma3", "blk.0.attn_q_norm.weight")?.change).toBe("add_one");
  expect(change("gemma2", "blk.0.ffn_norm.weight")?.hf).toEqual(["model.layers.0.pre_feedforward_layernorm.weight"]);
  expect(change("phi3", "blk.0.ffn_up.weight")?.hf).toEqual(["model.layers.0.mlp.gate_up_proj.weight"]);
});

test("the order of rows in a rotated head", () => {
  expect([0, 1, 2, 3, 4, 5, 6, 7].map((row) => rotatedRow(row, 4))).toEqual([0, 2, 1, 3, 4, 6, 5, 7]);
  for (let row = 0; row < 64; row++) expect(unrotatedRow(rotatedRow(row, 16), 16)).toBe(row);
});

test("a config becomes metadata and comes back", () => {
  const own: Record<string, object> = {
    granite: { attention_multiplier: 0.25, embedding_multiplier: 12, residual_multiplier: 0.22, logits_scaling: 8 },
    gemma2: { attn_logit_softcapping: 50, final_logit_softcapping: 30, sliding_window: 128 },
    gemma3: { sliding_window: 128, rope_local_base_freq: 10_000 },
    qwen3moe: { num_experts: 4, num_experts_per_tok: 2, moe_intermediate_size: 32 },
    "gpt-oss": { num_local_experts: 4, num_experts_per_tok: 2, sliding_window: 128 },
    phi3: { original_max_position_embeddings: 512 },
  };
  for (const family of FAMILIES) {
    const config = { ...BASE, ...own[family.architecture], architectures: [family.classes[0]] };
    expect(familyOfConfig(config)).toBe(family);
    const facts = metadataOf(config, family);
    const values = new Map(
      [...facts].map(([key, { value, type }]) => [key, type === "float32" ? Math.fround(value) : value]),
    );
    const back = configOf(values, family, true);
    const { original_max_position_embeddings: _, ...expected } = config as Record<string, unknown>;
    expect(back).toMatchObject({ ...expected, model_type: family.modelType, tie_word_embeddings: true });
  }
});

test("yarn and llama3 scaling", () => {
  const family = FAMILIES.find(({ architecture }) => architecture === "mistral3");
  if (!family) throw new Error("mistral3");
  const yarn = {
    rope_type: "yarn",
    factor: 16,
    original_max_position_embeddings: 32,
    beta_fast: 32,
    beta_slow: 1,
    mscale_all_dim: 1,
    llama_4_scaling_beta: 0.1,
    rope_theta: 1e6,
  };
  const facts = metadataOf({ ...BASE, rope_theta: undefined, rope_parameters: yarn }, family);
  expect(facts.get("rope.scaling.type")?.value).toBe("yarn");
  expect(facts.get("rope.scaling.original_context_length")).toEqual({ type: "uint32", value: 32 });
  expect(facts.get("rope.freq_base")?.value).toBe(1e6);
  expect(facts.get("attention.temperature_scale")?.value).toBe(0.1);
  const llama3 = {
    rope_type: "llama3",
    factor: 8,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 8192,
  };
  const config = { ...BASE, head_dim: 64, rope_theta: 500_000, rope_scaling: llama3 };
  const factors = ropeTensors(config, headLength(config)).get("rope_freqs.weight") ?? [];
  expect([factors[0], factors[31]]).toEqual([1, 8]);
  expect(factors).toHaveLength(32);
});

test("transformers 5 writes num_local_experts for every mixture of experts", () => {
  const family = familyOfConfig({ architectures: ["Qwen3MoeForCausalLM"] });
  const given = { ...BASE, num_local_experts: 6, num_experts_per_tok: 2, moe_intermediate_size: 32 };
  expect(metadataOf(textConfig(given, family), family).get("expert_count")?.value).toBe(6);
});

test("a written config has whole floats as floats, and both of yarn's factors", () => {
  const family = familyOfConfig({ architectures: ["Ministral3ForCausalLM"] });
  const metadata = new Map<string, unknown>([
    ["block_count", 2],
    ["rope.scaling.type", "yarn"],
    ["rope.scaling.factor", 4],
    ["rope.scaling.yarn_log_multiplier", 1],
  ]);
  const text = configText({ ...configOf(metadata, family, true), final_logit_softcapping: 30 });
  for (const line of ['"num_hidden_layers": 2,', '"factor": 4.0,', '"mscale": 1.0', '"final_logit_softcapping": 30.0'])
    expect(text).toContain(line);
});

test("the attention scale of Gemma with 27B parameters comes from its width, in both directions", () => {
  const family = familyOfConfig({ architectures: ["Gemma3ForCausalLM"] });
  const metadata = (layers: number) =>
    new Map<string, unknown>([
      ["block_count", layers],
      ["embedding_length", 5376],
      ["attention.head_count", 32],
      ["attention.key_length", 128],
    ]);
  expect(configOf(metadata(62), family, true).query_pre_attn_scalar).toBe(168);
  expect(configOf(metadata(34), family, true).query_pre_attn_scalar).toBe(128);
});
