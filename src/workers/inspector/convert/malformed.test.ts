/** Folders that are damaged or hostile: each is refused with one sentence that names what is wrong. */
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { tempDir } from "../../../../test/harness.ts";
import {
  type FolderOptions,
  filesIn,
  safetensors,
  tokenizerJson,
  type Weight,
  writeFolder,
} from "../../../../test/hugging_face.ts";
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { GgufError } from "../../../lib/gguf/parse.ts";
import { convert } from "./convert.ts";

type Row = [what: string, sentence: RegExp, options: FolderOptions, change?: (dir: string) => void];

const Q = "model.layers.0.self_attn.q_proj.weight";
const SINGLE = "model.safetensors";
const INDEX = "model.safetensors.index.json";
const PART = "model-00002-of-00002.safetensors";

const rename = (from: string, to: string) => (weights: Weight[]) =>
  weights.map((weight) => (weight.name === from ? { ...weight, name: to } : weight));
const without = (name: string) => (weights: Weight[]) => weights.filter((weight) => weight.name !== name);
const reshape = (name: string, shape: number[]) => (weights: Weight[]) =>
  weights.map((weight) => (weight.name === name ? { ...weight, shape } : weight));

/** A safetensors file with this header and this many bytes of content. */
function raw(header: string | object, content = 0, length?: bigint): Uint8Array {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(length ?? BigInt(json.byteLength));
  return Buffer.concat([size, json, Buffer.alloc(content)]);
}
const one = (entry: object, content = 0) => ({ files: { [SINGLE]: raw({ x: entry }, content) } });
const tokenizer = (change: object) => ({
  files: { "tokenizer.json": JSON.stringify({ ...tokenizerJson(), ...change }) },
});
const model = (change: object) => tokenizer({ model: { ...tokenizerJson().model, ...change } });
const json = (name: string, value: unknown) => ({ files: { [name]: JSON.stringify(value) } });

const pipeAt = (path: string) => void Bun.spawnSync(["mkfifo", path]);

