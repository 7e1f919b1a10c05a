import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { encode, type FolderOptions, filesIn, SIZE, type Weight, writeFolder } from "../../../../test/hugging_face.ts";
import { greedy } from "../../../../test/serving/reference.ts";
import { FAMILIES } from "../../../lib/checkpoints/families.ts";
import { decode } from "../../../lib/checkpoints/numbers.ts";
import { type Header, parseGguf } from "../../../lib/gguf/parse.ts";
import { rotatedRow } from "../../checkpoints/tensors.ts";
import { convert } from "./convert.ts";
import type { Quantize } from "./sources.ts";

const QUIET = { onProgress: () => {}, dataDir: "" };

async function converted(options: FolderOptions, quantize: Quantize = null) {
  const dir = tempDir();
  const values = writeFolder(dir, options);
  const into = join(tempDir(), "model.gguf");
  const result = await convert({ files: filesIn(dir), name: "tiny", into, quantize, ...QUIET });
  const bytes = readFileSync(into);
  const header = parseGguf(bytes, bytes.byteLength) as Header;
  const tensor = (name: string) => {
    const found = header.tensors.get(name);
    if (!found) throw new Error(name);
    const start = header.dataStart + found.offset;
    return decode(found.type.name, bytes.subarray(start, start + found.bytes), new Float32Array(found.elements));
  };
  return { ...result, values, header, tensor, into };
}

/** Logits of the next token after these, by llama.cpp. */
const logitsOf = (path: string) => greedy(path, Int32Array.of(40, 50, 60, 70), 1).logits[0] as Float32Array;

describe("every family becomes a file that llama.cpp loads", () => {
  for (const { architecture } of FAMILIES)
    test(architecture, async () => {
      const { into, shape } = await converted({ architecture, dtype: "BF16", shards: 3 });
      expect(shape).toMatchObject({ architecture, layers: 2, vocab_size: SIZE.vocab, has_chat_template: true });
      const logits = logitsOf(into);
      expect(logits.every(Number.isFinite)).toBe(true);
      expect(new Set(logits).size).toBeGreaterThan(100);
    });
});

test("values, order of rows and metadata of a llama", async () => {
  const { values, tensor, header } = await converted({});
  const from = values.get("model.layers.1.self_attn.k_proj.weight") as Float32Array;
  const to = tensor("blk.1.attn_k.weight");
  for (const row of [0, 1, 5, 16, 31]) {
    const source = rotatedRow(row, SIZE.head) * SIZE.hidden;
    expect(to.subarray(row * SIZE.hidden, (row + 1) * SIZE.hidden)).toEqual(
      from.subarray(source, source + SIZE.hidden),
    );
  }
  expect(tensor("blk.0.ffn_down.weight")).toEqual(values.get("model.layers.0.mlp.down_proj.weight") as Float32Array);
  expect(header.metadata.get("tokenizer.ggml.pre")?.value).toBe("qwen2");
  expect(header.metadata.get("tokenizer.ggml.eos_token_id")?.value).toBe(263);
  expect(header.metadata.get("general.sampling.top_k")?.value).toBe(20);
});

test("gemma's norms are stored with one added", async () => {
  const { values, tensor } = await converted({ architecture: "gemma3" });
  const norm = values.get("model.norm.weight") as Float32Array;
  expect(tensor("output_norm.weight")).toEqual(norm.map((value) => value + 1));
});

test("experts are stacked, and packed experts are split and transposed", async () => {
  const moe = await converted({ architecture: "qwen3moe" });
  const second = moe.values.get("model.layers.0.mlp.experts.1.up_proj.weight") as Float32Array;
  expect(moe.tensor("blk.0.ffn_up_exps.weight").subarray(second.length, 2 * second.length)).toEqual(second);
  const oss = await converted({ architecture: "gpt-oss" });
  const packed = oss.values.get("model.layers.0.mlp.experts.gate_up_proj") as Float32Array;
  const gate = oss.tensor("blk.0.ffn_gate_exps.weight");
  const wide = 2 * SIZE.forward;
  expect(gate[3 * SIZE.hidden + 7]).toBe(packed[7 * wide + 6] as number); // row 3 of gate is column 6 of the packed one
});

test("F16, BF16 and F32 weights give the same answer; Q8_0 nearly the same", async () => {
  const exact = logitsOf((await converted({ dtype: "F32" })).into);
  for (const dtype of ["F16", "BF16"] as const) {
    const logits = logitsOf((await converted({ dtype })).into);
    expect(Math.max(...logits.map((value, i) => Math.abs(value - (exact[i] as number))))).toBeLessThan(0.02);
  }
  const { into, shape } = await converted({ dtype: "BF16" }, "Q8_0");
  expect(shape.quantization).toBe("Q8_0");
  const logits = logitsOf(into);
  expect(Math.max(...logits.map((value, i) => Math.abs(value - (exact[i] as number))))).toBeLessThan(0.05);
});

test("FP8 weights are multiplied with their scales", async () => {
  const name = "model.layers.0.mlp.up_proj.weight";
  const edit = (weights: Weight[]) =>
    weights.flatMap((weight): Weight[] => {
      if (weight.name !== name) return [weight];
      const bytes = Uint8Array.from({ length: SIZE.forward * SIZE.hidden }, (_, i) => (i % 2 === 0 ? 0x38 : 0xb8)); // 1 and -1
      const scale = encode(Float32Array.of(0.5, 0.25, 2), "F32"); // blocks of 32 rows
      return [
        { ...weight, dtype: "F8_E4M3", bytes },
        { name: `${name}_scale_inv`, dtype: "F32", shape: [3, 1], bytes: scale },
      ];
    });
  const { tensor } = await converted({ dtype: "BF16", edit });
  const up = tensor("blk.0.ffn_up.weight");
  expect([up[0], up[1], up[32 * SIZE.hidden], up[95 * SIZE.hidden + 1]]).toEqual([0.5, -0.5, 0.25, -2]);
});
