import { expect, test } from "bun:test";
import { noTurns, turnsOf } from "./turns.ts";

type Of = Parameters<typeof turnsOf>[0];
const PLAIN = { mix: 0, originalContext: 4096, betaFast: 32, betaSlow: 1, attentionFactor: 1 };
const of = (more: object = {}, yarn: object = {}): Of =>
  ({ headLength: 8, rotated: 8, ropeBase: 10_000, ropeScale: 1, yarn: { ...PLAIN, ...yarn }, ...more }) as Of;

/** The angle of a pair at position 1, and the length of its vector. */
function pairsAt(turns: Float32Array, pairs: number, position = 1) {
  return Array.from({ length: pairs }, (_, pair) => {
    const at = (position * pairs + pair) * 2;
    const [cos, sin] = [turns[at]!, turns[at + 1]!];
    return { angle: Math.atan2(sin, cos), length: Math.hypot(cos, sin) };
  });
}

test("pairs turn slower and slower, and further at each position", () => {
  const turns = turnsOf(of(), 3, null);
  expect(turns).toHaveLength(24);
  for (const [pair, { angle, length }] of pairsAt(turns, 4).entries()) {
    expect(angle).toBeCloseTo(10_000 ** (-pair / 4), 5);
    expect(length).toBeCloseTo(1, 5);
    expect(pairsAt(turns, 4, 2)[pair]?.angle).toBeCloseTo(2 * angle, 5);
    expect(pairsAt(turns, 4, 0)[pair]?.angle).toBe(0);
  }
});

test("pairs behind the rotated part, and layers without a rotation, stay in their place", () => {
  const half = pairsAt(turnsOf(of({ rotated: 4 }), 2, null), 4);
  expect(half.map(({ angle }) => Number(angle.toFixed(5)))).toEqual([1, 0.01, 0, 0]);
  expect([...noTurns({ headLength: 4 }, 2)]).toEqual([1, 0, 1, 0, 1, 0, 1, 0]);
});

test("a scale and factors slow the pairs down", () => {
  const scaled = pairsAt(turnsOf(of({ ropeScale: 0.25 }), 2, null), 4);
  expect(scaled[0]?.angle).toBeCloseTo(0.25, 5);
  const factored = pairsAt(turnsOf(of(), 2, Float32Array.of(2, 4)), 4);
  expect(factored.map(({ angle }) => Number(angle.toFixed(5)))).toEqual([0.5, 0.025, 0.01, 0.001]);
});

test("YaRN keeps fast pairs, scales slow ones and mixes those between; all are longer", () => {
  const yarn = { mix: 1, originalContext: 64, betaFast: 8, betaSlow: 1, attentionFactor: 1 };
  const pairs = pairsAt(turnsOf(of({ ropeScale: 0.5 }, yarn), 2, null), 4);
  // pairOf(8) = 8 ln(64 / 16π) / (2 ln 10,000) = 0.10, pairOf(1) = 1.008: from pair 0 to pair 2
  const expected = [1, 0.1 * 0.75, 0.01 * 0.5, 0.001 * 0.5];
  for (const [i, { angle, length }] of pairs.entries()) {
    expect(angle).toBeCloseTo(expected[i]!, 6);
    expect(length).toBeCloseTo(1 + 0.1 * Math.log(2), 5);
  }
  const half = pairsAt(turnsOf(of({ ropeScale: 0.5 }, { ...yarn, mix: 0.5, attentionFactor: 2 }), 2, null), 4);
  expect(half[0]?.angle).toBeCloseTo(0.75, 6);
  expect(half[0]?.length).toBeCloseTo(2 * (1 + 0.1 * Math.log(2)), 5);
});