const ROWS: Row[] = [
  ["no config", /config\.json is missing/, { files: { "config.json": null } }],
  ["a config that is no JSON", /config\.json is not JSON/, { files: { "config.json": "{" } }],
  ["a config that is nested too deeply", /config\.json/, { files: { "config.json": "[".repeat(2_000_000) } }],
  ["an unknown family", /"MambaForCausalLM".*not supported/, { config: { architectures: ["MambaForCausalLM"] } }],
  ["a family that is no text", /names nothing/, { config: { architectures: [{}] } }],
  ["no number of heads", /no num_attention_heads/, { config: { num_attention_heads: null } }],
  ["layers as text", /num_hidden_layers/, { config: { num_hidden_layers: "2" } }],
  ["2^31 layers", /num_hidden_layers/, { config: { num_hidden_layers: 2 ** 31 } }],
  ["100000 layers", /out of range/, { config: { num_hidden_layers: 100_000 } }],
  ["more layers than tensors", /"model\.layers\.2\..*" is missing/, { config: { num_hidden_layers: 3 } }],
  ["GPTQ weights", /quantized with gptq/, { config: { quantization_config: { quant_method: "gptq" } } }],
  ["an unknown rope scaling", /rope scaling "dynamic"/, { config: { rope_scaling: { type: "dynamic", factor: 2 } } }],
  [
    "weights of experts that are not normalized",
    /norm_topk_prob must/,
    { architecture: "qwen3moe", config: { norm_topk_prob: false } },
  ],
  ["heads that do not fit the width", /not a multiple/, { config: { head_dim: null, hidden_size: 65 } }],
  ["a missing shard", /model-00002.*is missing/, { shards: 2, files: { [PART]: null } }],
  ["an index without a map", /weight_map/, { shards: 2, ...json(INDEX, {}) }],
  [
    "an index that leaves the folder",
    /not a safetensors file of the folder/,
    { shards: 2, ...json(INDEX, { weight_map: { x: "../../etc/passwd" } }) },
  ],
  [
    "an index that lists too little",
    /does not list it there/,
    { shards: 2, ...json(INDEX, { weight_map: { x: PART } }) },
  ],
  ["several files without an index", /no model\.safetensors\.index\.json/, { shards: 2, files: { [INDEX]: null } }],
  ["only pickled weights", /can run code/, { files: { [SINGLE]: null, "pytorch_model.bin": "x" } }],
  ["an empty weights file", /too few/, { files: { [SINGLE]: "" } }],
  ["a header of 2^63 bytes", /The header claims 92233720368547/, { files: { [SINGLE]: raw("{}", 0, 2n ** 63n) } }],
  [
    "a tensor of 2^63 elements",
    /dtype, shape|larger than any file/,
    one({ dtype: "F32", shape: [2 ** 53 - 1, 2048], data_offsets: [0, 4] }, 4),
  ],
  ["an unknown type", /unknown type "Q9"/, one({ dtype: "Q9", shape: [1], data_offsets: [0, 4] }, 4)],
  [
    "overlapping tensors",
    /begins at byte/,
    {
      files: {
        [SINGLE]: raw(
          {
            a: { dtype: "U8", shape: [4], data_offsets: [0, 4] },
            b: { dtype: "U8", shape: [4], data_offsets: [2, 6] },
          },
          6,
        ),
      },
    },
  ],
  [
    "a hole between tensors",
    /begins at byte/,
    {
      files: {
        [SINGLE]: raw(
          {
            a: { dtype: "U8", shape: [1], data_offsets: [0, 1] },
            b: { dtype: "U8", shape: [1], data_offsets: [2, 3] },
          },
          3,
        ),
      },
    },
  ],
  ["a truncated shard", /The tensors end at byte/, {}, (dir) => truncateSync(join(dir, SINGLE), 100_000)],
  [
    "a folder instead of a shard",
    /EISDIR|not a regular file/,
    { files: { [SINGLE]: null } },
    (dir) => mkdirSync(join(dir, SINGLE)),
  ],
  [
    "a named pipe instead of a shard",
    /not a regular file/,
    { files: { [SINGLE]: null } },
    (dir) => pipeAt(join(dir, SINGLE)),
  ],
  [
    "a link to a device instead of a tokenizer",
    /not a regular file/,
    { files: { "tokenizer.json": null } },
    (dir) => symlinkSync("/dev/zero", join(dir, "tokenizer.json")),
  ],
  [
    "a config of a terabyte",
    /config\.json has \d+ bytes/,
    {},
    (dir) => truncateSync(join(dir, "config.json"), 2 ** 40),
  ],
  [
    "a header of 33 MiB",
    /The header has \d+ bytes; the maximum is/,
    { files: { [SINGLE]: raw(`{}${" ".repeat(33 * 2 ** 20)}`) } },
  ],
  [
    "1,025 shards",
    /1025 shards; the maximum is 1024/,
    {
      shards: 2,
      ...json(INDEX, {
        weight_map: Object.fromEntries(Array.from({ length: 1_025 }, (_, i) => [`t${i}`, `m-${i}.safetensors`])),
      }),
    },
  ],
  ["a missing tensor", /q_proj\.weight" is missing/, { edit: without(Q) }],
  [
    "a tensor with a hostile name",
    /which a LlamaForCausalLM does not have/,
    { edit: (all) => [...all, { ...(all[0] as Weight), name: "../../../etc/\u0000passwd\n" }] },
  ],
  ["a tensor named __proto__", /q_proj\.weight" is missing/, { edit: rename(Q, "__proto__") }],
  ["a tensor of another shape", /4096|requires/, { edit: reshape(Q, [32, 128]) }],
  [
    "a tensor without elements",
    /is empty/,
    {
      edit: (all) => all.map((each) => (each.name === Q ? { ...each, shape: [0, 64], bytes: new Uint8Array() } : each)),
    },
  ],
  [
    "the same tensor in two shards",
    /is in two files/,
    {
      shards: 2,
      files: {
        [PART]: safetensors(
          [{ name: "model.embed_tokens.weight", dtype: "U8", shape: [1], bytes: new Uint8Array(1) }],
          1,
        )[SINGLE] as Uint8Array,
      },
    },
  ],
  ["no tokenizer", /neither tokenizer\.json nor tokenizer\.model/, { files: { "tokenizer.json": null } }],
  [
    "a zip bomb as tokenizer",
    /tokenizer\.json is not/,
    { files: { "tokenizer.json": gzipSync(Buffer.alloc(1 << 24)) } },
  ],
  ["a tokenizer of a gigabyte", /the maximum is/, {}, (dir) => truncateSync(join(dir, "tokenizer.json"), 2 ** 30)],
  ["unknown rules for splitting", /rules that are not supported/, tokenizer({ pre_tokenizer: { type: "Whitespace" } })],
  ["a wordpiece tokenizer", /only BPE/, model({ type: "WordPiece" })],
  ["a token beyond the embedding", /embedding has 288 rows/, model({ vocab: { a: 99_999 } })],
  ["a merge that is no pair", /merge 0 is not a pair/, model({ merges: ["a b c"] })],
  [
    "a damaged sentencepiece file",
    /SentencePiece/,
    { files: { "tokenizer.json": null, "tokenizer.model": Buffer.alloc(64, 0xff) } },
  ],
  [
    "a sentencepiece field of 2^60 bytes",
    /longer than the file/,
    {
      files: {
        "tokenizer.json": null,
        "tokenizer.model": Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
      },
    },
  ],
  [
    "an end token beyond the vocabulary",
    /eos_token is token 9999/,
    { config: { eos_token_id: 9999 }, ...json("tokenizer_config.json", {}) },
  ],
  [
    "a chat template that is no text",
    /chat_template\.jinja is not text/,
    { files: { "chat_template.jinja": Buffer.from([0xff, 0xfe]) } },
  ],
];

for (const [what, sentence, options, change] of ROWS)
  test(what, async () => {
    const [dir, out] = [tempDir(), tempDir()];
    writeFolder(dir, options);
    change?.(dir);
    const into = join(out, "model.gguf");
    const error = await convert({
      files: filesIn(dir),
      name: "bad",
      into,
      quantize: null,
      onProgress: () => {},
      dataDir: "",
    }).then(
      () => undefined,
      (thrown: Error & { code?: string }) => thrown,
    );
    expect(error?.message).toMatch(sentence);
    expect(error instanceof CheckpointError || error instanceof GgufError || error?.code === "EISDIR").toBe(true);
    expect(error?.message).not.toContain("\n");
    expect(readdirSync(out)).toEqual([]);
  });

test("every row has its own name, and there are enough", () => {
  expect(new Set(ROWS.map(([what]) => what)).size).toBe(ROWS.length);
  expect(ROWS.length).toBeGreaterThanOrEqual(30);
});

test("a disk that fills up leaves no file", async () => {
  const dir = tempDir();
  writeFolder(dir);
  writeFileSync(join(dir, "README.md"), "");
  const failing = convert({
    files: filesIn(dir),
    name: "x",
    into: "/dev/full/model.gguf",
    quantize: null,
    dataDir: "",
    onProgress: () => {},
  });
  expect(failing).rejects.toThrow();
});
