import { afterAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { parseSafetensors } from "../../checkpoints/safetensors.ts";
import type { Adapter } from "./adapter.ts";
import { halvesFromNeighbours, type PeftOptions, writePeft } from "./peft.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const RANK = 2;
const HEADS = 4;
const KEY_HEADS = 2;
const LENGTH = 6;
const WIDTH = 5;
const OPTIONS: PeftOptions = { heads: HEADS, keyHeads: KEY_HEADS, baseModel: "some/model", dropout: 0.05 };

const numbers = (length: number, seed: number) => Float32Array.from({ length }, (_, i) => Math.sin(i * 1.7 + seed));
const layer = (name: string, inputs: number, outputs: number) => ({
  name,
  inputs,
  outputs,
  a: numbers(RANK * inputs, outputs),
  b: numbers(outputs * RANK, inputs),
});
const adapter = (architecture: string): Adapter => ({
  architecture,
  rank: RANK,
  alpha: 16,
  rslora: true,
  layers: [
    layer("blk.0.attn_q.weight", WIDTH, HEADS * LENGTH),
    layer("blk.0.attn_k.weight", WIDTH, KEY_HEADS * LENGTH),
    layer("blk.11.attn_v.weight", WIDTH, KEY_HEADS * LENGTH),
    layer("blk.11.ffn_down.weight", 7, WIDTH),
    layer("output.weight", WIDTH, 9),
  ],
});

async function written(given: Adapter, options: PeftOptions) {
  const place = join(dir, `${given.architecture}-${options.dtype ?? ""}`);
  await writePeft(place, given, options);
  const bytes = new Uint8Array(readFileSync(join(place, "adapter_model.safetensors")));
  const header = parseSafetensors(bytes, bytes.byteLength);
  if ("need" in header) throw new Error("the header was whole");
  const read = (name: string) => {
    const { start, bytes: size } = header.tensors.get(`base_model.model.${name}.weight`)!;
    return bytes.slice(start, start + size);
  };
  return { header, read, config: JSON.parse(readFileSync(join(place, "adapter_config.json"), "utf8")) as unknown };
}

/**
 * Rotates pair j by its angle at a position. All models have the same pairs; only the positions of their halves differ.
 */
function rotate(head: Float32Array, position: number, place: (pair: number, half: 0 | 1) => number): Float32Array {
  const out = new Float32Array(head.length);
  for (let pair = 0; pair < head.length / 2; pair++) {
    const angle = position * 10_000 ** ((-2 * pair) / head.length);
    const [x, y] = [head[place(pair, 0)]!, head[place(pair, 1)]!];
    out[place(pair, 0)] = x * Math.cos(angle) - y * Math.sin(angle);
    out[place(pair, 1)] = x * Math.sin(angle) + y * Math.cos(angle);
  }
  return out;
}

function product(rows: Float32Array, input: Float32Array): Float32Array {
  const width = input.length;
  return Float32Array.from({ length: rows.length / width }, (_, row) =>
    input.reduce((sum, value, i) => sum + value * rows[row * width + i]!, 0),
  );
}

const neighbours = (pair: number, half: 0 | 1) => 2 * pair + half;
const halves = (pair: number, half: 0 | 1) => pair + (half * LENGTH) / 2;

/** Scores of each query head with its key head, at distances of 3 and 11 tokens. */
function scores(q: Float32Array, k: Float32Array, place: typeof neighbours): number[] {
  const [query, key] = [product(q, numbers(RANK, 1)), product(k, numbers(RANK, 2))];
  return Array.from({ length: HEADS * 2 }, (_, i) => {
    const [head, position] = [i % HEADS, i < HEADS ? 4 : 12];
    const keyHead = Math.floor((head * KEY_HEADS) / HEADS);
    const one = rotate(query.subarray(head * LENGTH, (head + 1) * LENGTH), position, place);
    const other = rotate(key.subarray(keyHead * LENGTH, (keyHead + 1) * LENGTH), 1, place);
    return one.reduce((sum, value, at) => sum + value * other[at]!, 0);
  });
}

test("attention scores with rotated halves equal the trainer's scores with rotated neighbours", async () => {
  const given = adapter("llama");
  const { read } = await written(given, OPTIONS);
  const want = scores(given.layers[0]!.b, given.layers[1]!.b, neighbours);
  const part = (name: string) => new Float32Array(read(`model.layers.0.self_attn.${name}.lora_B`).buffer);
  const got = scores(part("q_proj"), part("k_proj"), halves);
  got.forEach((score, i) => {
    expect(score).toBeCloseTo(want[i]!, 5);
  });
  const unmoved = scores(given.layers[0]!.b, given.layers[1]!.b, halves);
  expect(Math.max(...unmoved.map((score, i) => Math.abs(score - want[i]!)))).toBeGreaterThan(0.1);
});

test("rows go from pairs to halves, head by head", () => {
  const rows = Float32Array.of(0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15);
  expect([...halvesFromNeighbours(rows, 12, 1, 2)]).toEqual([0, 2, 4, 1, 3, 5, 10, 12, 14, 11, 13, 15]);
  expect(() => halvesFromNeighbours(rows, 12, 1, 4)).toThrow("4 heads");
});

test("phi3 has PEFT's names of its joined matrices", async () => {
  const layers = [layer("blk.0.attn_qkv.weight", WIDTH, 48), layer("blk.0.ffn_up.weight", WIDTH, 14)];
  const { header, config } = await written({ ...adapter("phi3"), layers }, OPTIONS);
  const found = [...header.tensors.keys()].filter((name) => name.endsWith("A.weight"));
  expect(found).toEqual([
    "base_model.model.model.layers.0.self_attn.qkv_proj.lora_A.weight",
    "base_model.model.model.layers.0.mlp.gate_up_proj.lora_A.weight",
  ]);
  expect(config).toMatchObject({ target_modules: ["qkv_proj", "gate_up_proj"] });
});

test.each(["mistral3", "smollm3", "granite"])("%s has the order of llama's files", async (architecture) => {
  const [given, llama] = [adapter(architecture), adapter("llama")];
  const [own, other] = [await written(given, OPTIONS), await written(llama, OPTIONS)];
  for (const name of ["q_proj", "k_proj"])
    expect(own.read(`model.layers.0.self_attn.${name}.lora_B`)).toEqual(
      other.read(`model.layers.0.self_attn.${name}.lora_B`),
    );
});

test.each(["qwen2", "qwen3", "gemma3"])("%s has the order of Hugging Face already", async (architecture) => {
  const given = adapter(architecture);
  const { read } = await written(given, OPTIONS);
  const got = new Float32Array(read("model.layers.0.self_attn.q_proj.lora_B").buffer);
  expect([...got]).toEqual([...given.layers[0]!.b]);
});

test("tensors have PEFT's names and shapes, rows first", async () => {
  const given = adapter("llama");
  const { header, read } = await written(given, OPTIONS);
  expect(header.metadata.get("format")).toBe("pt");
  expect([...header.tensors.values()].map(({ name, dtype, shape }) => [name, dtype, ...shape])).toEqual([
    ["base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "F32", 2, 5],
    ["base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", "F32", 24, 2],
    ["base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", "F32", 2, 5],
    ["base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", "F32", 12, 2],
    ["base_model.model.model.layers.11.self_attn.v_proj.lora_A.weight", "F32", 2, 5],
    ["base_model.model.model.layers.11.self_attn.v_proj.lora_B.weight", "F32", 12, 2],
    ["base_model.model.model.layers.11.mlp.down_proj.lora_A.weight", "F32", 2, 7],
    ["base_model.model.model.layers.11.mlp.down_proj.lora_B.weight", "F32", 5, 2],
    ["base_model.model.lm_head.lora_A.weight", "F32", 2, 5],
    ["base_model.model.lm_head.lora_B.weight", "F32", 9, 2],
  ]);
  const down = new Float32Array(read("model.layers.11.mlp.down_proj.lora_A").buffer);
  expect([...down]).toEqual([...given.layers[3]!.a]);
});

test("BF16 is the nearest number, and ties round to even", async () => {
  const odd = [0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0xff800000, 0x7fc00001, 0x7f800001];
  const values = new Float32Array(Uint32Array.from([...odd, 0x80000000, 0x7f7fffff, 0]).buffer);
  const given = { ...adapter("qwen2"), layers: [{ ...layer("output.weight", WIDTH, 1), a: values }] };
  const { read } = await written(given, { ...OPTIONS, dtype: "BF16" });
  const got = [...new Uint16Array(read("lm_head.lora_A").buffer)].map((bits) => bits.toString(16));
  expect(got).toEqual(["3f80", "3f80", "3f82", "3f81", "ff80", "7fc0", "7fc0", "8000", "7f80", "0"]);
});

test("the config has every field that PEFT needs to apply the adapter", async () => {
  const { config } = await written(adapter("llama"), OPTIONS);
  expect(config).toMatchObject({
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: "some/model",
    r: RANK,
    lora_alpha: 16,
    lora_dropout: 0.05,
    target_modules: ["q_proj", "k_proj", "v_proj", "down_proj", "lm_head"],
    bias: "none",
    fan_in_fan_out: false,
    use_rslora: true,
    use_dora: false,
    modules_to_save: null,
  });
});

test("a layer that PEFT has no name for is refused", async () => {
  const given = { ...adapter("llama"), layers: [layer("blk.0.ffn_gate_inp.weight", WIDTH, 4)] };
  await expect(writePeft(join(dir, "none"), given, OPTIONS)).rejects.toThrow("PEFT has no name");
});
