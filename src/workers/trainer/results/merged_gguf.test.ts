// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { putFloats } from "../../../../test/ml/put_floats.ts";
import { type ModelOptions, makeModel } from "../../../../test/models.ts";
import {
  decodedTensors,
  headerOf,
  logitsOf,
  mergedByHand,
  randomAdapter,
  relativeError,
} from "../../../../test/results_kit.ts";
import { sampleOf } from "../../../../test/sweep.ts";
import { describe as shapeOf } from "../../../lib/gguf/describe.ts";
import { getFloats, openBackend } from "../../../native/ggml/ggml.ts";
import { sha256File } from "../../../platform/files.ts";
import { type Lora, loadWeights } from "../engine/weights.ts";
import { type Adapter, adapterOf, trainedRows } from "./adapter.ts";
import { writeAdapterGguf } from "./adapter_gguf.ts";
import { type MergedType, writeMergedGguf } from "./merged_gguf.ts";
import { writeQuantizedGguf } from "./quantized_gguf.ts";

const dir = tempDir();
const backend = openBackend(dir, { kind: "cpu", threads: 2 });
afterAll(() => {
  backend.close();
  rmSync(dir, { recursive: true, force: true });
});

const SIZE = { layers: 2, width: 256, heads: 4, kvHeads: 2, ff: 512 };
const PARTS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
const LORA = { rank: 8, alpha: 4, rslora: false, parts: PARTS };
const TOKENS = Int32Array.from({ length: 24 }, (_, i) => 40 + ((i * 37) % 80));

const model = (arch: ModelOptions["arch"], type: ModelOptions["type"] = "F32") =>
  makeModel(dir, { arch, type, ...SIZE });

/** The F32 base with the products added in place. */
function handMerged(base: string, adapter: Adapter, scale: number): string {
  const bytes = readFileSync(base);
  const { tensors, dataStart } = headerOf(bytes);
  for (const [name, { values }] of decodedTensors(base))
    bytes.set(new Uint8Array(mergedByHand(values, adapter, name, scale).buffer), dataStart + tensors.get(name)!.offset);
  const path = join(dir, `by-hand-${Bun.hash(bytes).toString(36)}.gguf`);
  writeFileSync(path, bytes);
  return path;
}

/** Returns the types of the matrices, and the largest deviation of a tensor from base plus adapter. */
function compare(path: string, base: string, adapter: Adapter) {
  const merged = decodedTensors(path);
  const errors = [...decodedTensors(base)].map(([name, { values }]) =>
    relativeError(merged.get(name)!.values, mergedByHand(values, adapter, name, adapter.alpha / adapter.rank)),
  );
  const { tensors } = headerOf(readFileSync(path));
  const matrices = [...tensors.values()].filter(({ dims }) => dims.length > 1);
  return { worst: Math.max(...errors), types: [...new Set(matrices.map(({ type }) => type.name))] };
}

describe("an adapter beside its model is the model with the products added", () => {
  const CASES = [
    ["llama", false, 0.5],
    ["qwen2", false, 0.5],
    ["qwen3", true, 4 / Math.sqrt(8)],
  ] as const;
  test.each(CASES)("%s, rslora %p", async (arch, rslora, scale) => {
    const base = model(arch);
    const adapter = randomAdapter(base, { ...LORA, rslora });
    const path = join(dir, `${arch}-adapter.gguf`);
    await writeAdapterGguf(path, adapter, "mine");
    const want = logitsOf(handMerged(base, adapter, scale), TOKENS);
    expect(relativeError(logitsOf(base, TOKENS, path), want)).toBeLessThan(1e-3);
    expect(relativeError(logitsOf(base, TOKENS), want)).toBeGreaterThan(0.1);
  });

  test("alpha 0, which llama.cpp takes for 1, is refused; so are the token embeddings", async () => {
    const adapter = randomAdapter(model("llama"), { ...LORA, alpha: 0 });
    const path = join(dir, "none.gguf");
    await expect(writeAdapterGguf(path, adapter)).rejects.toThrow("changes nothing");
    const embeddings = randomAdapter(model("llama"), { ...LORA, parts: ["token_embd"] });
    await expect(writeAdapterGguf(path, embeddings)).rejects.toThrow("Merge it");
  });
});

