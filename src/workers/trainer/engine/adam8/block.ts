/**
 * AdamW over one block of weights whose moments are bytes, in F32 with the order of operations of adam8.cuh: the CPU and
 * the GPU give the same bits. Pure.
 */
import { codeOf, type DynamicMap, FIRST_MAP, SECOND_MAP } from "./map.ts";

export const BLOCK = 256;

/** Factors of a step, all rounded to F32. */
export type Factors = {
  rate: number;
  beta1: number;
  /** 1 - beta1 */
  rest1: number;
  beta2: number;
  rest2: number;
  epsilon: number;
  /** 1 - rate · weight decay */
  keep: number;
  correction1: number;
  correction2: number;
  /** Multiplies the gradient. */
  scale: number;
};

/** One moment of a tensor: a byte for each weight, and the largest number of each block. */
export type Bytes = { codes: Uint8Array; most: Float32Array };

export type Tensor8 = { weights: Float32Array; gradient: Float32Array; first: Bytes; second: Bytes };

const f = Math.fround;
const numberOf = ({ values }: DynamicMap, code: number, most: number) =>
  most === 0 ? 0 : f((values[code] as number) * most);

export function stepBlock({ weights, gradient, first, second }: Tensor8, block: number, by: Factors) {
  const from = block * BLOCK;
  const count = Math.min(BLOCK, weights.length - from);
  const [m, v] = [new Float32Array(count), new Float32Array(count)];
  const [most1, most2] = [first.most[block] as number, second.most[block] as number];
  for (let i = 0; i < count; i++) {
    const at = from + i;
    const g = f((gradient[at] as number) * by.scale);
    const before1 = numberOf(FIRST_MAP, first.codes[at] as number, most1);
    const before2 = numberOf(SECOND_MAP, second.codes[at] as number, most2);
    const now1 = f(f(before1 * by.beta1) + f(g * by.rest1));
    const now2 = f(f(before2 * by.beta2) + f(f(g * g) * by.rest2));
    m[i] = now1;
    v[i] = now2;
    const below = f(f(Math.sqrt(f(now2 * by.correction2))) + by.epsilon);
    const change = f(f(by.rate * f(now1 * by.correction1)) / below);
    weights[at] = f(f((weights[at] as number) * by.keep) - change);
  }
  putBlock(first, from, m, FIRST_MAP);
  putBlock(second, from, v, SECOND_MAP);
}

/** Encodes the numbers of one block. A second moment above zero never becomes zero: a step would be divided by it. */
function putBlock({ codes, most }: Bytes, from: number, values: Float32Array, map: DynamicMap) {
  const largest = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  most[from / BLOCK] = largest;
  const isSecond = map === SECOND_MAP;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    const code = codeOf(map, largest > 0 ? f(value / largest) : 0);
    codes[from + i] = isSecond && value > 0 && code === 0 ? 1 : code;
  }
}

export function decoded({ codes, most }: Bytes, which: "first" | "second"): Float32Array {
  const map = which === "first" ? FIRST_MAP : SECOND_MAP;
  return Float32Array.from(codes, (code, i) => numberOf(map, code, most[Math.floor(i / BLOCK)] as number));
}

export function encoded(values: Float32Array, which: "first" | "second"): Bytes {
  const bytes = { codes: new Uint8Array(values.length), most: new Float32Array(Math.ceil(values.length / BLOCK)) };
  const map = which === "first" ? FIRST_MAP : SECOND_MAP;
  for (let from = 0; from < values.length; from += BLOCK)
    putBlock(bytes, from, values.subarray(from, from + BLOCK), map);
  return bytes;
}
