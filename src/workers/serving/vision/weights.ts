/** Copies the tensors of a projector that its encoder uses from the file onto the device. */
import { closeSync, openSync } from "node:fs";
import type { Header, Tensor as Stored } from "../../../lib/gguf/parse.ts";
import { TENSOR_TYPES } from "../../../lib/gguf/types.ts";
import type { Projector } from "../../../lib/vision/projector.ts";
import type { Ptr } from "../../../native/ffi.ts";
import { allocate, type Backend, newContext, newTensor, putBytes } from "../../../native/ggml/ggml.ts";
import { readExactlySync } from "../../../platform/files.ts";

const typeNumbers = new Map([...TENSOR_TYPES].map(([number, { name }]) => [name, number]));
const READ_BYTES = 64 << 20;

export type VisionWeights = {
  /** Undefined: the file has no such tensor. */
  get: (name: string) => Ptr | undefined;
  must: (name: string) => Ptr;
  bytes: number;
  free: () => void;
};

/** The shape of a patch's matrix is flat: a patch is one row of the product. */
const shapeOf = ({ name, dims }: Stored, { patchSize, width }: Projector): readonly number[] =>
  name === "v.patch_embd.weight" ? [patchSize * patchSize * 3, width] : dims;

export function loadVisionWeights(backend: Backend, path: string, header: Header, of: Projector): VisionWeights {
  const { ggml } = backend;
  const context = newContext(ggml, header.tensors.size);
  const tensors = new Map<string, Ptr>();
  for (const stored of header.tensors.values())
    if (isUsed(stored.name, of))
      tensors.set(
        stored.name,
        newTensor(ggml, context, typeNumbers.get(stored.type.name) as number, shapeOf(stored, of)),
      );
  const memory = allocate(backend, context);
  const free = () => {
    memory.free();
    context.free();
  };
  const fd = openSync(path, "r");
  try {
    for (const [name, tensor] of tensors) copy(backend, fd, header, header.tensors.get(name) as Stored, tensor);
  } catch (error) {
    free();
    throw error;
  } finally {
    closeSync(fd);
  }
  const must = (name: string): Ptr => {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw new Error(`the projector has no tensor ${name}`);
    return tensor;
  };
  return { get: (name) => tensors.get(name), must, bytes: memory.bytes, free };
}

function isUsed(name: string, { layers }: Projector): boolean {
  const layer = /^v\.blk\.(\d+)\./.exec(name)?.[1];
  if (layer !== undefined) return Number(layer) < layers;
  return /^v\.(patch_embd|class_embd|position_embd|pre_ln|post_ln)|^mm\./.test(name);
}

function copy({ ggml }: Backend, fd: number, { dataStart }: Header, { bytes, offset }: Stored, tensor: Ptr) {
  const buffer = new Uint8Array(Math.min(bytes, READ_BYTES));
  const tooShort = () => new Error("The projector was truncated while it was read");
  for (let done = 0; done < bytes; done += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, bytes - done));
    putBytes(ggml, tensor, readExactlySync(fd, piece, dataStart + offset + done, tooShort), done);
  }
}
