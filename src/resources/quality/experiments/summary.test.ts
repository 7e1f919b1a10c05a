import { describe, expect, test } from "bun:test";
import { addScores, compare, type ResultItem, type ResultScore, summarize } from "./summary.ts";
import type { ExperimentRow } from "./table.ts";

const target = (name: string) => ({ name });
const row = {
  id: "exp_1",
  status: "completed",
  baseline: 0,
  targets: [target("base"), target("tuned")],
  evaluators: [{ id: "evl_1", label: "accuracy", version: 1, pairwise: false }],
} as unknown as ExperimentRow;

const item = (index: number, rowId: number, more: Partial<ResultItem> = {}): ResultItem => ({
  target: index,
  rowId,
  latencyMs: 10 * rowId,
  promptTokens: 3,
  completionTokens: 2,
  error: null,
  finishedAt: 1,
  ...more,
});
const score = (index: number, rowId: number, value: number | null): ResultScore => ({
  target: index,
  rowId,
  evaluator: 0,
  score: value,
  passed: value === null ? null : value === 1,
});
/** Values of base and tuned, row by row. */
const scored = (base: (number | null)[], tuned: (number | null)[]) => ({
  items: [...base.map((_, i) => item(0, i + 1)), ...tuned.map((_, i) => item(1, i + 1))],
  cells: addScores(new Map(), [
    ...base.map((value, i) => score(0, i + 1, value)),
    ...tuned.map((value, i) => score(1, i + 1, value)),
  ]),
});
const cellOf = (scores: number[], rowIds = [...scores.keys()]) => ({
  rowIds,
  scores,
  unscored: 0,
  judged: 0,
  passed: 0,
});

describe("a comparison", () => {
  test("of yes and no is McNemar's exact test: 8 gained and 1 lost of 20 have p = 20 / 512", async () => {
    const base = [...Array(8).fill(0), 1, ...Array(11).fill(1)];
    const tuned = [...Array(8).fill(1), 0, ...Array(11).fill(1)];
    const made = await compare(cellOf(tuned), cellOf(base));
    expect(made).toMatchObject({ pairs: 20, wins: 8, losses: 1, ties: 11, test: "mcnemar", significant: true });
    expect(made?.p_value).toBeCloseTo(20 / 512, 12); // 2 · (C(9,0) + C(9,1)) / 2⁹
    expect(made?.mean_difference).toBeCloseTo(7 / 20, 12);
  });

  test("of numbers flips signs: five gains of five have p = 2 / 32", async () => {
    const made = await compare(cellOf([0.6, 0.7, 0.9, 0.8, 0.75]), cellOf([0.5, 0.5, 0.5, 0.5, 0.5]));
    expect(made).toMatchObject({ test: "sign_flip", wins: 5, losses: 0, significant: false });
    expect(made?.p_value).toBeCloseTo(2 / 32, 12);
    expect(made?.mean_difference).toBeCloseTo(0.25, 12);
    expect(made!.ci_low!).toBeGreaterThan(0);
    expect(made!.ci_high!).toBeLessThan(0.5);
  });

  test("of more than 1,000 pairs of numbers is the t-test: it takes no draws", async () => {
    const base = Array.from({ length: 1_002 }, (_, i) => (i % 2 === 0 ? 0.4 : 0.6));
    const made = await compare(cellOf(base.map((value, i) => value + (i % 3 === 0 ? -0.1 : 0.1))), cellOf(base));
    expect(made).toMatchObject({ test: "paired_t", wins: 668, losses: 334, significant: true });
  });

  test("uses only rows that both have a score for", async () => {
    const made = await compare(cellOf([1, 0, 1], [1, 2, 5]), cellOf([1, 1, 1], [2, 3, 4]));
    expect(made).toMatchObject({ pairs: 1, losses: 1 });
    expect(await compare(cellOf([1], [1]), cellOf([1], [2]))).toBeNull();
  });
});

describe("a summary", () => {
  test("has means with intervals, counts, costs and the winner", async () => {
    const made = await summarize(row, scored(Array(10).fill(0), Array(10).fill(1)));
    const [base, tuned] = made.targets;
    expect(base?.evaluators[0]).toMatchObject({
      scored: 10,
      unscored: 0,
      mean: 0,
      ci_low: 0,
      ci_high: 0,
      pass_rate: 0,
    });
    expect(base?.evaluators[0]?.comparison).toBeNull();
    expect(tuned).toMatchObject({ items: 10, errors: 0, latency_ms_p50: 55, prompt_tokens: 30, completion_tokens: 20 });
    expect(tuned?.evaluators[0]).toMatchObject({ mean: 1, pass_rate: 1, comparison: { wins: 10, significant: true } });
    expect(made).toMatchObject({ baseline: "base", winners: { accuracy: "tuned" } });
  });

  test("names the baseline if the other is significantly worse, and no target if it is not", async () => {
    expect((await summarize(row, scored(Array(10).fill(1), Array(10).fill(0)))).winners).toEqual({ accuracy: "base" });
    expect((await summarize(row, scored([1, 0, 1], [1, 1, 1]))).winners).toEqual({ accuracy: null });
  });

  test("keeps an answer without a score out of the mean, and counts it", async () => {
    const made = await summarize(row, scored([1, null, 1], [null, null, null]));
    expect(made.targets[0]?.evaluators[0]).toMatchObject({ scored: 2, unscored: 1, mean: 1 });
    expect(made.targets[1]?.evaluators[0]).toMatchObject({ scored: 0, unscored: 3, mean: null, comparison: null });
  });

  test("does not count items that are not scored yet, and counts errors", async () => {
    const items = [item(0, 1), item(0, 2, { finishedAt: null }), item(0, 3, { error: "too long", latencyMs: null })];
    const made = await summarize(row, { items, cells: addScores(new Map(), [score(0, 1, 1)]) });
    expect(made.targets[0]).toMatchObject({ items: 2, errors: 1, latency_ms_p95: 10 });
    expect(made.targets[1]).toMatchObject({ items: 0, latency_ms_p50: null });
  });

  test("of the same results is the same", async () => {
    const results = scored([0.1, 0.5, 0.3, 0.9], [0.2, 0.7, 0.1, 0.8]);
    expect(await summarize(row, results)).toEqual(await summarize(row, results));
  });
});
