import { describe, expect, test } from "bun:test";
import { adaptedScore, packFloats, readAdaptation } from "./adaptation.ts";
import { sigmoid } from "./curve.ts";

const base = "0".repeat(64);
const weight = packFloats(Float32Array.from([1, -2, 0.5]));
const model = {
  base,
  head: { weight, bias: 0.25 },
  temperature: 1.5,
  isotonic: [
    [0, 0.1],
    [1, 0.9],
  ],
};
const file = (change: object = {}, more: object = {}) =>
  new TextEncoder().encode(
    JSON.stringify({
      format: 1,
      number: 1,
      made_at: "2026-01-01T00:00:00.000Z",
      models: { detector_v0: { ...model, ...change } },
      ...more,
    }),
  );

describe("an adaptation of a stranger", () => {
  test("is read if its sizes and numbers are usable", () => {
    expect(readAdaptation(file()).models["detector_v0"]).toEqual(model as never);
    expect(readAdaptation(file({ head: null })).number).toBe(1);
  });

  test.each([
    ["weights that are no numbers", file({ head: { weight: packFloats(Float32Array.from([Number.NaN])), bias: 0 } })],
    [
      "infinite weights",
      file({ head: { weight: packFloats(Float32Array.from([Number.POSITIVE_INFINITY])), bias: 0 } }),
    ],
    ["enormous weights", file({ head: { weight: packFloats(Float32Array.from([1e30])), bias: 0 } })],
    ["half a number", file({ head: { weight: "AAAAAAA=", bias: 0 } })],
    ["text instead of numbers", file({ head: { weight: "not base64!", bias: 0 } })],
    ["too many weights", file({ head: { weight: packFloats(new Float32Array(65_537)), bias: 0 } })],
    ["an enormous bias", file({ head: { weight, bias: 1e300 } })],
    ["a temperature of almost 0", file({ temperature: 1e-300 })],
    ["an enormous temperature", file({ temperature: 1e300 })],
    [
      "a falling curve",
      file({
        isotonic: [
          [0, 0.9],
          [1, 0.1],
        ],
      }),
    ],
    ["a curve outside 0 to 1", file({ isotonic: [[0, -1]] })],
    ["a curve of too many points", file({ isotonic: Array(10_001).fill([0.5, 0.5]) })],
    [
      "too many models",
      file({}, { models: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`m${i}`, model])) }),
    ],
    ["another name", file({ extra: 1 })],
    ["a base that is no hash", file({ base: "../../x" })],
    ["too many bytes", Buffer.concat([file(), Buffer.alloc(5 << 20, 32)])],
    ["no JSON", new TextEncoder().encode("{")],
    ["a list", new TextEncoder().encode("[]")],
  ])("is refused in one line with %s", (_name, bytes) => {
    let message = "";
    try {
      readAdaptation(bytes);
    } catch (error) {
      ({ message } = error as Error);
    }
    expect(message).toMatch(/^.{3,300}$/);
  });
});

test("a score is that of the logit with the weighted features, by the adapted curve", () => {
  const plain = { base, temperature: 2, isotonic: [] };
  const score = (head: { weight: string; bias: number } | null, features: number[]) =>
    adaptedScore({ logit: 1, features }, { ...plain, head });
  expect(score(null, [3, 4, 5])).toBeCloseTo(sigmoid(0.5), 12);
  expect(score({ weight, bias: 0.25 }, [2, 1, 4])).toBeCloseTo(sigmoid((1 + 0.25 + 2 - 2 + 2) / 2), 6);
  expect(score({ weight, bias: 0.25 }, [2])).toBeCloseTo(sigmoid((1 + 0.25 + 2) / 2), 6); // a feature that is missing is 0
});
