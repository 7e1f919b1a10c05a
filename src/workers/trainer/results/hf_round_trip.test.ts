import { afterAll, expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { filesIn, type Weight, writeFolder } from "../../../../test/hugging_face.ts";
import { FAMILIES } from "../../../lib/checkpoints/families.ts";
import { type Header, parseGguf } from "../../../lib/gguf/parse.ts";
import { openBackend } from "../../../native/ggml/ggml.ts";
import { convert } from "../../inspector/convert/convert.ts";
import { openHfFolder } from "./hf_folder.ts";
import { whole } from "./hf_weights.ts";
import { openMerged } from "./merged_gguf.ts";

const root = tempDir();
const backend = openBackend(root, { kind: "cpu", threads: 1 });
afterAll(() => {
  backend.close();
  rmSync(root, { recursive: true, force: true });
});

async function imported(dir: string, into: string) {
  await convert({ files: filesIn(dir), name: "tiny", into, quantize: null, dataDir: root, onProgress: () => {} });
  const bytes = readFileSync(into);
  const { tensors, metadata, dataStart } = parseGguf(bytes, bytes.byteLength) as Header;
  return {
    tensors: new Map(
      [...tensors].map(([name, { type, dims, offset, bytes: size }]) => {
        const start = dataStart + offset;
        return [name, `${type.name} ${dims} ${Bun.hash(bytes.subarray(start, start + size))}`];
      }),
    ),
    metadata: new Map([...metadata].filter(([key]) => !/^(general|tokenizer)\./.test(key))),
  };
}

async function exported(base: string, into: string, type: "F32" | "BF16") {
  mkdirSync(into);
  const folder = await openHfFolder(backend, { base, learned: { weights: () => undefined }, type, limit: 40_000 });
  for (const { name, content } of folder.entries) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of content()) chunks.push(chunk.slice());
    writeFileSync(join(into, name), Buffer.concat(chunks));
  }
  await folder.close();
}

const half = Array.from({ length: 6 }, (_, i) => i);
const LONGROPE = {
  rope_parameters: {
    rope_type: "longrope",
    rope_theta: 10_000,
    original_max_position_embeddings: 128,
    partial_rotary_factor: 0.75,
    short_factor: half.map((i) => 1 + 0.1 * i),
    long_factor: half.map((i) => 2 + 0.3 * i),
  },
};
const YARN = {
  rope_parameters: {
    rope_type: "yarn",
    rope_theta: 150_000,
    factor: 4,
    original_max_position_embeddings: 64,
    truncate: false,
    beta_fast: 32,
    beta_slow: 1,
  },
};
const CASES: [name: string, architecture: string, config: object][] = [
  ...FAMILIES.map(({ architecture }): [string, string, object] => [architecture, architecture, {}]),
  ["phi3 with longrope", "phi3", LONGROPE],
  ["gpt-oss with yarn", "gpt-oss", YARN],
];

test.each(CASES)(
  "%s: a model that is exported and imported again has the same bits",
  async (name, architecture, own) => {
    for (const type of ["F32", "BF16"] as const) {
      const dir = join(root, `${name} ${type}`);
      writeFolder(dir, { architecture, dtype: type, config: { ...own } });
      const first = await imported(dir, `${dir}.gguf`);
      await exported(`${dir}.gguf`, `${dir} exported`, type);
      const second = await imported(`${dir} exported`, `${dir} again.gguf`);
      expect(second.tensors).toEqual(first.tensors);
      expect(second.metadata).toEqual(first.metadata);
    }
  },
);

/** The experts of gpt-oss as MXFP4: blocks of 32 weights in 16 bytes, each with a power of two. */
const asMxfp4 = (weights: Weight[]): Weight[] =>
  weights.flatMap((weight) => {
    if (!/experts\.\w+_proj$/.test(weight.name)) return [weight];
    const [experts = 0, columns = 0, rows = 0] = weight.shape;
    const u8 = (end: string, shape: number[], value: (i: number) => number): Weight => ({
      name: weight.name + end,
      dtype: "U8",
      shape,
      bytes: Uint8Array.from({ length: shape.reduce((product, size) => product * size, 1) }, (_, i) => value(i)),
    });
    return [
      u8("_blocks", [experts, rows, columns / 32, 16], (i) => (i * 37) & 0xff),
      u8("_scales", [experts, rows, columns / 32], (i) => 120 + (i % 5)),
    ];
  });

async function floatsOf(base: string, name: string): Promise<Float32Array> {
  const merged = await openMerged(backend, { base, learned: { weights: () => undefined } });
  const stored = merged.header.tensors.get(name)!;
  const bytes = await whole(merged.content(stored, "F32"), stored.elements * 4);
  await merged.close();
  return new Float32Array(bytes.buffer);
}

test("experts in MXFP4 are exported as BF16 with the same values", async () => {
  const dir = join(root, "mxfp4");
  writeFolder(dir, { architecture: "gpt-oss", dtype: "BF16", edit: asMxfp4 });
  const first = await imported(dir, `${dir}.gguf`);
  expect(first.tensors.get("blk.0.ffn_up_exps.weight")).toStartWith("MXFP4");
  await exported(`${dir}.gguf`, `${dir} exported`, "BF16");
  await imported(`${dir} exported`, `${dir} again.gguf`);
  for (const part of ["gate", "up", "down"]) {
    const [stored, again] = await Promise.all(
      [`${dir}.gguf`, `${dir} again.gguf`].map((path) => floatsOf(path, `blk.1.ffn_${part}_exps.weight`)),
    );
    expect(new Set(stored).size).toBeGreaterThan(20);
    expect(again).toEqual(stored!);
  }
});

test("gpt-oss says how its rotation is cut; experts of Qwen3 MoE have one tensor each", async () => {
  const [yarn, experts] = ["yarn", "experts"].map((name) => join(root, name)) as [string, string];
  writeFolder(yarn, { architecture: "gpt-oss", config: YARN });
  writeFolder(experts, { architecture: "qwen3moe" });
  for (const dir of [yarn, experts]) {
    await imported(dir, `${dir}.gguf`);
    await exported(`${dir}.gguf`, `${dir} exported`, "BF16");
  }
  const read = (dir: string, file: string) => JSON.parse(readFileSync(join(`${dir} exported`, file), "utf8"));
  expect(read(yarn, "config.json").rope_scaling).toMatchObject({ rope_type: "yarn", truncate: false, factor: 4 });
  expect(read(experts, "config.json")).toMatchObject({ num_experts: 4, norm_topk_prob: true });
  const { weight_map: map } = read(experts, "model.safetensors.index.json");
  expect(map["model.layers.1.mlp.experts.3.down_proj.weight"]).toMatch(/^model-000\d\d-of-/);
});
