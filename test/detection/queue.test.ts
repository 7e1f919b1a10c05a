/** The order in which the detector computes requests. */
import { describe, expect, test } from "bun:test";
import { ClientLeft } from "../../src/lib/net/client_left.ts";
import {
  isLonger,
  join,
  joinResults,
  type Part,
  portionsOf,
  stretches,
  takeBatch,
} from "../../src/workers/detector/batch.ts";
import { createGate } from "../../src/workers/detector/gate.ts";
import { bytesPerPixel, sampleFrames } from "../../src/workers/detector/image/decode.ts";
import type { ModelName } from "../../src/workers/protocol_detector.ts";

const BOTH: ModelName[] = ["detector_v0", "detector_v1"];
const part = (count: number, models: ModelName[] = BOTH): Part => ({
  models,
  count,
  input: new Uint8Array(count).fill(count),
});

describe("a batch", () => {
  const counts = (queue: Part[], limit: number) => takeBatch(queue, limit).map(({ count }) => count);

  test("takes what fits, in order, and leaves the rest", () => {
    const queue = [part(12), part(6), part(9), part(4)];
    expect(counts(queue, 24)).toEqual([12, 6, 4]);
    expect(counts(queue, 24)).toEqual([9]);
    expect(counts(queue, 24)).toEqual([]);
  });

  test("takes an item that is too large alone, rather than never", () =>
    expect(counts([part(90), part(1)], 24)).toEqual([90]));

  test("has only items for the same models", () => {
    const queue = [part(3), part(4, ["detector_v0"]), part(5)];
    expect(counts(queue, 24)).toEqual([3, 5]);
    expect(counts(queue, 24)).toEqual([4]);
  });

  test("is joined in order, and each item gets its own part back", () => {
    const parts = [part(2), part(1), part(3)];
    expect([...join(parts)]).toEqual([2, 2, 1, 3, 3, 3]);
    expect(stretches(parts)).toEqual([[0, 2], [2, 3], [3, 6]]); // biome-ignore format: pairs
  });
});

describe("a divided request", () => {
  const crops = (count: number, models = BOTH): Part => ({
    models,
    count,
    input: Uint8Array.from({ length: count * 2 }, (_, i) => Math.floor(i / 2)),
  });
  const shown = (portions: Part[]) => portions.map(({ models: [name], input }) => [name, [...input]]);

  test("becomes single runs of its networks, longest first, with the crops in order", () => {
    const portions = portionsOf(crops(6));
    expect(shown(portions)).toEqual([
      ["detector_v1", [0, 0, 1, 1, 2, 2]],
      ["detector_v1", [3, 3, 4, 4, 5, 5]],
      ["detector_v0", [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]],
    ]);
    expect(portions.map(({ count }) => count)).toEqual([3, 3, 6]);
  });

  test("has a shorter last run if the crops do not fill it", () => {
    expect(shown(portionsOf(crops(1)))).toEqual([["detector_v1", [0, 0]], ["detector_v0", [0, 0]]]); // biome-ignore format: pairs
    expect(portionsOf(crops(4, ["detector_v1"])).map(({ count }) => count)).toEqual([3, 1]);
  });

  test("is not combined again, and shares its buffer until a portion runs", () => {
    const whole = crops(4);
    const queue = portionsOf(whole);
    const [first, ...rest] = takeBatch(queue, 24);
    expect([rest.length, queue.length]).toEqual([0, 2]);
    expect(first!.input.buffer).toBe(whole.input.buffer);
    expect(join([first!]).buffer).not.toBe(whole.input.buffer);
    expect(join([whole]).buffer).toBe(whole.input.buffer);
  });

  test("gets its results joined in order, with the time of all runs", () => {
    const run = (numbers: number[], ms: number) => ({
      logits: Float32Array.from(numbers),
      features: Float32Array.from(numbers.flatMap((x) => [x, -x])),
      ms,
    });
    const portions = [
      { detector_v1: run([1, 2], 5) },
      { detector_v1: run([3], 3) },
      { detector_v0: run([7, 8, 9], 4) },
    ];
    const joined = joinResults(BOTH, portions);
    expect(joined).toEqual({ detector_v0: run([7, 8, 9], 4), detector_v1: run([1, 2, 3], 8) });
    expect(Object.keys(joined)).toEqual(BOTH);
  });

  test("loses only the network of a portion that failed", () => {
    const logits = Float32Array.of(1);
    const portions = [
      { detector_v1: { logits, ms: 2 } },
      { detector_v1: { error: "broke", ms: 1 } },
      { detector_v0: { logits, ms: 4 } },
    ];
    expect(joinResults(BOTH, portions)).toEqual({
      detector_v0: { logits, ms: 4 },
      detector_v1: { error: "broke", ms: 3 },
    });
  });

  test("runs the whole image before shorter runs", () => {
    const whole: Part = { models: ["detector_whole"], count: 1, input: new Uint8Array(1) };
    expect(portionsOf(crops(6)).map((portion) => isLonger(whole, portion))).toEqual([false, false, true]);
    expect([isLonger(whole, whole), isLonger(whole, crops(1))]).toEqual([false, false]);
  });
});

