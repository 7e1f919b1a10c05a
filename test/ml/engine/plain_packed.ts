/** The kernels of unpack.cuh as plain loops. ggml decodes the rows. */
import { type Pointer, toArrayBuffer } from "bun:ffi";
import { PACKED_TYPES, TENSOR_TYPES } from "../../../src/lib/gguf/types.ts";
import { roundedToBf16 } from "../../native/decode_kit.ts";
import { ggmlDecoded } from "../../native/ggml_rows.ts";
import { floats, halves, ints, type Values } from "./plain_memory.ts";

type Grid = readonly [number, number, number];

// biome-ignore format: bitsandbytes, functional.py
export const NF4_NUMBERS = [
  -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
  -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
  0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
];

function nf4Row(bytes: Uint8Array): Float32Array {
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: (bytes.length / 36) * 64 }, (_, i) => {
    const block = Math.floor(i / 64) * 36;
    const code = (view.getUint8(block + 4 + ((i % 64) >> 1)) >> ((i % 2) * 4)) & 15;
    return view.getFloat32(block, true) * NF4_NUMBERS[code]!;
  });
}

/** The nearest of the shares; of two equally near the lower one. */
export const nearestNf4 = (share: number) =>
  NF4_NUMBERS.reduce(
    (best, each, code) => (Math.abs(each - share) < Math.abs(NF4_NUMBERS[best]! - share) ? code : best),
    0,
  );

/** One row of a matrix whose rows have `columns` numbers. */
function rowAt(from: number, row: number, columns: number, packing: number): Float32Array {
  const bytesAt = (size: number) => new Uint8Array(toArrayBuffer((from + row * size) as Pointer, 0, size)).slice();
  if (packing === PACKED_TYPES.length) return nf4Row(bytesAt((columns / 64) * 36));
  const name = PACKED_TYPES[packing] as string;
  const { block, bytes } = [...TENSOR_TYPES.values()].find((type) => type.name === name)!;
  return ggmlDecoded(name, bytesAt((columns / block) * bytes));
}

export const PACKED_KERNELS = {
  unpack_rows([from = 0, to = 0, columns = 0, stride = 0, packing = 0]: Values, [rows]: Grid) {
    for (let n = 0; n < rows; n++)
      for (const [i, value] of rowAt(from, n, columns, packing).entries()) halves(to).set(n * stride + i, value);
  },
  embed_packed([table = 0, ids = 0, x = 0, width = 0, packing = 0]: Values, [tokens]: Grid) {
    for (let n = 0; n < tokens; n++)
      for (const [i, value] of roundedToBf16(rowAt(table, ints(ids)[n] as number, width, packing)).entries())
        floats(x)[n * width + i] = value;
  },
  pack_nf4([from = 0, to = 0, blocks = 0]: Values) {
    const view = new DataView(toArrayBuffer(to as Pointer, 0, blocks * 36));
    for (let block = 0; block < blocks; block++) {
      const values = Float32Array.from({ length: 64 }, (_, i) => halves(from).get(block * 64 + i));
      const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      view.setFloat32(block * 36, most, true);
      const codes = Array.from(values, (value) => nearestNf4(most > 0 ? value / most : 0));
      for (let i = 0; i < 32; i++) view.setUint8(block * 36 + 4 + i, codes[2 * i]! | (codes[2 * i + 1]! << 4));
    }
  },
  adam_8bit() {
    throw new Error("the optimizer of the CPU does this");
  },
  round_rows([from = 0, to = 0, width = 0]: Values, [rows]: Grid) {
    for (let i = 0; i < rows * width; i++) halves(to).set(i, floats(from)[i] as number);
  },
};
