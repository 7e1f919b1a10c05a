/** Numbers in the device's formats, and what tests of the kernels share. */
import { openRandom, type Random } from "../../src/lib/random.ts";
import type { TestDevice } from "./emulation/choice.ts";

const word = new Uint32Array(1);
const float = new Float32Array(word.buffer);

/** Rounds to the nearest, halves to even. */
export function bf16Bits(value: number): number {
  float[0] = value;
  const bits = word[0]!;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
export function fromBf16(bits: number): number {
  word[0] = bits << 16;
  return float[0]!;
}
export const asBf16 = (values: ArrayLike<number>) => Uint16Array.from(values, bf16Bits);
export const roundedToBf16 = (values: ArrayLike<number>) =>
  Float32Array.from(values, (value) => fromBf16(bf16Bits(value)));
export const fromBf16s = (bits: Uint16Array) => Float32Array.from(bits, fromBf16);

export function gaussians(count: number, random: Random, by = 1): Float32Array {
  return Float32Array.from(
    { length: count },
    () => by * Math.sqrt(-2 * Math.log(random() + 1e-12)) * Math.cos(2 * Math.PI * random()),
  );
}
export const randomOf = (...parts: number[]) => openRandom(...parts);

/** Memory of one test. `close` frees it, which also checks its margins. */
export function openMemory(device: Pick<TestDevice, "allocate" | "put" | "bytes" | "free">) {
  const held: number[] = [];
  const room = (bytes: number) => {
    const at = device.allocate(bytes);
    held.push(at);
    return at;
  };
  return {
    room,
    put(values: NodeJS.TypedArray): number {
      const at = room(values.byteLength);
      device.put(at, values);
      return at;
    },
    floats: (at: number, count: number) => new Float32Array(device.bytes(at, count * 4).slice().buffer),
    ints: (at: number, count: number) => new Int32Array(device.bytes(at, count * 4).slice().buffer),
    halves: (at: number, count: number) => new Uint16Array(device.bytes(at, count * 2).slice().buffer),
    close() {
      for (const at of held) device.free(at);
    },
  };
}
export type Memory = ReturnType<typeof openMemory>;

/** ‖a − b‖ / ‖b‖ */
export function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [apart, length] = [0, 0];
  for (let i = 0; i < b.length; i++) {
    apart += (a[i]! - b[i]!) ** 2;
    length += b[i]! ** 2;
  }
  return Math.sqrt(apart / length);
}
