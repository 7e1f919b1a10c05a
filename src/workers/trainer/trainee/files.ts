/**
 * Saves learned weights to safetensors files and loads them, one tensor at a time: a model may be larger than memory.
 */
import { closeSync, fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { getFloats, putBytes } from "../../../native/ggml/ggml.ts";
import { readExactlySync, UNCOUNTED, writeStreamAtomic } from "../../../platform/files.ts";
import {
  encodeSafetensorsHeader,
  type PlacedTensor,
  parseSafetensors,
  SafetensorsError,
  type TensorSpec,
} from "../../checkpoints/safetensors.ts";
import type { Moments, Optimizer } from "../engine/optimizer.ts";
import type { Trainable, Weights } from "../engine/weights.ts";

export const WEIGHTS_FILE = "weights.safetensors";
const MOMENTS_FILE = "moments.safetensors";

const spec = (name: string, shape: readonly number[]): TensorSpec => ({
  name,
  dtype: "F32",
  shape: [...shape].reverse(),
});
const bytesOf = (values: Float32Array) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

export async function saveTrained(dir: string, weights: Weights, optimizer: Optimizer): Promise<void> {
  await writeStreamAtomic(join(dir, WEIGHTS_FILE), weightChunks(weights), { meter: UNCOUNTED });
  await writeStreamAtomic(join(dir, MOMENTS_FILE), momentChunks(weights, optimizer), { meter: UNCOUNTED });
}

function* weightChunks({ trainable, backend }: Weights): Generator<Uint8Array> {
  yield encodeSafetensorsHeader(trainable.map(({ name, shape }) => spec(name, shape)));
  for (const { tensor } of trainable) yield bytesOf(getFloats(backend.ggml, tensor));
}

const halves = (name: string) => [`${name}.first`, `${name}.second`] as const;

function* momentChunks({ trainable }: Weights, optimizer: Optimizer): Generator<Uint8Array> {
  const specs = trainable.flatMap(({ name, shape }) => halves(name).map((half) => spec(half, shape)));
  yield encodeSafetensorsHeader(specs, { steps: String(optimizer.steps) });
  for (const { first, second } of optimizer.moments()) {
    yield bytesOf(first);
    yield bytesOf(second);
  }
}

export function loadTrained(dir: string, weights: Weights) {
  const file = openTensors(join(dir, WEIGHTS_FILE));
  try {
    for (const each of weights.trainable) file.mustFit(each.name, each);
    for (const { name, tensor } of weights.trainable) putBytes(weights.backend.ggml, tensor, file.read(name));
  } finally {
    file.close();
  }
}

export function loadMoments(dir: string, { trainable }: Weights, optimizer: Optimizer) {
  const file = openTensors(join(dir, MOMENTS_FILE));
  try {
    const steps = Number(file.metadata.get("steps"));
    if (!Number.isSafeInteger(steps) || steps < 0)
      throw new SafetensorsError(`${MOMENTS_FILE} does not contain the number of steps`);
    for (const each of trainable) for (const half of halves(each.name)) file.mustFit(half, each);
    optimizer.restore(steps, all());
  } finally {
    file.close();
  }

  function* all(): Generator<Moments> {
    for (const { name } of trainable) {
      const [first, second] = halves(name);
      yield { name, first: file.read(first), second: file.read(second) };
    }
  }
}

export function openTensors(path: string) {
  const fd = openSync(path, "r");
  const close = () => closeSync(fd);
  try {
    const { metadata, tensors } = headerOf(fd);
    const get = (name: string): PlacedTensor => {
      const tensor = tensors.get(name);
      if (!tensor) throw new SafetensorsError(`${path} has no tensor ${name}: it belongs to another training`);
      return tensor;
    };
    return {
      metadata,
      tensors,
      close,
      /** Returns some rows of a tensor, or undefined if the file does not have it. */
      readRows(name: string, firstRow: number, rows: number): Float32Array | undefined {
        const tensor = tensors.get(name);
        if (!tensor) return undefined;
        const rowBytes = (tensor.shape.at(-1) ?? 1) * 4;
        return new Float32Array(bytesAt(fd, tensor.start + firstRow * rowBytes, rows * rowBytes).buffer);
      },
      mustFit(name: string, { shape }: Pick<Trainable, "shape">) {
        const { dtype, shape: stored } = get(name);
        const [wanted, size] = [[...shape].reverse().join(" × "), stored.join(" × ")];
        if (dtype !== "F32" || size !== wanted)
          throw new SafetensorsError(`${name} is ${dtype} ${size} in ${path}, but this training needs F32 ${wanted}`);
      },
      read(name: string): Float32Array {
        const { start, bytes } = get(name);
        return new Float32Array(bytesAt(fd, start, bytes).buffer);
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}

const FIRST_BYTES = 1 << 16;

function headerOf(fd: number) {
  const { size } = fstatSync(fd);
  for (let wanted = FIRST_BYTES; ; ) {
    const parsed = parseSafetensors(bytesAt(fd, 0, Math.min(wanted, size)), size);
    if (!("need" in parsed)) return parsed;
    wanted = parsed.need;
  }
}

const bytesAt = (fd: number, start: number, length: number) =>
  readExactlySync(
    fd,
    new Uint8Array(length),
    start,
    () => new SafetensorsError("The file was truncated while it was read"),
  );
