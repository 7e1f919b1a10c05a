import { expect, test } from "bun:test";
import { ThreadCount } from "./thread_count.ts";

/** Batches of 100 ms on a machine with `cores`, of which neighbours want `busy`. Returns the threads after each. */
function counts(
  count: ThreadCount,
  batches: number,
  { cores, busy, from = 0 }: { cores: number; busy: number; from?: number },
) {
  return Array.from({ length: batches }, (_, i) => {
    const share = Math.min(1, cores / (count.threads + busy));
    count.decoded({ wallMs: 100, cpuMs: 100 * count.threads * share, now: from + 100 * (i + 1) });
    return count.threads;
  });
}

test("all threads work while no other process needs a core", () =>
  expect(counts(new ThreadCount(4), 50, { cores: 4, busy: 0 })).toEqual(Array(50).fill(4)));

test("a busy neighbour takes one thread, two take two, and one is always left", () => {
  expect(counts(new ThreadCount(2), 3, { cores: 2, busy: 1 })).toEqual([1, 1, 1]);
  expect(counts(new ThreadCount(4), 4, { cores: 4, busy: 2 })).toEqual([3, 2, 2, 2]);
  expect(counts(new ThreadCount(2), 4, { cores: 2, busy: 9 })).toEqual([1, 1, 1, 1]);
});

test("one thread more is tried later and later while the neighbour stays, and kept when it has gone", () => {
  const count = new ThreadCount(2);
  const said = counts(count, 400, { cores: 2, busy: 1 });
  const trials = said.flatMap((threads, i) => (threads === 2 ? [i] : []));
  const gaps = trials.slice(1).map((at, i) => at - (trials[i] as number));
  expect(trials.length).toBeGreaterThan(2);
  expect(gaps).toEqual([...gaps].sort((a, b) => a - b));
  expect(gaps.at(-1)).toBeGreaterThan(2 * (gaps[0] as number) - 2);
  expect(counts(count, 700, { cores: 2, busy: 0, from: 40_000 }).slice(-60)).toEqual(Array(60).fill(2));
});

test("short batches are judged together", () => {
  const count = new ThreadCount(2);
  for (let i = 0; i < 9; i++) expect(count.decoded({ wallMs: 10, cpuMs: 10, now: 10 * i })).toBe(false);
  expect(count.decoded({ wallMs: 10, cpuMs: 10, now: 100 })).toBe(true);
});
