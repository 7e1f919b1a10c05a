import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { f32, i32s, str, strings, u32, writeGguf } from "../../../../test/gguf_writer.ts";
import { tempDir } from "../../../../test/harness.ts";
import { makeModel } from "../../../../test/models.ts";
import { decodedTensors, randomAdapter } from "../../../../test/results_kit.ts";
import { familyOf } from "../../../lib/checkpoints/families.ts";
import { openBackend } from "../../../native/ggml/ggml.ts";
import { parseSafetensors } from "../../checkpoints/safetensors.ts";
import { rotatedRow, tensorNames } from "../../checkpoints/tensors.ts";
import { readVocabulary, TOKEN } from "./gguf_tokens.ts";
import { openHfFolder } from "./hf_folder.ts";
import { tokenizerConfig, tokenizerJson } from "./hf_tokenizer.ts";
import { openMerged, writeMergedGguf } from "./merged_gguf.ts";

const dir = tempDir();
const backend = openBackend(dir, { kind: "cpu", threads: 1 });
afterAll(() => {
  backend.close();
  rmSync(dir, { recursive: true, force: true });
});

const SIZE = { layers: 2, width: 64, heads: 4, kvHeads: 2, ff: 96 };
const LORA = { rank: 4, alpha: 4, rslora: false, parts: ["attn_q", "attn_k", "attn_v", "ffn_down"] };
type Options = Parameters<typeof openHfFolder>[1];

/** The files of the folder by name, as bytes. */
async function filesOf(options: Options): Promise<Map<string, Uint8Array>> {
  const folder = await openHfFolder(backend, options);
  const files = new Map<string, Uint8Array>();
  for (const { name, size, content } of folder.entries) {
    const bytes = new Uint8Array(size);
    let at = 0;
    for await (const chunk of content()) {
      bytes.set(chunk, at);
      at += chunk.byteLength;
    }
    expect([name, at]).toEqual([name, size]);
    files.set(name, bytes);
  }
  await folder.close();
  return files;
}
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was written
const json = (files: Map<string, Uint8Array>, name: string): any =>
  JSON.parse(new TextDecoder().decode(files.get(name)));

function tensorsOf(bytes: Uint8Array) {
  const parsed = parseSafetensors(bytes, bytes.byteLength);
  if ("need" in parsed) throw new Error("the header is not whole");
  return new Map(
    [...parsed.tensors].map(([name, { start, bytes: size, shape, dtype }]) => [
      name,
      { shape, dtype, bytes: bytes.slice(start, start + size) },
    ]),
  );
}

test.each(["llama", "qwen2", "qwen3"] as const)(
  "%s: every merged weight stands in the folder under its name, bit for bit",
  async (arch) => {
    const base = makeModel(dir, { arch, type: "F32", ...SIZE });
    const adapter = randomAdapter(base, LORA);
    const files = await filesOf({ base, learned: { adapter }, type: "F32" });
    const config = json(files, "config.json");
    expect(config).toMatchObject({ model_type: arch, hidden_size: 64, num_hidden_layers: 2, torch_dtype: "float32" });
    expect(config).toMatchObject({ num_attention_heads: 4, num_key_value_heads: 2, tie_word_embeddings: false });
    expect(config.pad_token_id).toEqual(config.eos_token_id); // not the default of the class
    expect(config.architectures).toEqual([
      { llama: "LlamaForCausalLM", qwen2: "Qwen2ForCausalLM", qwen3: "Qwen3ForCausalLM" }[arch],
    ]);
    const found = tensorsOf(files.get("model.safetensors")!);
    const path = join(dir, `merged-${arch}.gguf`);
    await writeMergedGguf(backend, { base, path, type: "F32", learned: { adapter } });
    const stored = decodedTensors(path);
    const names = tensorNames(familyOf(arch)!, { layers: 2 }).filter(({ gguf }) => stored.has(gguf));
    expect([...found.keys()].sort()).toEqual(names.map(({ hf }) => hf[0]!).sort());
    for (const { gguf, hf, change } of names) {
      const { values: wanted } = stored.get(gguf)!;
      const { bytes, shape } = found.get(hf[0]!)!;
      const got = new Float32Array(bytes.buffer);
      const rows = change === "same" ? 1 : shape[0]!;
      const width = wanted.length / rows;
      for (let row = 0; row < rows; row++) {
        const to = change === "same" ? row : rotatedRow(row, config.head_dim);
        expect(got.slice(to * width, (to + 1) * width)).toEqual(wanted.slice(row * width, (row + 1) * width));
      }
    }
  },
);

