import { ptr } from "bun:ffi";
import { afterAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type ShapeOf, writeModel } from "../../../bench/training/model.ts";
import { parseGguf } from "../../../src/lib/gguf/parse.ts";
import { getFloats, openBackend, putBytes, TYPE } from "../../../src/native/ggml/ggml.ts";
import { shapeOf } from "../../../src/native/ggml/symbols.ts";
import type { WeightPlace } from "../../../src/native/llama/weights.ts";
import { architectureOf } from "../../../src/workers/trainer/engine/architecture.ts";
import { openMerger } from "../../../src/workers/trainer/engine/fused/sampler/merge.ts";
import { type Lora, loadWeights, loraNames, loraScale } from "../../../src/workers/trainer/engine/weights.ts";
import { tempDir } from "../../harness.ts";
import { random } from "./kit.ts";
import { plainKernels } from "./plain_kernels.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const LORA: Lora = { rank: 4, alpha: 8, rslora: false, targets: ["attn_q", "attn_v", "attn_output", "ffn_down"] };
const SHAPE: ShapeOf = {
  arch: "llama",
  vocab: 60,
  width: 64,
  layers: 2,
  heads: 2,
  keyHeads: 1,
  head: 64,
  forward: 96,
  tied: true,
};
const SIZE = 0.2; // magnitude of an adapter's numbers

function open(adapterSize: number) {
  const path = join(dir, "model.gguf");
  writeModel(path, SHAPE);
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.length);
  if ("need" in header) throw new Error("the header is longer than the file");
  const backend = { ...openBackend(dir, { kind: "cpu", threads: 1 }), kernels: plainKernels };
  const weights = loadWeights(backend, { path, header }, LORA);
  const next = random(3);
  for (const { name, tensor } of weights.trainable) {
    const size = name.endsWith(".lora_b") ? adapterSize : SIZE;
    const values = getFloats(backend.ggml, tensor).map(() => next() * size);
    putBytes(backend.ggml, tensor, values);
  }
  const merger = openMerger(architectureOf(header), weights);
  const close = () => {
    merger.free();
    weights.free();
    backend.close();
  };
  return { backend, weights, merger, close };
}

/** Memory in place of a sampler's weights, initially all ones. */
function sampler({ weights }: ReturnType<typeof open>, over: (name: string) => Partial<WeightPlace> = () => ({})) {
  const held = new Map<string, Uint16Array>();
  const locations = (name: string): WeightPlace => {
    const [columns, rows] = shapeOf(weights.get(name));
    const words = held.get(name) ?? new Uint16Array(new ArrayBuffer(columns * rows * 2)).fill(1);
    held.set(name, words);
    return { address: Number(ptr(words)), type: TYPE.BF16, columns, rows, onDevice: true, ...over(name) };
  };
  return { held, locations, floatsOf: (name: string) => fromBf16(held.get(name)!) };
}

const fromBf16 = (words: Uint16Array) => new Float32Array(Uint32Array.from(words, (word) => word << 16).buffer);

function frozen({ backend, weights }: ReturnType<typeof open>, name: string): Float32Array {
  const [columns, rows] = shapeOf(weights.get(name));
  const words = new Uint16Array(new ArrayBuffer(columns * rows * 2));
  backend.ggml.ggml_backend_tensor_get(weights.get(name), ptr(words), 0, words.byteLength);
  return fromBf16(words);
}

const NAMES = [0, 1].flatMap((layer) => LORA.targets.map((target) => `blk.${layer}.${target}.weight`));

/** W + s · B · A, not rounded. */
function wanted(opened: ReturnType<typeof open>, name: string): Float32Array {
  const { backend, weights } = opened;
  const values = (of: string) => getFloats(backend.ggml, weights.get(of));
  const [w, a, b] = [frozen(opened, name), values(loraNames(name).a), values(loraNames(name).b)];
  const [columns] = shapeOf(weights.get(name));
  const by = loraScale(LORA);
  return w.map((value, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    let sum = value;
    for (let k = 0; k < LORA.rank; k++) sum += by * b[row * LORA.rank + k]! * a[k * columns + column]!;
    return sum;
  });
}

test("the sampler's weights become W + s·B·A, exact to the last digit and in the mean", () => {
  const opened = open(SIZE);
  const to = sampler(opened);
  const sums = new Map(NAMES.map((name) => [name, new Float64Array(wanted(opened, name).length)]));
  const times = 64;
  for (let seed = 0; seed < times; seed++) {
    expect(opened.merger.merge(to.locations, seed)).toBe(true);
    for (const [name, sum] of sums) for (const [i, value] of to.floatsOf(name).entries()) sum[i]! += value / times;
  }
  expect([...to.held.keys()].sort()).toEqual([...NAMES].sort());
  for (const name of NAMES) {
    const exact = wanted(opened, name);
    const once = to.floatsOf(name);
    let [worst, bias] = [0, 0];
    for (const [i, value] of exact.entries()) {
      const digit = Math.max(2 ** -7 * Math.abs(value), 0.01); // B and A are rounded as well
      worst = Math.max(worst, Math.abs(once[i]! - value) / digit);
      bias += (sums.get(name)![i]! - value) / digit / exact.length;
    }
    expect(worst).toBeLessThan(2);
    expect(Math.abs(bias)).toBeLessThan(0.05);
  }
  opened.close();
});

test("an adapter that changes nothing leaves the weights as they are, and a seed gives the same bits again", () => {
  const opened = open(0);
  const to = sampler(opened);
  opened.merger.merge(to.locations, 5);
  for (const name of NAMES) expect([...to.floatsOf(name)]).toEqual([...frozen(opened, name)]);
  opened.close();

  const learned = open(SIZE);
  const again = sampler(learned);
  const bits = (seed: number) => {
    learned.merger.merge(again.locations, seed);
    return NAMES.map((name) => again.held.get(name)!.slice());
  };
  const first = bits(1);
  expect(bits(2)).not.toEqual(first);
  expect(bits(1)).toEqual(first);
  learned.close();
});

test.each([
  ["lies in the processor's memory", { onDevice: false }],
  ["is quantized", { type: TYPE.Q8_0 }],
  ["has another shape", { rows: 63 }],
])("nothing is written if one weight %s", (_why, over) => {
  const opened = open(SIZE);
  const to = sampler(opened, (name) => (name === NAMES.at(-1) ? over : {}));
  expect(opened.merger.merge(to.locations, 1)).toBe(false);
  for (const words of to.held.values()) expect(words.every((word) => word === 1)).toBe(true);
  opened.close();
});