describe("a merged model holds the base's weights with the products added", () => {
  const CASES: [ModelOptions["arch"], ModelOptions["type"], MergedType, number][] = [
    ["llama", "F32", "F32", 1e-6],
    ["qwen2", "F32", "F16", 3e-4],
    ["qwen3", "F32", "BF16", 3e-3],
    ["llama", "F32", "Q8_0", 1e-2],
    ["qwen2", "F16", "F16", 3e-4],
    ["qwen3", "Q8_0", "F32", 1e-6],
    ["llama", "Q8_0", "Q8_0", 1e-2],
  ];
  test.each(sampleOf("types of merged models", CASES, 0.5))("%s, %s to %s", async (arch, from, type, most) => {
    const base = model(arch, from);
    const adapter = randomAdapter(base, LORA);
    const path = join(dir, `merged-${arch}-${from}-${type}.gguf`);
    const progress: number[] = [];
    const onProgress = (part: number) => progress.push(part);
    const written = await writeMergedGguf(backend, { base, path, type, learned: { adapter }, onProgress });
    expect(written).toEqual({ bytes: Bun.file(path).size, sha256: await sha256File(path) });
    expect(progress.at(-1)).toBe(1);
    const { worst, types } = compare(path, base, adapter);
    expect(worst).toBeLessThan(most);
    expect(types).toEqual([type]);
    expect(shapeOf(headerOf(readFileSync(path))).quantization).toBe(type);
  });

  test("libllama computes the same with the merged model as with base and adapter", async () => {
    const base = model("llama");
    const adapter = randomAdapter(base, LORA);
    const path = join(dir, "computes.gguf");
    await writeMergedGguf(backend, { base, path, type: "F16", learned: { adapter } });
    const want = logitsOf(handMerged(base, adapter, 0.5), TOKENS);
    const got = logitsOf(path, TOKENS);
    expect(relativeError(got, want)).toBeLessThan(1e-2);
    const best = (logits: Float32Array) =>
      Array.from(TOKENS, (_, row) => {
        const one = logits.subarray((row * logits.length) / TOKENS.length, ((row + 1) * logits.length) / TOKENS.length);
        return one.indexOf(Math.max(...one));
      });
    expect(best(got)).toEqual(best(want));
  });

  test.each(["phi3", "gemma3", "qwen3moe", "gpt-oss"] as const)("so does a merged %s", async (arch) => {
    const base = model(arch);
    const adapter = randomAdapter(base, { ...LORA, parts: [...PARTS, "attn_qkv"] });
    const path = join(dir, `computes-${arch}.gguf`);
    await writeMergedGguf(backend, { base, path, type: "F16", learned: { adapter } });
    const want = logitsOf(handMerged(base, adapter, 0.5), TOKENS);
    expect(relativeError(logitsOf(path, TOKENS), want)).toBeLessThan(2e-2);
    expect(relativeError(logitsOf(base, TOKENS), want)).toBeGreaterThan(0.1);
  });

  test("the tokenizer and the chat template are those of the base, byte by byte; the name may be another", async () => {
    const base = model("qwen3");
    const path = join(dir, "named.gguf");
    const learned = { adapter: randomAdapter(base, LORA) };
    await writeMergedGguf(backend, { base, path, type: "Q8_0", learned, name: "Mine" });
    const [old, made] = [base, path].map((file) => {
      const bytes = readFileSync(file);
      const { spans, metadata } = headerOf(bytes);
      const raw = [...spans].map(([key, { start, end }]) => [key, bytes.subarray(start, end).toString("hex")] as const);
      return { metadata, raw: new Map(raw) };
    });
    const changed = [...made!.raw.keys()].filter((key) => made!.raw.get(key) !== old!.raw.get(key));
    expect(changed.sort()).toEqual(["general.file_type", "general.name", "general.quantization_version"]);
    expect([...old!.raw.keys()].filter((key) => !made!.raw.has(key))).toEqual([]);
    expect(made!.metadata.get("general.name")?.value).toBe("Mine");
  });

  // The smallest pieces use a smaller model: each piece waits for a turn of the processor.
  const PIECES: [number, Partial<typeof SIZE>][] = [
    [1000, { width: 128, ff: 256 }],
    [40_000, {}],
    [100_000, {}],
  ];
  test.each(sampleOf("pieces of merged models", PIECES, 1 / 3))(
    "the merged file is the same when it is made %i weights at a time",
    async (pieceElements, size) => {
      const base = makeModel(dir, { arch: "llama", type: "Q8_0", ...SIZE, ...size });
      const learned = { adapter: randomAdapter(base, { ...LORA, parts: ["attn_q", "ffn_up", "ffn_down"] }) };
      const [path, whole] = [join(dir, `pieces-${pieceElements}.gguf`), join(dir, "whole.gguf")];
      const pieces = await writeMergedGguf(backend, { base, path, type: "Q8_0", learned, pieceElements });
      expect(pieces).toEqual(await writeMergedGguf(backend, { base, path: whole, type: "Q8_0", learned }));
      const kept = ["token_embd.weight", "blk.1.attn_k.weight", "blk.1.attn_norm.weight"];
      const [old, made] = [decodedTensors(base), decodedTensors(path)];
      for (const name of kept) expect(made.get(name)).toEqual(old.get(name)!);
    },
    300_000,
  );

  test("rows that Q8_0 cannot hold are stored as F16", async () => {
    const base = makeModel(dir, { arch: "llama", type: "F32", layers: 1, ff: 80 });
    const adapter = randomAdapter(base, LORA);
    const path = join(dir, "mixed.gguf");
    await writeMergedGguf(backend, { base, path, type: "Q8_0", learned: { adapter } });
    expect(headerOf(readFileSync(path)).tensors.get("blk.0.ffn_down.weight")?.type.name).toBe("F16");
    expect(compare(path, base, adapter).worst).toBeLessThan(1e-2);
  });

  test.each([
    ["width", { width: 128 }],
    ["key heads", { kvHeads: 4 }],
    ["number of layers", { layers: 3 }],
  ])("an adapter of a model with another %s is refused, and nothing is left behind", async (_name, change) => {
    const other = makeModel(dir, { arch: "llama", type: "F32", ...SIZE, ...change });
    const learned = { adapter: randomAdapter(other, LORA) };
    const empty = tempDir();
    const options = { base: model("llama"), path: join(empty, "x.gguf"), type: "F16", learned } as const;
    await expect(writeMergedGguf(backend, options)).rejects.toThrow("belongs to another model");
    expect(readdirSync(empty)).toEqual([]);
  });
});

