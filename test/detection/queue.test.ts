/** The order in which the detector computes requests. */
import { describe, expect, test } from "bun:test";
import { ClientLeft } from "../../src/lib/net/client_left.ts";
import { join, type Part, stretches, takeBatch } from "../../src/workers/detector/batch.ts";
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