describe("the gate", () => {
  const never = new AbortController().signal;

  test("admits as much as there is room for, in order: a large item is not overtaken", async () => {
    const gate = createGate(100);
    const order: string[] = [];
    const enter = (name: string, amount: number) =>
      gate.enter(amount, never).then((leave) => {
        order.push(name);
        return leave;
      });
    const first = await enter("first", 60);
    const large = enter("large", 90);
    const small = enter("small", 10);
    await Promise.resolve();
    expect(order).toEqual(["first"]);
    first();
    (await large)();
    (await small)();
    expect(order).toEqual(["first", "large", "small"]);
    expect(gate.used).toBe(0);
  });

  test("gives an item that needs more than the budget the whole budget", async () => {
    const gate = createGate(100);
    const leave = await gate.enter(1_000, never);
    expect(gate.used).toBe(100);
    leave();
    expect(gate.used).toBe(0);
  });

  test("drops an item that leaves while waiting, and later items move up", async () => {
    const gate = createGate(10);
    const leave = await gate.enter(5, never);
    const going = new AbortController();
    const left = gate.enter(10, going.signal);
    const behind = gate.enter(5, never);
    going.abort();
    expect(left).rejects.toThrow(ClientLeft);
    (await behind)();
    leave();
    expect(gate.used).toBe(0);
  });
});

test("frames are spread over the reachable part of an animation", () => {
  expect(sampleFrames({ frames: 1, width: 9, height: 9 })).toEqual([0]);
  expect(sampleFrames({ frames: 3, width: 9, height: 9 })).toEqual([0, 1, 2]);
  expect(sampleFrames({ frames: 100, width: 9, height: 9 })).toEqual([0, 20, 40, 60, 80]);
  expect(sampleFrames({ frames: 100, width: 10_000, height: 10_000 })).toEqual([0, 1, 2, 3]);
});

test("a pixel counts the memory that its decoder needs for the whole image", () => {
  const jpeg = { format: "jpeg", channels: 3, depth: "uchar" } as const;
  const deep = { format: "png", channels: 4, depth: "ushort" } as const;
  expect(bytesPerPixel(jpeg)).toBe(3);
  expect(bytesPerPixel({ ...jpeg, orientation: 6 })).toBe(6);
  expect(bytesPerPixel({ ...jpeg, isProgressive: true })).toBe(9);
  expect(bytesPerPixel({ ...jpeg, channels: 4, isProgressive: true, orientation: 3 })).toBe(15);
  expect([bytesPerPixel(deep), bytesPerPixel({ ...deep, isProgressive: true })]).toEqual([3, 11]);
  expect(bytesPerPixel({ format: "webp", channels: 4, depth: "uchar" })).toBe(7);
  expect(bytesPerPixel({ format: "gif", channels: 4, depth: "uchar", pages: 9 })).toBe(11);
});