test("a mixed quantization equals libllama's own, and its result can be merged again as a base", async () => {
  const base = model("llama");
  const adapter = randomAdapter(base, LORA);
  const place = tempDir();
  const path = join(place, "q4.gguf");
  const native = { through: "F16", quantization: "Q4_K_M", threads: 2, dataDir: dir, cuda: false } as const;
  const written = await writeQuantizedGguf(backend, { base, path, learned: { adapter }, ...native });
  expect(readdirSync(place)).toEqual(["q4.gguf"]);
  expect([written.bytes, statSync(path).mode & 0o777]).toEqual([Bun.file(path).size, 0o600]);
  const first = compare(path, base, adapter);
  expect(first.types.sort()).toEqual(["Q4_K", "Q6_K"]);
  expect(first.worst).toBeLessThan(0.1);
  const header = headerOf(readFileSync(path));
  expect(shapeOf(header)).toMatchObject({ quantization: "Q4_K_M", has_chat_template: true });

  const again = join(place, "f32.gguf");
  await writeMergedGguf(backend, { base: path, path: again, type: "F32", learned: { adapter } });
  const second = compare(again, path, adapter);
  expect(second).toEqual({ worst: expect.any(Number), types: ["F32"] });
  expect(second.worst).toBeLessThan(1e-6);
});

describe("the weights in the trainer equal the weights in the files", () => {
  const opened = (lora: Lora | null) => {
    const path = model("qwen2");
    return { path, weights: loadWeights(backend, { path, header: headerOf(readFileSync(path)) }, lora) };
  };

  test("an adapter", () => {
    const { weights } = opened({ rank: 4, alpha: 8, rslora: true, targets: ["attn_k", "ffn_down"] });
    weights.trainable.forEach(({ tensor, shape }, i) => {
      putFloats(backend.ggml, tensor, new Float32Array(shape[0]! * shape[1]!).fill(i + 1), shape[0]!);
    });
    const { layers, ...lora } = adapterOf(weights, "qwen2");
    weights.free();
    expect(lora).toEqual({ architecture: "qwen2", rank: 4, alpha: 8, rslora: true });
    expect(
      layers.map(({ name, inputs, outputs, a, b }) => [name, inputs, outputs, a.length, b.length, a[0], b[0]]),
    ).toEqual([
      ["blk.0.attn_k.weight", 256, 128, 1024, 512, 1, 2],
      ["blk.0.ffn_down.weight", 512, 256, 2048, 1024, 3, 4],
      ["blk.1.attn_k.weight", 256, 128, 1024, 512, 5, 6],
      ["blk.1.ffn_down.weight", 512, 256, 2048, 1024, 7, 8],
    ]);
  });

  test("all weights, with norms and biases", async () => {
    const { path: base, weights } = opened(null);
    for (const { tensor, shape } of weights.trainable)
      putFloats(
        backend.ggml,
        tensor,
        getFloats(backend.ggml, tensor).map((value) => value * 2),
        shape[0]!,
      );
    const path = join(dir, "full.gguf");
    await writeMergedGguf(backend, {
      base,
      path,
      type: "F32",
      learned: { weights: trainedRows(weights) },
      pieceElements: 40_000,
    });
    weights.free();
    const made = decodedTensors(path);
    for (const [name, { values }] of decodedTensors(base))
      expect(made.get(name)?.values).toEqual(values.map((value) => value * 2));
  });
});
