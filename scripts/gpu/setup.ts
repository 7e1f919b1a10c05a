/** The folder, the devices and the models of a part of the GPU check. */
import { join } from "node:path";
import type { Row } from "../../bench/tools.ts";
import { type ShapeOf, writeModel } from "../../bench/training/model.ts";
import { type Device, openBackend } from "../../src/native/ggml/ggml.ts";
import { type Quantization, quantizeModel } from "../../src/native/llama/quantize.ts";
import { type MergedType, writeMergedGguf } from "../../src/workers/trainer/results/merged_gguf.ts";

export type Setup = {
  /** Folder of this part alone. */
  dir: string;
  /** The device under test. On a machine without a GPU it is the CPU. */
  device: Device;
  machine: { threads: number; gpus: readonly number[] };
  cpu: Device & { kind: "cpu" };
};
export type Part = (setup: Setup) => AsyncGenerator<Omit<Row, "bench">>;

export const setupIn = (dir: string, gpu: boolean): Setup => ({
  dir,
  device: gpu ? { kind: "cuda", index: 0 } : { kind: "cpu", threads: 1 },
  machine: gpu ? { threads: 4, gpus: [0] } : { threads: 1, gpus: [] },
  cpu: { kind: "cpu", threads: gpu ? 4 : 1, ...(gpu ? { beside: "cuda" as const } : {}) },
});

export type FileType = MergedType | Quantization;

/**
 * Three layers with heads of 64 (qwen3: 128), which our kernels support, and rows that every quantization can divide.
 */
export const SMALL: ShapeOf = {
  arch: "llama",
  vocab: 1000,
  width: 256,
  layers: 3,
  heads: 4,
  keyHeads: 2,
  head: 64,
  forward: 512,
  tied: true,
};

/** A model of a type, and the same weights in F32 as the exact reference. */
export async function modelPair(setup: Setup, shape: Partial<ShapeOf>, type: FileType) {
  const first = join(setup.dir, "half.gguf");
  writeModel(first, { ...SMALL, ...shape, type: "BF16" });
  const typed = await converted(setup, first, type);
  return { typed, exact: await converted(setup, typed, "F32") };
}

export async function converted({ dir, cpu }: Setup, base: string, type: FileType): Promise<string> {
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
