/**
 * Quantized matrices that stay as in the file. All groups share one room of the size of the largest: before a product,
 * a group is decoded into it, and its adapters are copied beside it. So a model takes little more than its file.
 */
import type { Header } from "../../../../lib/gguf/parse.ts";
import { PACKED_TYPES, TENSOR_TYPES } from "../../../../lib/gguf/types.ts";
import type { Matrix } from "../../../../native/cuda/kernel_products.ts";
import type { Kernels } from "../../../../native/cuda/kernels.ts";
import { type Backend, type Ptr, TYPE } from "../../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../../native/ggml/symbols.ts";
import type { Architecture } from "../architecture.ts";
import type { Lora, Weights } from "../weights.ts";
import { NF4, type Packing } from "../weights_fill.ts";
import { addressOf } from "./adapters.ts";
import { type Buffer, past } from "./memory.ts";
import { rowThreads } from "./project.ts";
import { fitsKernels } from "./unsupported.ts";
import type { Group, Table } from "./weights.ts";

/** Formats by the numbers of unpack.cuh, which has them in this order. */
const PACKINGS = new Map([
  ...[...TENSOR_TYPES].flatMap(([number, { name }]) =>
    PACKED_TYPES.includes(name) ? [[number, PACKED_TYPES.indexOf(name)] as const] : [],
  ),
  [NF4, PACKED_TYPES.length] as const,
]);

export type Room = { buffer: Buffer; elements: number };

type Of = { architecture: Architecture; header: Header; lora: Lora | null; longest: number; in4Bit?: boolean };

/** How the matrices of this file lie on the device: packed if the fused passes can train an adapter of them so. */
export function packingOf({ kernels }: Backend, { architecture, header, lora, longest, in4Bit }: Of): Packing {
  if (!kernels || !lora || architecture.temperature !== null || !fitsKernels(architecture, longest)) return "no";
  const tensors = [...header.tensors.values()];
  if (tensors.some(({ dims, type }) => dims.length === 1 && type.name !== "F32")) return "no";
  if (in4Bit) return "nf4";
  const isExact = tensors.some(({ dims, type }) => dims.length > 1 && type.name === "F32");
  const isPacked = tensors.some(({ name, type }) => name.startsWith("blk.") && PACKED_TYPES.includes(type.name));
  return isPacked && !isExact ? "file" : "no";
}

/** Decodes a group into the room, with its adapters. */
export function fillRoom(kernels: Kernels, backend: Backend, room: Room, { group, get }: Filled) {
  const { inputs, outputs, extra, stride, a, b } = group;
  const to = (row: number, column = 0) => past("bf16", room.buffer.at, row * stride + column);
  for (const { name, outputs: rows, firstRow } of group.parts)
    decode(kernels, backend, get(name), { first: 0, rows, at: to(firstRow), stride });
  if (extra === 0) return;
  place(kernels, b.buffer.at, { rows: outputs, columns: extra, at: to(0, inputs), stride });
  place(kernels, a.buffer.at, { rows: extra, columns: inputs, at: to(outputs), stride });
}
type Filled = { group: Group; get: (name: string) => Ptr };

const place = (kernels: Kernels, from: number, to: { rows: number; columns: number; at: number; stride: number }) =>
  kernels.launch("place_matrix", { grid: [to.rows, 1, 1], threads: rowThreads(to.columns) }, [
    ...[from, to.at, to.columns, to.stride],
  ]);

type Rows = { first: number; rows: number; at: number; stride: number };

/** Rows of a matrix, quantized or in BF16, to an address. */
function decode(kernels: Kernels, backend: Backend, tensor: Ptr, { first, rows, at, stride }: Rows) {
  const [columns] = shapeOf(tensor);
  const packing = PACKINGS.get(typeOf(tensor));
  const from = addressOf(backend, tensor);
  if (packing === undefined) {
    if (typeOf(tensor) !== TYPE.BF16) throw new Error(`There is no kernel that decodes the type ${typeOf(tensor)}`);
    return place(kernels, past("bf16", from, first * columns), { rows, columns, at, stride });
  }
  const rowBytes = Number(backend.ggml.ggml_row_size(typeOf(tensor), columns));
  kernels.launch("unpack_rows", { grid: [rows, 1, 1], threads: rowThreads(columns) }, [
    ...[from + first * rowBytes, at, columns, stride, packing],
  ]);
}

const ROWS = 64; // pieces of a table begin at multiples of this

export function packedTables(kernels: Kernels, { tied }: Architecture, { backend, get }: Weights, room: Room) {
  const { embed, ...table } = packedTable(kernels, backend, get("token_embd.weight"), room);
  const output = tied ? table : packedTable(kernels, backend, get("output.weight"), room);
  return { used: () => ({ embed, output }), place() {} };
}

/** A table of tokens that is decoded piece by piece, or in place if it is BF16. */
function packedTable(kernels: Kernels, backend: Backend, tensor: Ptr, room: Room): PackedTable {
  const [width, rows] = shapeOf(tensor);
  const packing = PACKINGS.get(typeOf(tensor));
  const at = () => addressOf(backend, tensor);
  const fits = Math.floor(room.elements / width / ROWS) * ROWS;
  return {
    most: packing === undefined || fits >= rows ? rows : fits,
    rows(first, count): Matrix {
      if (packing === undefined) return { at: past("bf16", at(), first * width), stride: width };
      decode(kernels, backend, tensor, { first, rows: count, at: room.buffer.at, stride: width });
      return { at: room.buffer.at, stride: width };
    },
    embed(ids, x, count) {
      const how = { grid: [count, 1, 1] as const, threads: rowThreads(width) };
      if (packing === undefined) kernels.launch("embed", how, [at(), ids.at, x.at, width]);
      else kernels.launch("embed_packed", how, [at(), ids.at, x.at, width, packing]);
    },
  };
}
type PackedTable = Table & { embed: (ids: Buffer, x: Buffer, count: number) => void };
