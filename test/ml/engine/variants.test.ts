/** Variants of models within an architecture: position scaling and weight types. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseGguf } from "../../../src/lib/gguf/parse.ts";
import {
  encodeGgufHeader,
  float32Value,
  type NewValue,
  tensorBytes,
  textValue,
  uint32Value,
} from "../../../src/lib/gguf/write.ts";
import { getFloats, openBackend } from "../../../src/native/ggml/ggml.ts";
import type { Quantization } from "../../../src/native/llama/quantize.ts";
import { quantizeModel } from "../../../src/native/llama/quantize.ts";
import { architectureOf } from "../../../src/workers/trainer/engine/architecture.ts";
import { buildGraph } from "../../../src/workers/trainer/engine/graph.ts";
import { type Lora, loadWeights } from "../../../src/workers/trainer/engine/weights.ts";
import { openRowMerger } from "../../../src/workers/trainer/results/merge_rows.ts";
import { tempDir } from "../../harness.ts";
import { type ModelOptions, makeModel } from "../../models.ts";
import { logpsOf } from "../../serving/reference.ts";
import { gradientError, type Opened, random, randomBatch, shape } from "./kit.ts";
import { shake } from "./shake.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: ["attn_q", "attn_v", "ffn_down"] };
const MODEL: ModelOptions = { arch: "llama", type: "F32", layers: 2, width: 64, heads: 4, kvHeads: 2, ff: 128 };

function open(path: string): Opened {
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const backend = openBackend(dir, { kind: "cpu", threads: 1 });
  const weights = loadWeights(backend, { path, header }, LORA);
  const close = () => {
    weights.free();
    backend.close();
  };
  return { path, architecture: architectureOf(header), weights, backend, close };
}

/** The same model with additional metadata and rotation factors. */
function changed(from: string, more: Readonly<Record<string, NewValue>>, factors: Float32Array | null): string {
  const bytes = readFileSync(from);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const kept = [...header.spans].map(([key, { start, end }]) => [key, bytes.subarray(start, end)] as const);
  const metadata = new Map<string, NewValue | Uint8Array>([...kept, ...Object.entries(more)]);
  const plans = [...header.tensors.values()].map(({ name, type, dims }) => ({ name, type: type.name, dims }));
  const contents: Uint8Array[] = [...header.tensors.values()].map(({ offset, bytes: length }) =>
    bytes.subarray(header.dataStart + offset, header.dataStart + offset + length),
  );
  if (factors) {
    plans.push({ name: "rope_freqs.weight", type: "F32", dims: [factors.length] });
    contents.push(new Uint8Array(factors.buffer as ArrayBuffer));
  }
  const path = join(dir, `changed-${Bun.hash(JSON.stringify([from, more, factors?.join() ?? ""])).toString(36)}.gguf`);
  const padded = contents.flatMap((each, i) => {
    const size = tensorBytes(plans[i] as (typeof plans)[number]);
    return [each, new Uint8Array((32 - (size % 32)) % 32)];
  });
  writeFileSync(path, Buffer.concat([encodeGgufHeader(metadata, plans), ...padded]));
  return path;
}

/** Relative difference of the log-probabilities of a random text from llama.cpp's. */
function apart(opened: Opened, tokens: number): number {
  const graph = buildGraph(opened, shape({ rows: 1, tokens, trains: false }));
  const next = random(11);
  const ids = Int32Array.from({ length: tokens }, () => Math.floor(((next() + 1) / 2) * 250));
  const targets = Int32Array.from(ids, (_, i) => ids[i + 1] ?? -1);
  const positions = Int32Array.from(ids.keys());
  const scores = graph.forward({ ids, positions, sequences: new Int32Array(tokens), targets });
  graph.free();
  const theirs = logpsOf(opened.path, ids).map((each, i) => each[Math.max(0, targets[i] as number)] as number);
  const [mine, others] = [[...scores].slice(0, -1), theirs.slice(0, -1)];
  return Math.hypot(...mine.map((x, i) => x - (others[i] as number))) / Math.hypot(...others);
}

