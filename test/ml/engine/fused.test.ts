// tier: all (trains models)
import { ptr } from "bun:ffi";
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type ShapeOf, writeModel } from "../../../bench/training/model.ts";
import type { Kernels } from "../../../src/native/cuda/kernels.ts";
import { allocate, newContext, newTensor, openBackend, TYPE } from "../../../src/native/ggml/ggml.ts";
import { decodeRows, decodesToBf16 } from "../../../src/workers/trainer/engine/fused/decode.ts";
import { canFuse } from "../../../src/workers/trainer/engine/fused/fused.ts";
import { tapeReason } from "../../../src/workers/trainer/engine/fused/unsupported.ts";
import type { GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import type { Lora } from "../../../src/workers/trainer/engine/weights.ts";
import { tempDir } from "../../harness.ts";
import { makeModel } from "../../models.ts";
import { sampleOf } from "../../sweep.ts";
import { putFloats } from "../put_floats.ts";
import { apart, openFile, passes } from "./fused_kit.ts";
import { branchingBatch, random, shape } from "./kit.ts";
import { plainKernels } from "./plain_kernels.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };
const MODEL: ShapeOf = {
  arch: "llama",
  vocab: 60,
  width: 64,
  layers: 3,
  heads: 2,
  keyHeads: 1,
  head: 64,
  forward: 96,
  tied: true,
};

function open(model: Partial<ShapeOf>, lora: Lora, kernels: Kernels | null) {
  const path = join(dir, "model.gguf");
  writeModel(path, { ...MODEL, ...model });
  return openFile(dir, path, lora, kernels);
}

const CASES: [string, Partial<ShapeOf>, Partial<GraphShape>, Partial<Lora>][] = [
  ["llama", {}, {}, {}],
  ["llama, layers computed again", {}, { checkpoints: true }, {}],
  [
    "llama, few places scored, at another temperature",
    {},
    { checkpoints: true, scored: 23, headChunk: 8, temperature: 0.7 },
    {},
  ],
  ["llama, its own output layer, two targets", { tied: false }, {}, { targets: ["attn_q", "attn_v"], rslora: true }],
  ["qwen2", { arch: "qwen2" }, { checkpoints: true }, { rank: 6 }],
  ["qwen3, heads of 128", { arch: "qwen3", head: 128 }, {}, { targets: ["ffn_down", "attn_output"] }],
];

/** Includes the number of multiprocessors: with more of them, heads are split earlier. */
const BRANCHING: [string, number, Partial<ShapeOf>, Partial<GraphShape>, Partial<Lora>][] = [
  ["llama", 1, {}, {}, {}],
  ["llama, each head by itself", 64, { heads: 4, keyHeads: 2, width: 128 }, {}, {}],
  ["qwen2, a second tile of keys", 1, { arch: "qwen2", layers: 2 }, { tokens: 100 }, {}],
  ["qwen2, again, each head by itself", 64, { arch: "qwen2", layers: 2 }, { checkpoints: true, tokens: 100 }, {}],
  ["qwen3, heads of 128", 64, { arch: "qwen3", head: 128, forward: 32 }, {}, { targets: ["attn_k", "attn_v"] }],
];

describe("the fused passes compute the same as the tape", () => {
  test.each(sampleOf("fused cases", CASES, 0.5))("%s", (_name, model, graph, lora) => {
    const of = { ...shape({ tokens: 14, entropies: true }), ...graph };
    const how = { ...LORA, ...lora };
    const expected = passes(open(model, how, null), of);
    const found = passes(open(model, how, plainKernels), of);
    expected.scores.forEach((values, i) => {
      expect(apart(values, found.scores[i] as Float32Array)).toBeLessThan(1e-3);
    });
    for (const [i, [name, values]] of expected.gradients.entries()) {
      const [, ours] = found.gradients[i] as (typeof found.gradients)[number];
      expect([name, apart(values, ours) < 6e-3]).toEqual([name, true]);
    }
  });

  test.each([false, true])(
    "dropout applies to the input of adapters, with layers computed again: %p",
    (checkpoints) => {
      const of = shape({ tokens: 14, entropies: true, checkpoints });
      const expected = passes(open({}, LORA, null), of, { rate: 0.3 });
      const found = passes(open({}, LORA, plainKernels), of, { rate: 0.3 });
      for (const [i, [name, values]] of expected.gradients.entries()) {
        const [, ours] = found.gradients[i] as (typeof found.gradients)[number];
        expect([name, apart(values, ours) < 6e-3]).toEqual([name, true]);
      }
    },
  );

  test.each(sampleOf("fused branches", BRANCHING, 0.5))(
    "sequences that branch: %s, %d multiprocessors",
    (_name, multiprocessors, model, graph, lora) => {
      const of = { ...shape({ tokens: 38, entropies: true }), ...graph };
      const how = { ...LORA, ...lora };
      const expected = passes(open(model, how, null), of, { draw: branchingBatch });
      const found = passes(open(model, how, { ...plainKernels, multiprocessors }), of, { draw: branchingBatch });
      expected.scores.forEach((values, i) => {
        expect(apart(values, found.scores[i] as Float32Array)).toBeLessThan(1e-3);
      }, 30_000);
      for (const [i, [name, values]] of expected.gradients.entries()) {
        const [, ours] = found.gradients[i] as (typeof found.gradients)[number];
        expect([name, apart(values, ours) < 6e-3]).toEqual([name, true]);
      }
    },
  );

  test("a model in F16, decoded once", () => {
    const path = makeModel(dir, { arch: "llama", type: "F16", layers: 2, width: 128, heads: 2, kvHeads: 1, ff: 96 });
    const of = shape({ tokens: 14, entropies: true });
    const expected = passes(openFile(dir, path, LORA, null), of);
    const found = passes(openFile(dir, path, LORA, plainKernels), of);
    for (const [i, [name, values]] of expected.gradients.entries()) {
      const [, ours] = found.gradients[i] as (typeof found.gradients)[number];
      expect([name, apart(values, ours) < 3e-2]).toEqual([name, true]);
    }
  });

  test.each(["mistral3", "smollm3"] as const)("%s: a scaled rotation, and layers without one", (arch) => {
    const layers = arch === "smollm3" ? 4 : 2;
    const path = makeModel(dir, { arch, type: "F16", layers, width: 128, heads: 2, kvHeads: 1, ff: 96 });
    const of = shape({ tokens: 9, entropies: true });
    const [plain, fused] = [openFile(dir, path, LORA, null), openFile(dir, path, LORA, plainKernels)];
    expect([canFuse(fused, of.tokens), canFuse(fused, 10)]).toEqual([true, arch === "smollm3"]);
    const [expected, found] = [passes(plain, of), passes(fused, of)];
    expected.scores.forEach((values, i) => {
      expect(apart(values, found.scores[i] as Float32Array)).toBeLessThan(1e-3);
    });
    for (const [i, [name, values]] of expected.gradients.entries()) {
      const [, ours] = found.gradients[i] as (typeof found.gradients)[number];
      expect([name, apart(values, ours) < 3e-2]).toEqual([name, true]);
    }
  });

  test.each(["qwen3moe", "gpt-oss"] as const)("%s uses the tape", (arch) => {
    const path = makeModel(dir, { arch, type: "F16", layers: 2, width: 128, heads: 2, kvHeads: 1, ff: 96 });
    const opened = openFile(dir, path, { ...LORA, targets: ["attn_output"] }, plainKernels);
    expect(canFuse(opened, 9)).toBe(false);
    const run = { trainsAll: false, hasNoise: false, hasKernels: true, longest: 9 };
    expect(tapeReason(opened.architecture, run)).toMatch(
      /^this run uses ggml on the GPU.*: they do not compute .*experts$/,
    );
    expect(tapeReason(opened.architecture, { ...run, trainsAll: true })).toContain("not all weights");
    opened.weights.free();
    opened.backend.close();
  });

  test("the base model gives the same result with any adapters", () => {
    const of = shape({ tokens: 14, trains: false, entropies: true, reference: true });
    const expected = passes(open({}, LORA, null), of);
    const found = passes(open({}, LORA, plainKernels), of);
    expected.scores.forEach((values, i) => {
      expect(apart(values, found.scores[i] as Float32Array)).toBeLessThan(1e-3);
    });
  });
});

test.each([
  ["F16", TYPE.F16, 3e-3],
  ["Q8_0", TYPE.Q8_0, 8e-3],
  ["Q4_K", 12, 0.1],
  ["Q6_K", 14, 0.03],
] as const)("rows of %s become rows of BF16 of any stride", (_name, type, most) => {
  const backend = openBackend(dir, { kind: "cpu", threads: 1 });
  const { ggml } = backend;
  const [columns, rows, stride, first] = [256, 1030, 272, 32];
  const context = newContext(ggml, 2);
  const from = newTensor(ggml, context, type, [columns, rows]);
  const to = newTensor(ggml, context, TYPE.BF16, [first + rows * stride]);
  const held = allocate(backend, context);
  const next = random(1);
  const values = Float32Array.from({ length: columns * rows }, next);
  putFloats(ggml, from, values, columns);
  expect(decodesToBf16(backend, from)).toBe(true);
  decodeRows(backend, from, { tensor: to, first, stride });
  const halves = new Uint16Array(first + rows * stride);
  ggml.ggml_backend_tensor_get(to, ptr(halves), 0, halves.byteLength);
  const decoded = new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  let [apart, all] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    const found = decoded[first + Math.floor(i / columns) * stride + (i % columns)] as number;
    apart += (found - (values[i] as number)) ** 2;
    all += (values[i] as number) ** 2;
  }
  expect(Math.sqrt(apart / all)).toBeLessThan(most);
  expect(decoded.subarray(0, first).some((x) => x !== 0)).toBe(false);
  expect(decoded.subarray(first + columns, first + stride).some((x) => x !== 0)).toBe(false);
  held.free();
  context.free();
  backend.close();
});

test("the tape does the work that the kernels cannot do", () => {
  const can = (model: Partial<ShapeOf>, lora: Lora) => {
    const opened = open(model, lora, plainKernels);
    const answer = canFuse(opened, 64);
    opened.weights.free();
    opened.backend.close();
    return answer;
  };
  expect(can({}, LORA)).toBe(true);
  expect(can({ head: 32 }, LORA)).toBe(false);
  expect(can({}, { ...LORA, targets: ["token_embd"] })).toBe(false);
  const path = makeModel(dir, { arch: "llama", type: "F32", width: 128, heads: 2 });
  const exact = openFile(dir, path, LORA, plainKernels);
  expect(canFuse(exact, 64)).toBe(false);
  exact.weights.free();
  exact.backend.close();
  const opened = open({}, LORA, null);
  expect(canFuse(opened, 64)).toBe(false);
  opened.weights.free();
  opened.backend.close();
});
