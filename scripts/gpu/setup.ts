/** Where a part of the check works, and on what. */
import { join } from "node:path";
import type { Row } from "../../bench/tools.ts";
import { type ShapeOf, writeModel } from "../../bench/training/model.ts";
import { type Device, openBackend } from "../../src/native/ggml/ggml.ts";
import { type Quantization, quantizeModel } from "../../src/native/llama/quantize.ts";
import { type MergedType, writeMergedGguf } from "../../src/workers/trainer/results/merged_gguf.ts";

export type Place = {
  /** Of this part alone. */
  dir: string;
  /** What is checked; on a machine without a GPU the processor stands in for it. */
  device: Device;
  machine: { threads: number; gpus: readonly number[] };
  cpu: Device & { kind: "cpu" };
};
export type Part = (place: Place) => AsyncGenerator<Omit<Row, "bench">>;

export const placeIn = (dir: string, gpu: boolean): Place => ({
  dir,
  device: gpu ? { kind: "cuda", index: 0 } : { kind: "cpu", threads: 1 },
  machine: gpu ? { threads: 4, gpus: [0] } : { threads: 1, gpus: [] },
  cpu: { kind: "cpu", threads: gpu ? 4 : 1, ...(gpu ? { beside: "cuda" as const } : {}) },
});

export type FileType = MergedType | Quantization;

/** Three layers with heads of 64 (qwen3: 128), which our kernels take, and rows that every quantization can divide. */
export const SMALL: ShapeOf = {
  ...{ arch: "llama", vocab: 1000, width: 256, layers: 3, heads: 4, keyHeads: 2, head: 64, forward: 512, tied: true },
};

/** A model of a type, and the same numbers in F32: what it should compute if nothing were rounded on the way. */
export async function modelPair(place: Place, shape: Partial<ShapeOf>, type: FileType) {
  const first = join(place.dir, "half.gguf");
  writeModel(first, { ...SMALL, ...shape, type: "BF16" });
  const typed = await converted(place, first, type);
  return { typed, exact: await converted(place, typed, "F32") };
}

export async function converted({ dir, cpu }: Place, base: string, type: FileType): Promise<string> {
  const path = join(dir, `${Bun.hash(base).toString(36)}-${type}.gguf`);
  if (type === "Q4_K_M" || type === "Q5_K_M" || type === "Q6_K") {
    quantizeModel(dir, { cuda: cpu.beside === "cuda" }, { from: base, to: path, quantization: type, threads: 1 });
    return path;
  }
  const backend = openBackend(dir, cpu);
  await writeMergedGguf(backend, { base, path, type, learned: { weights: () => undefined } });
  backend.close();
  return path;
}

export const percent = (value: number) => `${(100 * value).toFixed(2)} %`;