describe("positions that are scaled are scaled as llama.cpp does", () => {
  const factors = Float32Array.from({ length: 8 }, (_, i) => 1 + i);
  const original = { "llama.rope.scaling.original_context_length": uint32Value(32) };
  const yarn = { "llama.rope.scaling.type": textValue("yarn"), "llama.rope.scaling.factor": float32Value(8) };
  const linear = { "llama.rope.scaling.factor": float32Value(4) };
  const CASES: [string, Record<string, NewValue>, Float32Array | null][] = [
    ["not at all", {}, null],
    ["linearly", { "llama.rope.scaling.type": textValue("linear"), ...linear }, null],
    ["linearly without a type", linear, null],
    ["none in spite of a factor", { "llama.rope.scaling.type": textValue("none"), ...linear }, null],
    ["by the factors of Llama 3", {}, factors],
    ["by YaRN", { ...yarn, ...original }, null],
    ["by YaRN with a factor", { ...yarn, ...original, "llama.rope.scaling.attn_factor": float32Value(1.3) }, null],
  ];
  const plain = () => changed(makeModel(dir, MODEL), {}, null);
  test.each(CASES)("%s", (name, more, freqs) => {
    const opened = open(changed(makeModel(dir, MODEL), more, freqs));
    expect(apart(opened, 64)).toBeLessThan(2e-3);
    const isPlain = name === "not at all" || name.startsWith("none");
    const unlike = { ...open(plain()), path: opened.path };
    if (!isPlain) expect(apart(unlike, 64)).toBeGreaterThan(1e-2); // the case must make a difference
    unlike.close();
    shake(opened, 3);
    expect(gradientError(opened, shape({ tokens: 24, rows: 1 })).worst).toBeLessThan(1e-3);
    opened.close();
  });

  test("a scaling that cannot be trained is refused by name", () => {
    const path = changed(makeModel(dir, MODEL), { "llama.rope.scaling.type": textValue("longrope") }, null);
    expect(() => open(path)).toThrow("longrope");
  });
});

test.each(["blk.0.attn_output.bias", "blk.1.ffn_up.bias", "blk.0.attn_q_norm.weight", "blk.0.attn_qkv.weight"])(
  "a weight that no computation uses is refused by name: %s",
  (name) => {
    const bytes = readFileSync(makeModel(dir, MODEL));
    const header = parseGguf(bytes, bytes.length);
    if ("need" in header) throw new Error("the header is longer than the file");
    const [some] = header.tensors.values();
    expect(() => architectureOf(header)).not.toThrow();
    const tensors = new Map([...header.tensors, [name, { ...some!, name }]]);
    expect(() => architectureOf({ ...header, tensors })).toThrow(name);
  },
);

describe("an adapter learns on weights of every kind", () => {
  const WIDE: ModelOptions = {
    arch: "llama",
    type: "F32",
    layers: 2,
    width: 256,
    heads: 8,
    kvHeads: 4,
    ff: 256,
    seed: 2,
  };
  const KINDS = ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0"] as const satisfies Quantization[];
  test.each(KINDS)("%s: scores are llama.cpp's, gradients those of the same weights in F32", (quantization) => {
    const to = join(dir, `${quantization}.gguf`);
    quantizeModel(dir, { cuda: false }, { from: makeModel(dir, WIDE), to, quantization, threads: 1 });
    const opened = open(to);
    expect(apart(opened, 24)).toBeLessThan(2e-2); // both round activations to 8 bits, each in its own blocks
    const plain = open(decoded(to));
    const [found, expected] = [gradientsOf(opened), gradientsOf(plain)];
    expect(cosine(found, expected)).toBeGreaterThan(0.999);
    for (const each of [opened, plain]) each.close();
  });
});

function gradientsOf(opened: Opened): number[] {
  const { weights, backend, architecture } = opened;
  shake(opened, 3);
  const of = shape({ checkpoints: true, headChunk: 7 });
  const batch = randomBatch(of, architecture.vocab);
  const graph = buildGraph(opened, of);
  graph.forward(batch);
  graph.backward(Float32Array.from(batch.targets, (target) => (target < 0 ? 0 : 1)));
  graph.free();
  return weights.trainable.flatMap(({ gradient }) => [...getFloats(backend.ggml, gradient)]);
}

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = a.reduce((sum, x, i) => sum + x * (b[i] as number), 0);
  const length = (of: readonly number[]) => Math.sqrt(of.reduce((sum, x) => sum + x * x, 0));
  return dot / length(a) / length(b);
}

/** The same numbers, with every tensor in F32. */
function decoded(from: string): string {
  const bytes = readFileSync(from);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const backend = openBackend(dir, { kind: "cpu", threads: 1 });
  const tensors = [...header.tensors.values()];
  const contents = tensors.flatMap(({ type, dims, offset, bytes: size }) => {
    const rows = dims.slice(1).reduce((a, b) => a * b, 1);
    const merger = openRowMerger(backend, { from: type.name, to: "F32", inputs: dims[0] ?? 1, rows });
    const made = merger.merge(bytes.subarray(header.dataStart + offset, header.dataStart + offset + size), 0).slice();
    merger.free();
    return [made, new Uint8Array((32 - (made.byteLength % 32)) % 32)];
  });
  backend.close();
  const kept = [...header.spans].map(([key, { start, end }]) => [key, bytes.subarray(start, end)] as const);
  const plans = tensors.map(({ name, dims }) => ({ name, dims, type: "F32" }));
  writeFileSync(`${from}.f32`, Buffer.concat([encodeGgufHeader(new Map(kept), plans), ...contents]));
  return `${from}.f32`;
}
