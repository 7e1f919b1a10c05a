import { expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { bool, f32, type GgufValue, ggufHeader, i32s, str, strings, u32 } from "../../../test/gguf_writer.ts";
import { tempDir } from "../../../test/harness.ts";
import { makeModel } from "../../../test/models.ts";
import { describe, describeServed } from "./describe.ts";
import { createDistinct } from "./distinct.ts";
import { estimateMemory } from "./memory.ts";
import { GgufError, parseGguf } from "./parse.ts";

const METADATA: Record<string, GgufValue> = {
  "general.architecture": str("mystery"),
  "mystery.block_count": u32(2),
  "mystery.embedding_length": u32(64),
  "mystery.context_length": u32(128),
  "mystery.attention.head_count": u32(4),
  "tokenizer.ggml.model": str("gpt2"),
  "tokenizer.ggml.tokens": strings(["a", "b", "c", "d"]),
};
const TENSOR = { name: "t", shape: [32, 2], type: "F32" } as const;
const TENSOR_BYTES = 256;

function shape(changes: Record<string, GgufValue>, tensors = [TENSOR]) {
  const header = ggufHeader({ ...METADATA, ...changes }, tensors);
  const parsed = parseGguf(header, header.byteLength + TENSOR_BYTES * tensors.length);
  if ("need" in parsed) throw new Error(`needs ${parsed.need}`);
  return describe(parsed);
}

test("a model that the library cannot run is refused; an adapter is not judged by its architecture", () => {
  const refused = (changes: Record<string, GgufValue>) => {
    const header = ggufHeader({ ...METADATA, ...changes }, [TENSOR]);
    const parsed = parseGguf(header, header.byteLength + TENSOR_BYTES);
    if ("need" in parsed) throw new Error(`needs ${parsed.need}`);
    return () => describeServed(parsed);
  };
  expect(refused({})).toThrow("The model cannot be served: its architecture mystery is not known to this version");
  expect(refused({ "general.architecture": str("t5") })).toThrow("t5 is an encoder with a decoder");
  expect(refused({ "general.type": str("adapter") })).not.toThrow("cannot be served");
});

test("numbers of a long array are counted and not kept; what follows them is read", () => {
  for (const [length, kept] of [
    [1_024, true],
    [1_025, false],
  ] as const) {
    const numbers = Array.from({ length }, (_, i) => i);
    const header = ggufHeader({ ...METADATA, "mystery.list": i32s(numbers), "mystery.behind": u32(7) }, [TENSOR]);
    const parsed = parseGguf(header, header.byteLength + TENSOR_BYTES);
    if ("need" in parsed) throw new Error(`needs ${parsed.need}`);
    const { metadata } = parsed;
    expect(metadata.get("mystery.list")?.value).toEqual({ of: "int32", length, numbers: kept ? numbers : undefined });
    expect(metadata.get("mystery.behind")?.value).toBe(7);
  }
});

test("an unknown architecture is described by its metadata", () => {
  expect(shape({})).toEqual({
    architecture: "mystery",
    parameters: 64,
    context_length: 128,
    quantization: "F32",
    layers: 2,
    embedding_length: 64,
    heads: 4,
    kv_heads: 4,
    key_length: 16,
    value_length: 16,
    vocab_size: 4,
    weight_bytes: TENSOR_BYTES,
    name: null,
    has_chat_template: false,
    type: "model",
  });
});

test("a model whose tokens see all others is an encoder, without a cache", () => {
  const encoder = shape({ "mystery.attention.causal": bool(false), "mystery.pooling_type": u32(1) });
  expect(encoder.encoder).toBe(true);
  expect(shape({ "mystery.attention.causal": bool(true) })).not.toHaveProperty("encoder");
  const { kv, compute, weights, total } = estimateMemory(encoder, { contextLength: 128, parallel: 8 });
  expect([kv, total]).toEqual([0, weights + compute]);
});

test("heads may be given for each layer", () => {
  expect(shape({ "mystery.attention.head_count_kv": i32s([2, 4]) })).toMatchObject({ kv_heads: 4 });
});

test.each([
  ["a projector", { "general.architecture": str("clip") }, "a projector for images or sounds (mmproj)"],
  [
    "a projector by its type",
    { "general.type": str("mmproj") },
    "Import it with its model: verk models import MODEL --mmproj FILE",
  ],
  ["causal as a number", { "mystery.attention.causal": u32(0) }, "mystery.attention.causal must be a bool"],
  ["an unknown pooling", { "mystery.pooling_type": u32(5) }, "mystery.pooling_type is 5. Expected 0 to 4"],
  ["a reranker without its head", { "mystery.pooling_type": u32(4) }, "the file has no tensor cls.output.weight"],
  ["no layers", { "mystery.block_count": u32(0) }, "mystery.block_count is 0. Expected 1 to 512"],
  ["layers as a float", { "mystery.block_count": f32(2) }, "mystery.block_count must be a uint32, not float32"],
  ["a width beyond reason", { "mystery.embedding_length": u32(2 ** 31) }, "mystery.embedding_length"],
  ["heads for too few layers", { "mystery.attention.head_count": i32s([4]) }, "has 1 values for 2 layers"],
  ["negative heads", { "mystery.attention.head_count": i32s([4, -4]) }, "head_count[1] is -4"],
  ["a token twice", { "tokenizer.ggml.tokens": strings(["a", "b", "c", "a"]) }, "element 3"],
  ["a token twice up to its zero byte", { "tokenizer.ggml.tokens": strings(["a", "b\0x", "c", "b"]) }, "element 3"],
  ["a token named like an empty one", { "tokenizer.ggml.tokens": strings(["a", "", "[EMPTY_1]", "b"]) }, "element 2"],
  ["too few token types", { "tokenizer.ggml.token_type": i32s([1]) }, "1 entries, but there are 4 tokens"],
  ["experts without use", { "mystery.expert_count": u32(8) }, "expert_used_count is 0 of 8"],
  ["a part of a split", { "split.count": u32(3) }, "all parts in one folder"],
  ["no tokenizer", { "tokenizer.ggml.model": str("none") }, "no tokenizer"],
  ["an odd alignment", { "general.alignment": u32(33) }, "general.alignment is 33"],
  ["an architecture that is no name", { "general.architecture": str("a\nb") }, "not a valid name"],
] as const)("%s is refused by name", (_case, changes, words) => {
  expect(() => shape(changes as Record<string, GgufValue>)).toThrow(words);
});

test("a missing key is named", () => {
  const { "mystery.context_length": _gone, ...rest } = METADATA;
  const header = ggufHeader(rest, [TENSOR]);
  const parsed = parseGguf(header, header.byteLength + TENSOR_BYTES);
  expect(() => describe(parsed as Exclude<typeof parsed, { need: number }>)).toThrow(
    "mystery.context_length is missing",
  );
});

test("the error distinguishes other formats, versions and byte orders", () => {
  const start = (...bytes: number[]) => new Uint8Array([...bytes, ...Array(32).fill(0)]);
  const parse = (bytes: Uint8Array) => () => parseGguf(bytes, bytes.byteLength);
  expect(parse(start(0x50, 0x4b, 3, 4))).toThrow("not a GGUF file");
  expect(parse(start(0x47, 0x47, 0x55, 0x46, 1, 0, 0, 0))).toThrow("version 1 is not supported");
  expect(parse(start(0x47, 0x47, 0x55, 0x46, 0, 0, 0, 3))).toThrow("big endian");
  expect(parse(new Uint8Array(0))).toThrow("The file ends inside the first four bytes");
});

test("the parser requests no more bytes than it needs, and never more than the file has", () => {
  const header = ggufHeader(METADATA, [TENSOR]);
  let length = 0;
  for (let rounds = 0; ; rounds++) {
    const parsed = parseGguf(header.subarray(0, length), header.byteLength + TENSOR_BYTES);
    if (!("need" in parsed)) break;
    expect(parsed.need).toBeGreaterThan(length);
    expect(parsed.need).toBeLessThanOrEqual(header.byteLength);
    length = parsed.need;
    expect(rounds).toBeLessThan(1000);
  }
});

test("a string that claims more bytes than the file has causes no large allocation", () => {
  const header = ggufHeader(METADATA, [TENSOR]);
  new DataView(header.buffer).setBigUint64(24, 2n ** 60n, true); // the length of the first key
  expect(() => parseGguf(header, Number.MAX_SAFE_INTEGER)).toThrow(GgufError);
});

test("tensors of a known architecture must have the shapes of the metadata", () => {
  const dir = tempDir();
  const bytes = new Uint8Array(readFileSync(makeModel(dir, { arch: "qwen3", type: "F32" })));
  rmSync(dir, { recursive: true });
  const text = Buffer.from(bytes).indexOf("qwen3.feed_forward_length");
  new DataView(bytes.buffer).setUint32(text + "qwen3.feed_forward_length".length + 4, 48, true);
  const parsed = parseGguf(bytes, bytes.byteLength);
  expect(() => describe(parsed as Exclude<typeof parsed, { need: number }>)).toThrow(
    'Tensor "blk.0.ffn_gate.weight" is',
  );
});

test("distinct byte strings stay distinct, also when their hashes collide", () => {
  const bytes = new Uint8Array(3000).map((_, i) => 1 + ((i * 7919) % 251));
  const isNew = createDistinct(bytes, 1000);
  const seen = new Set<string>();
  for (let i = 0; i < 1000; i++) {
    const [start, length] = [(i * 31) % 2900, 1 + (i % 3)];
    const text = bytes.subarray(start, start + length).join();
    expect(isNew(start, start + length)).toBe(!seen.has(text));
    seen.add(text);
  }
});

test("the memory of a context grows with its length and its sequences", () => {
  const small = estimateMemory(shape({}), { contextLength: 128, parallel: 1 });
  expect(small.kv).toBe(128 * 2 * 4 * (16 + 16) * 2); // cells × layers × heads × lengths × two bytes
  expect(estimateMemory(shape({}), { contextLength: 128, parallel: 8 }).kv).toBe(8 * small.kv);
  expect(small.total).toBe(small.weights + small.kv + small.compute);
});
