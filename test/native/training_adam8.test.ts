import { describe, expect, test } from "bun:test";
import {
  BLOCK,
  decoded,
  encoded,
  type Factors,
  stepBlock,
  type Tensor8,
} from "../../src/workers/trainer/engine/adam8/block.ts";
import { codeOf, FIRST_MAP, mapTable, SECOND_MAP } from "../../src/workers/trainer/engine/adam8/map.ts";
import { factorsOf } from "../../src/workers/trainer/engine/adam8/moments.ts";
import { gaussians, openMemory, randomOf } from "./decode_kit.ts";
import { canEmulate, emulateTraining } from "./emulation/device.ts";

const HOW = {
  learningRate: 1e-3,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.1,
  maxNorm: 0,
  divisor: 1,
};
const factorsAt = (steps: number) => factorsOf(HOW, { steps, scale: 0.5, decay: HOW.weightDecay });
const tensorOf = (count: number): Tensor8 => ({
  weights: gaussians(count, randomOf(1)),
  gradient: new Float32Array(count),
  first: encoded(new Float32Array(count), "first"),
  second: encoded(new Float32Array(count), "second"),
});
/** Gradients of very different sizes, and some that are zero. */
const gradientOf = (count: number, step: number) =>
  gaussians(count, randomOf(2, step)).map((x, i) => (i % 11 === step % 11 ? 0 : x * 10 ** -(i % 7)));

function stepAll(of: Tensor8, by: Factors) {
  for (let block = 0; block * BLOCK < of.weights.length; block++) stepBlock(of, block, by);
}

describe("the maps of 8-bit moments", () => {
  test("have 256 numbers in order, with 0 and ±1", () => {
    for (const { values } of [FIRST_MAP, SECOND_MAP]) {
      expect([...values].every((x, i) => i === 0 || x > values[i - 1]!)).toBe(true);
      expect([values.length, values.includes(0), values.at(-1)]).toEqual([256, true, 1]);
    }
    expect([FIRST_MAP.values[0], SECOND_MAP.values[0]]).toEqual([-1, 0]);
    // bitsandbytes, create_dynamic_map(signed=False)
    expect([...SECOND_MAP.values].slice(1, 4)).toEqual([3.25e-7, 7.75e-7, 2.125e-6].map(Math.fround));
  });

  test("a number that is read is encoded as the same byte", () => {
    for (const map of [FIRST_MAP, SECOND_MAP])
      expect(Array.from(map.values, (value) => codeOf(map, value))).toEqual(Array.from({ length: 256 }, (_, i) => i));
  });

  test("moments of a checkpoint become the bytes that they were", () => {
    const random = randomOf(4);
    for (const which of ["first", "second"] as const) {
      const values = gaussians(1000, random).map((x, i) => (which === "first" ? x : x * x) * 10 ** -(i % 9));
      const once = encoded(values, which);
      const again = encoded(decoded(once, which), which);
      expect(again).toEqual(once);
      expect(decoded(once, which).every((x, i) => Math.abs(x - values[i]!) <= 0.07 * once.most[i >> 8]!)).toBe(true);
    }
  });
});

const plainGradient = (count: number, step: number) => gaussians(count, randomOf(3, step), 1e-3);

/** `limit`: of the difference to F32, as a share of the way. Numbers far below the largest of their block are coarse. */
test.each([
  ["of one size", plainGradient, 0.05],
  ["of many sizes", gradientOf, 0.6],
] as const)("ten steps with gradients %s stay close to AdamW with moments in F32", (_name, draw, limit) => {
  const count = 1000;
  const of = tensorOf(count);
  const exact = { w: Float64Array.from(of.weights), m: new Float64Array(count), v: new Float64Array(count) };
  const before = of.weights.slice();
  for (let step = 1; step <= 10; step++) {
    const gradient = draw(count, step);
    of.gradient.set(gradient);
    stepAll(of, factorsAt(step));
    for (let i = 0; i < count; i++) {
      const g = gradient[i]! * 0.5;
      exact.m[i] = 0.9 * exact.m[i]! + 0.1 * g;
      exact.v[i] = 0.999 * exact.v[i]! + 0.001 * g * g;
      const change = exact.m[i]! / (1 - 0.9 ** step) / (Math.sqrt(exact.v[i]! / (1 - 0.999 ** step)) + 1e-8);
      exact.w[i] = exact.w[i]! * (1 - 1e-3 * 0.1) - 1e-3 * change;
    }
  }
  let [apart, moved] = [0, 0];
  for (let i = 0; i < count; i++) {
    apart += (of.weights[i]! - exact.w[i]!) ** 2;
    moved += (exact.w[i]! - before[i]!) ** 2;
    expect(Math.abs(of.weights[i]! - before[i]!)).toBeLessThan(10 * 1e-3 * 4); // no step is divided by nearly nothing
  }
  expect(Math.sqrt(apart / moved)).toBeLessThan(limit);
});

describe.skipIf(!canEmulate)("the kernel", () => {
  test("gives the bits of the CPU's step, and writes nothing past the end", () => {
    const device = emulateTraining();
    const memory = openMemory(device);
    const count = 3 * BLOCK + 77;
    const of = tensorOf(count);
    const [weights, gradient] = [memory.put(of.weights), memory.room(count * 4)];
    const [first, firstMost] = [memory.put(of.first.codes), memory.put(of.first.most)];
    const [second, secondMost] = [memory.put(of.second.codes), memory.put(of.second.most)];
    const maps = memory.put(mapTable());
    for (let step = 1; step <= 3; step++) {
      const values = gradientOf(count, step);
      device.put(gradient, values);
      of.gradient.set(values);
      const by = factorsAt(step);
      device.launch("adam_8bit", { grid: [4, 1, 1], threads: BLOCK }, [
        ...[weights, gradient, first, firstMost, second, secondMost, maps],
        ...[by.rate, by.beta1, by.rest1, by.beta2, by.rest2, by.epsilon, by.keep],
        ...[by.correction1, by.correction2, by.scale, count],
      ]);
      stepAll(of, by);
      expect(memory.floats(weights, count)).toEqual(of.weights as Float32Array<ArrayBuffer>);
      expect(device.bytes(first, count).slice()).toEqual(of.first.codes as Uint8Array<ArrayBuffer>);
      expect(device.bytes(second, count).slice()).toEqual(of.second.codes as Uint8Array<ArrayBuffer>);
      expect(memory.floats(secondMost, 4)).toEqual(of.second.most as Float32Array<ArrayBuffer>);
    }
    memory.close();
  });
});
