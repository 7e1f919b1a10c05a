/** Copies adapters to the device before a pass, and adds their gradients after it. */

import { must } from "../../../../native/ffi.ts";
import type { Backend, Ptr } from "../../../../native/ggml/ggml.ts";
import { loraNames, loraScale, type Weights } from "../weights.ts";
import { matrixOf, past } from "./memory.ts";
import type { Group } from "./weights.ts";

export const addressOf = ({ ggml }: Backend, tensor: Ptr) => Number(must(ggml.ggml_get_data(tensor), "memory"));

/** struct Copy of kernels.cu. */
type Copy = {
  from: number;
  to: number;
  rows: number;
  columns: number;
  fromStride: number;
  toStride: number;
  by: number;
};
export const COPY_INTS = 10; // 40 bytes

export function packed(copies: readonly Copy[]): Uint8Array {
  const bytes = new Uint8Array(copies.length * COPY_INTS * 4);
  const view = new DataView(bytes.buffer);
  copies.forEach((copy, i) => {
    const at = i * COPY_INTS * 4;
    view.setBigUint64(at, BigInt(copy.from), true);
    view.setBigUint64(at + 8, BigInt(copy.to), true);
    [copy.rows, copy.columns, copy.fromStride, copy.toStride].forEach((value, k) => {
      view.setInt32(at + 16 + 4 * k, value, true);
    });
    view.setFloat32(at + 32, copy.by, true);
  });
  return bytes;
}

export function copiesOf(weights: Weights, group: Group): { put: Copy; add: Copy }[] {
  const { backend, lora, trainable } = weights;
  if (!lora) return [];
  const { inputs, extra, ofA, ofB } = group;
  const [intoA, intoB] = [matrixOf(group.a), matrixOf(group.b)];
  const by = loraScale(lora);
  const of = (name: string) => {
    const weight = trainable.find((each) => each.name === name);
    if (!weight) throw new Error(`There is no adapter ${name}`);
    return { value: addressOf(backend, weight.tensor), sum: addressOf(backend, weight.gradient) };
  };
  return group.parts.flatMap(({ name, outputs: rows, firstRow, adapter }) => {
    if (adapter === null) return [];
    const column = adapter * lora.rank;
    const a = of(loraNames(name).a);
    const b = of(loraNames(name).b);
    const sizeA = { rows: lora.rank, columns: inputs };
    const sizeB = { rows, columns: lora.rank };
    const placeA = past("bf16", intoA.at, column * intoA.stride);
    const placeB = past("bf16", intoB.at, firstRow * intoB.stride + column);
    const foundA = past("f32", ofA.at, column * inputs);
    const foundB = past("f32", ofB.at, firstRow * extra + column);
    return [
      {
        put: { from: a.value, to: placeA, ...sizeA, fromStride: inputs, toStride: intoA.stride, by: 1 },
        add: { from: foundA, to: a.sum, ...sizeA, fromStride: inputs, toStride: inputs, by: 1 },
      },
      {
        put: { from: b.value, to: placeB, ...sizeB, fromStride: lora.rank, toStride: intoB.stride, by },
        add: { from: foundB, to: b.sum, ...sizeB, fromStride: extra, toStride: lora.rank, by },
      },
    ];
  });
}
