// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ShapeOf, writeModel } from "../../../bench/training/model.ts";
import { type Header, parseGguf } from "../../../src/lib/gguf/parse.ts";
import { getFloats, openBackend } from "../../../src/native/ggml/ggml.ts";
import { architectureOf } from "../../../src/workers/trainer/engine/architecture.ts";
import { openPatterns } from "../../../src/workers/trainer/engine/dropout.ts";
import { packingOf } from "../../../src/workers/trainer/engine/fused/packed.ts";
import { keepOnlyFused } from "../../../src/workers/trainer/engine/fused/weights.ts";
import { buildGraph, type GraphShape } from "../../../src/workers/trainer/engine/graph.ts";
import { type Lora, loadWeights } from "../../../src/workers/trainer/engine/weights.ts";
import { tempDir } from "../../harness.ts";
import { asBf16, fromBf16s } from "../../native/decode_kit.ts";
import { fillAdapter } from "./fused_kit.ts";
import { random, randomBatch, shape } from "./kit.ts";
import { plainKernels } from "./plain_kernels.ts";
import { NF4_NUMBERS, nearestNf4 } from "./plain_packed.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const TARGETS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: TARGETS };
const MODEL: ShapeOf = {
  arch: "llama",
  vocab: 300,
  width: 256,
  layers: 2,
  heads: 4,
  keyHeads: 2,
  head: 64,
  forward: 256,
  tied: true,
};

type How = {
  lora?: Lora;
  packs?: boolean;
  in4Bit?: boolean;
  kernels?: typeof plainKernels | null;
  change?: (bytes: Uint8Array, header: Header) => void;
};

function open(
  model: Partial<ShapeOf>,
  { lora = LORA, packs = true, in4Bit = false, kernels = plainKernels, change }: How = {},
) {
  const path = join(dir, "model.gguf");
  writeModel(path, { ...MODEL, ...model });
  const bytes = Uint8Array.from(readFileSync(path));
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  change?.(bytes, header);
  if (change) writeFileSync(path, bytes);
  const backend = { ...openBackend(dir, { kind: "cpu", threads: 1 }), kernels };
  const architecture = architectureOf(header);
  const packing = packs ? packingOf(backend, { architecture, header, lora, longest: 64, in4Bit }) : "no";
  return { backend, architecture, weights: loadWeights(backend, { path, header }, lora, packing), header };
}

/** Numbers of a layer's matrices, in blocks of 64. */
function roundToNf4(bytes: Uint8Array, header: Header) {
  for (const { name, dims, offset, elements } of header.tensors.values()) {
    if (dims.length !== 2 || !name.startsWith("blk.")) continue;
    const words = new Uint16Array(bytes.buffer, bytes.byteOffset + header.dataStart + offset, elements);
    for (let from = 0; from < elements; from += 64) {
      const values = fromBf16s(words.subarray(from, from + 64));
      const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      words.set(asBf16(values.map((x) => most * NF4_NUMBERS[nearestNf4(x / most)]!)), from);
    }
  }
}

/** Scores and gradients of one batch, and the bytes that the model takes. */
function pass(opened: ReturnType<typeof open>, of: GraphShape, rate = 0) {
  const { weights, backend, architecture } = opened;
  const next = random(3);
  fillAdapter(opened, next);
  const widths = [architecture.width, architecture.forward, architecture.heads * architecture.headLength];
  const dropout = rate === 0 ? null : openPatterns(backend, widths, { rate, seed: 9 });
  const only = keepOnlyFused(architecture, weights);
  const bytes = weights.bytes + only.bytes;
  const graph = buildGraph(opened, dropout ? { ...of, dropout } : of);
  weights.clearGradients();
  const drawn = randomBatch(of, architecture.vocab, 1);
  const batch = { ...drawn, dropSeeds: Uint32Array.from(drawn.ids, (id, i) => id * 7919 + i) };
  const logps = graph.forward(batch);
  graph.backward(Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : next())));
  const gradients = weights.trainable.map(({ gradient }) => getFloats(backend.ggml, gradient));
  graph.free();
  only.free();
  dropout?.free();
  weights.free();
  backend.close();
  return { packed: weights.packed, logps, gradients, bytes };
}

const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, x, k) => sum + x * b[k]!, 0);
const cosine = (a: Float32Array, b: Float32Array) => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

const CASES: [string, Partial<ShapeOf>, Partial<GraphShape>, number][] = [
  ["Q4_K and Q6_K", { type: "Q4_K_M" }, {}, 0],
  ["Q4_K and Q6_K, layers computed again", { type: "Q4_K_M", tied: false }, { checkpoints: true }, 0],
  ["Q8_0 of a qwen2, dropout", { type: "Q8_0", arch: "qwen2" }, { checkpoints: true }, 0.3],
];

describe("quantized matrices that stay so", () => {
  test.each(CASES)("give the bits of decoded ones: %s", (_name, model, graph, rate) => {
    const of = { ...shape({ tokens: 8 }), ...graph };
    const expected = pass(open(model, { packs: false }), of, rate);
    const found = pass(open(model), of, rate);
    expect([expected.packed, found.packed]).toEqual([false, true]);
    expect(found.logps).toEqual(expected.logps);
    expect(found.gradients).toEqual(expected.gradients);
    expect(found.bytes).toBeLessThan(0.95 * expected.bytes);
  });

  test("a table that is larger than the largest layer is decoded in pieces", () => {
    const model = { type: "Q4_K_M", vocab: 1900, layers: 1 } as const;
    const expected = pass(open(model, { packs: false }), shape({ tokens: 5 }));
    const found = pass(open(model), shape({ tokens: 5 }));
    expect(found.logps).toEqual(expected.logps);
    found.gradients.forEach((values, i) => {
      expect(cosine(values, expected.gradients[i]!)).toBeGreaterThan(0.9999);
    });
  });

  test("NF4: layers in BF16 that become NF4 when they are loaded give the bits of a file with these numbers", () => {
    const found = pass(open({}, { in4Bit: true }), shape({ tokens: 8 }));
    const expected = pass(open({}, { change: roundToNf4 }), shape({ tokens: 8 }));
    expect([expected.packed, found.packed]).toEqual([false, true]);
    expect(found.logps).toEqual(expected.logps);
    expect(found.gradients).toEqual(expected.gradients);
    expect(found.bytes).toBeLessThan(0.95 * expected.bytes);
  });

  test("the base model gives the same scores with any adapter", () => {
    const of = { ...shape({ tokens: 8 }), reference: true };
    const expected = pass(open({ type: "Q8_0" }, { packs: false }), of);
    expect(pass(open({ type: "Q8_0" }), of).logps).toEqual(expected.logps);
  });
});

test("matrices are decoded as a whole for everything but the fused passes", () => {
  const stays = (model: Partial<ShapeOf>, how: Parameters<typeof open>[1] = {}) => {
    const { weights, backend } = open(model, how);
    const { packed } = weights;
    weights.free();
    backend.close();
    return packed;
  };
  expect(stays({ type: "Q4_K_M" })).toBe(true);
  expect(stays({ type: "Q4_K_M" }, { kernels: null })).toBe(false);
  expect(stays({ type: "Q4_K_M", head: 32, heads: 8 })).toBe(false);
  expect(stays({ type: "F16" })).toBe(false);
  expect(stays({ type: "BF16" })).toBe(false);
});