test("a quantized base is written as BF16, in shards with an index", async () => {
  const base = makeModel(dir, { arch: "qwen3", type: "Q8_0", ...SIZE });
  const files = await filesOf({ base, learned: { weights: () => undefined }, type: "BF16", limit: 60_000 });
  const index = json(files, "model.safetensors.index.json");
  const shards = [...files.keys()].filter((name) => name.endsWith(".safetensors"));
  expect(shards.length).toBeGreaterThan(1);
  expect(shards[0]).toBe(`model-00001-of-${String(shards.length).padStart(5, "0")}.safetensors`);
  const all = new Map(
    shards.flatMap((name) => [...tensorsOf(files.get(name)!)].map(([key, value]) => [key, { ...value, name }])),
  );
  expect(Object.keys(index.weight_map).sort()).toEqual([...all.keys()].sort());
  for (const [key, { name, dtype }] of all) expect([index.weight_map[key], dtype]).toEqual([name, "BF16"]);
  const total = [...all.values()].reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  expect(index.metadata.total_size).toBe(total);
  const { bytes } = all.get("model.embed_tokens.weight")!;
  const { values } = decodedTensors(base).get("token_embd.weight")!;
  const got = new Float32Array(Uint32Array.from(new Uint16Array(bytes.buffer), (bits) => bits << 16).buffer);
  for (let i = 0; i < 500; i++) expect(Math.abs(got[i]! - values[i]!)).toBeLessThanOrEqual(Math.abs(values[i]!) / 256);
});

test("the tokenizer of a byte-level file: all ids, the merges, the special tokens, the template", async () => {
  const base = makeModel(dir, { arch: "llama", type: "F32", ...SIZE });
  const files = await filesOf({ base, learned: { weights: () => undefined }, type: "F32" });
  const tokenizer = json(files, "tokenizer.json");
  const config = json(files, "tokenizer_config.json");
  const { vocab, merges } = tokenizer.model;
  const count = json(files, "config.json").vocab_size;
  expect(Object.values<number>(vocab).sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => i));
  expect(merges[2]).toEqual(["Ġt", "h"]);
  expect(tokenizer.pre_tokenizer).toMatchObject({ type: "ByteLevel", use_regex: true, add_prefix_space: false });
  const end = tokenizer.added_tokens.find(({ content }: { content: string }) => content === "<|im_end|>");
  expect(end).toMatchObject({ id: vocab["<|im_end|>"], special: true });
  expect(config).toMatchObject({ bos_token: "<|endoftext|>", eos_token: "<|im_end|>", add_bos_token: false });
  expect(config.chat_template).toContain("<|im_start|>");
  expect(json(files, "generation_config.json").eos_token_id).toBe(vocab["<|im_end|>"]);
});

test("the tokenizer of a sentencepiece file: merges by score, bytes for unknown characters, a first token", async () => {
  const tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "ab", "▁a", "▁ab", "\ufeff"];
  const { unknown, control, byte, normal } = TOKEN;
  const path = join(dir, "spm.gguf");
  writeGguf(
    path,
    {
      "general.architecture": str("llama"),
      "tokenizer.ggml.model": str("llama"),
      "tokenizer.ggml.tokens": strings(tokens),
      "tokenizer.ggml.scores": { type: "array", of: "f32", value: [0, 0, 0, 0, -9, -8, -7, -2, -1, -3, -9] },
      "tokenizer.ggml.token_type": i32s([unknown, control, control, byte, ...Array<number>(7).fill(normal)]),
      "tokenizer.ggml.bos_token_id": u32(1),
      "tokenizer.ggml.eos_token_id": u32(2),
      "llama.x": f32(1),
    },
    [{ name: "x", shape: [1], type: "F32", values: new Float32Array(1) }],
  );
  const merged = await openMerged(backend, { base: path, learned: { weights: () => undefined } });
  const vocabulary = await readVocabulary(merged.header, merged.readSpan);
  await merged.close();
  expect(vocabulary).toMatchObject({ tokens, bos: 1, eos: [2], addsBos: true, addsSpace: true });
  const tokenizer = JSON.parse(JSON.stringify(tokenizerJson(vocabulary)));
  expect(tokenizer.model).toMatchObject({ type: "BPE", byte_fallback: true, fuse_unk: true, unk_token: "<unk>" });
  expect(tokenizer.model.merges).toEqual([
    ["▁", "a"],
    ["a", "b"],
    ["▁", "ab"],
    ["▁a", "b"],
  ]);
  expect(tokenizer.normalizer.normalizers[0]).toEqual({ type: "Prepend", prepend: "▁" });
  expect(tokenizer.post_processor.single[0]).toEqual({ SpecialToken: { id: "<s>", type_id: 0 } });
  expect(tokenizerConfig(vocabulary, 64)).toMatchObject({
    pad_token: "</s>",
    unk_token: "<unk>",
    model_max_length: 64,
  });
});

test("what has no Hugging Face form is refused with what to use instead", async () => {
  const base = makeModel(dir, { arch: "llama", type: "F32", ...SIZE });
  const merged = await openMerged(backend, { base, learned: { weights: () => undefined } });
  const vocabulary = await readVocabulary(merged.header, merged.readSpan);
  await merged.close();
  expect(() => tokenizerJson({ ...vocabulary, pre: "porcelain" })).toThrow(/gpt2 porcelain.*Use the variant gguf/);
});
