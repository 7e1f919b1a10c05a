/** Memory of this process by address, as the plain kernels read and write it. */
import { type Pointer, toArrayBuffer } from "bun:ffi";

export const bits = new Uint32Array(1);
export const real = new Float32Array(bits.buffer);
const toBf16 = (value: number) => {
  real[0] = value;
  const word = bits[0] as number;
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
};
const fromBf16 = (half: number) => {
  bits[0] = half << 16;
  return real[0] as number;
};

const MOST_BYTES = 1 << 26; // limit of one matrix; memory that does not exist is never touched
const byAddress = <T>(make: (bytes: ArrayBuffer) => T) => {
  const known = new Map<number, T>();
  return (address: number): T => {
    const found = known.get(address) ?? make(toArrayBuffer(address as Pointer, 0, MOST_BYTES));
    known.set(address, found);
    return found;
  };
};
export const floats = byAddress((bytes) => new Float32Array(bytes));
export const ints = byAddress((bytes) => new Int32Array(bytes));
export const views = byAddress((bytes) => new DataView(bytes));
/** BF16 values by element. */
export const halves = byAddress((bytes) => {
  const words = new Uint16Array(bytes);
  return {
    get: (i: number) => fromBf16(words[i] as number),
    set: (i: number, value: number) => {
      words[i] = toBf16(value);
    },
  };
});
export const range = (count: number) => Array.from({ length: count }, (_, i) => i);
export type Values = readonly number[];
export type Take = () => number;
/** Reads arguments one after the other. */
export const taking = (values: Values): Take => {
  let i = 0;
  return () => values[i++] as number;
};
