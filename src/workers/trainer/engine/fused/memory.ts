/** Device memory by address, for kernels. Buffers are requested one by one and allocated together. */

import type { Matrix } from "../../../../native/cuda/kernel_products.ts";
import { must } from "../../../../native/ffi.ts";
import { allocate, type Backend, newContext, newTensor, type Ptr, TYPE } from "../../../../native/ggml/ggml.ts";

export type Buffer = {
  /** Address on the device, in bytes. */
  readonly at: number;
  readonly tensor: Ptr;
};

const BYTES = { f32: 4, bf16: 2, i32: 4 } as const;
const TYPES = { f32: TYPE.F32, bf16: TYPE.BF16, i32: TYPE.I32 } as const;
export type Kind = keyof typeof BYTES;

/** Returns the address of element `i` of a buffer. */
export const past = (kind: Kind, at: number, i: number) => at + i * BYTES[kind];

/** A matrix inside a BF16 buffer: from element `first` on, `stride` elements from row to row. */
export type Region = { readonly buffer: Buffer; readonly first: number; readonly stride: number };

/** The address is valid after the buffer is allocated. */
export const matrixOf = ({ buffer, first, stride }: Region): Matrix => ({ at: past("bf16", buffer.at, first), stride });

export class Arena {
  readonly #wanted: { kind: Kind; count: number; buffer: { at: number; tensor: Ptr } }[] = [];
  #free: () => void = () => {};
  bytes = 0;

  constructor(readonly backend: Backend) {}

  /** The address is valid after `allocate`. */
  want(kind: Kind, count: number): Buffer {
    const buffer = { at: 0, tensor: 0 as Ptr };
    this.#wanted.push({ kind, count, buffer });
    return buffer;
  }

  /** Allocates all buffers, filled with zeros. */
  allocate() {
    const { ggml } = this.backend;
    const context = newContext(ggml, this.#wanted.length);
    for (const { kind, count, buffer } of this.#wanted) buffer.tensor = newTensor(ggml, context, TYPES[kind], [count]);
    try {
      const held = allocate(this.backend, context);
      this.bytes = held.bytes;
      this.#free = () => {
        held.free();
        context.free();
      };
    } catch (error) {
      context.free();
      throw error;
    }
    for (const { buffer } of this.#wanted) buffer.at = Number(must(ggml.ggml_get_data(buffer.tensor), "memory"));
  }

  free() {
    this.#free();
    this.#free = () => {};
  }
}
