import { expect, test } from "bun:test";
import { passAtK, passMetrics } from "./pass_at_k.ts";

/** The share of all choices of k samples that have a solved one. */
function counted({ samples, solved, k }: { samples: number; solved: number; k: number }): number {
  let [all, good] = [0, 0];
  for (let bits = 0; bits < 2 ** samples; bits++) {
    const chosen = Array.from({ length: samples }, (_, i) => (bits >> i) & 1);
    if (chosen.reduce((a, b) => a + b, 0) !== k) continue;
    all++;
    if (chosen.slice(0, solved).some((each) => each === 1)) good++;
  }
  return good / all;
}

test("pass@k is the share of choices with a solved completion", () => {
  for (let samples = 1; samples <= 6; samples++)
    for (let solved = 0; solved <= samples; solved++)
      for (let k = 1; k <= samples; k++)
        expect(passAtK({ samples, solved, k })).toBeCloseTo(counted({ samples, solved, k }), 12);
  expect(passAtK({ samples: 1024, solved: 1, k: 512 })).toBeCloseTo(0.5, 9);
});

test("metrics are means over prompts, with an interval from the spread between them", () => {
  const metrics = passMetrics([[1, 0, 0, 0], [0, 0, 0, 0], [2, 1, 1, 1], [null, 0, 1, 0, 0], [null]], 1);
  expect(metrics["pass@1"]).toBeCloseTo((0.25 + 0 + 1 + 0.25) / 4);
  expect(metrics["pass@4"]).toBeCloseTo(3 / 4);
  expect(metrics["pass@4/low"]).toBeCloseTo(0.75 - (1.96 * 0.5) / 2);
  expect(metrics["pass@4/high"]).toBe(1);
  expect(passMetrics([[null]], 1)).toEqual({});
  expect(Object.keys(passMetrics([[1, 0]], 1))).toEqual(["pass@1", "pass@2"]);
});
