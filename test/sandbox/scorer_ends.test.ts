/** Processes that end while they score a batch, over a fake pool. */
import { describe, expect, test } from "bun:test";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import { MOST_FRESH } from "../../src/sandbox/reward/scorer_part.ts";
import { CRASH, entry, fakePool, LIMITS, part, rewards, samples, score, TIMEOUT } from "./scorer_kit.ts";

describe("a process that ends over a sample", () => {
  test("costs only that sample: the rest continues in a fresh process", async () => {
    const fake = fakePool({
      a: {
        entries: [entry("reward", "sample")],
        does: ({ completions }) => {
          const bad = completions.indexOf(2);
          return bad < 0
            ? { values: completions.map(() => 1) }
            : { values: completions.slice(0, bad).map(() => 1), end: CRASH, ms: 40 };
        },
      },
    });
    const batch = await score(fake, 5);
    expect(rewards(batch)).toEqual([1, 1, "crashed", 1, 1]);
    expect(batch.results[2]).toMatchObject({ latency_ms: 38, error: { message: "The code ended without any output" } });
    expect(fake.calls.map((c) => c.completions)).toEqual([
      [0, 1, 2, 3, 4],
      [3, 4],
    ]);
    expect([fake.taken(), fake.open.size]).toEqual([2, 1]);
  });

  test("in a whole batch: the first try gets the time of two samples, then each runs alone, and the bad one is found", async () => {
    const fake = fakePool({
      a: {
        does: ({ whole, completions }) => {
          if (whole) return { values: [], end: TIMEOUT, ms: 200 };
          const bad = completions.indexOf(1);
          return bad < 0
            ? { values: completions.map(() => 1) }
            : { values: completions.slice(0, bad).map(() => 1), end: TIMEOUT, ms: 100 };
        },
      },
    });
    const batch = await score(fake, 16);
    expect(rewards(batch)).toEqual([1, "timeout", ...Array(14).fill(1)]);
    expect(fake.calls.map(({ whole, limits }) => [whole, limits.wholeMs, limits.until])).toEqual([
      [true, 200, 2000],
      [false, 0, 2000],
      [false, 0, 2000],
    ]);
  });

  test("a small batch gets no more than its samples may take, and a single one is not tried twice", async () => {
    const fake = fakePool({ a: { does: () => ({ values: [], end: TIMEOUT }) } });
    expect(rewards(await score(fake, 1))).toEqual(["timeout"]);
    expect(fake.calls.map((c) => c.limits.wholeMs)).toEqual([100]);
    const own = fakePool({ a: {} });
    await score(own, 2, [part("a", { timeoutMs: 7 })]);
    expect(own.calls[0]?.limits).toMatchObject({ sampleMs: 7, wholeMs: 14 });
  });

  test("repeatedly is bounded, and the other samples get the reason", async () => {
    const fake = fakePool({ a: { entries: [entry("reward", "sample")], does: () => ({ values: [], end: CRASH }) } });
    const batch = await score(fake, 10);
    expect(rewards(batch)).toEqual(Array(10).fill("crashed"));
    expect(fake.taken()).toBe(1 + MOST_FRESH);
    expect(batch.results.at(-1)?.error?.message).toContain("Not run: the code ended 4 processes");
    expect(fake.open.size).toBe(0);
  });

  test("code that runs completions may end its process: each sample has its own time, and only time is limited", async () => {
    const fake = fakePool({
      a: {
        does: ({ completions }) => {
          const good = completions.findIndex((n) => Number(n) >= 7);
          return good === 0 ? { values: completions.map(() => 1) } : { values: [], end: CRASH, ms: 10 };
        },
      },
    });
    const code = { ...part("a").code, isolate: true };
    const batch = await score(fake, 10, [part("a", { code })]);
    expect(rewards(batch)).toEqual([...Array(7).fill("crashed"), 1, 1, 1]);
    expect(fake.calls.map((c) => c.whole)).toEqual(Array(8).fill(false));
  });

  test("if a sample is a program, one that ends its process gets the score for a failed program", async () => {
    const fake = fakePool({
      a: {
        does: ({ completions }) =>
          completions[0] === 1 ? { values: [], end: CRASH } : { values: [0.5], end: TIMEOUT, ms: 10 },
      },
    });
    const code = { ...part("a").code, isolate: true, failedScore: 0 };
    const batch = await score(fake, 2, [part("a", { code })]);
    expect(rewards(batch)).toEqual([0.5, 0]);
  });

  test("a large batch gets a longer first try, and half of the time at most", async () => {
    for (const [count, ms] of [
      [64, 400],
      [1000, 500],
    ] as const) {
      const fake = fakePool({ a: {} });
      await score(fake, count);
      expect(fake.calls[0]?.limits.wholeMs).toBe(ms);
    }
  });

  test("when the time is up the rest gets timeout, and the next batch begins afresh", async () => {
    let slow = true;
    const fake = fakePool({
      a: {
        entries: [entry("reward", "sample")],
        does: ({ completions }) =>
          slow ? { values: [1], end: TIMEOUT, ms: 1000 } : { values: completions.map(() => 2) },
      },
    });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS, clock: () => fake.clock.now });
    const batch = await scorer.score(samples(4));
    expect(rewards(batch)).toEqual([1, "timeout", "timeout", "timeout"]);
    expect(batch.summary.faults).toEqual({ timeout: 3 });
    slow = false;
    expect(rewards(await scorer.score(samples(2)))).toEqual([2, 2]);
    expect(fake.taken()).toBe(2);
  });

  test("between two batches is no sample's fault", async () => {
    const fake = fakePool({ a: {} });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    for (const process of fake.open) await process.close();
    expect(rewards(await scorer.score(samples(2)))).toEqual([1, 1]);
  });

  test("code that cannot be loaded again leaves the rest without a reward, with a message", async () => {
    let loads = 0;
    const no = {
      ok: false as const,
      error: { kind: "exception" as const, message: "now it fails", line: 1, column: 1 },
      stdout: "",
      stdoutBytes: 0,
    };
    const fake = fakePool({
      a: {
        entries: [entry("reward", "sample")],
        loads: () =>
          loads++ === 0
            ? { ok: true, entrypoints: [entry("reward", "sample")], environments: [], stdout: "", stdoutBytes: 0 }
            : no,
        does: () => ({ values: [1], end: CRASH }),
      },
    });
    const batch = await score(fake, 3);
    expect(rewards(batch)).toEqual([1, "crashed", "crashed"]);
    expect(batch.results[2]?.error?.message).toBe("The code could not be loaded again: now it fails");
  });

  test("one function of a part leaves the other functions their share of the time", async () => {
    const fake = fakePool({
      a: {
        entries: [entry("a_reward", "sample"), entry("b_reward", "sample")],
        does: (c) => ({ values: c.completions.map(() => 1), ms: 200 }),
      },
    });
    await score(fake, 2);
    expect(fake.calls.map((c) => c.limits.until)).toEqual([1500, 2000]);
  });
});
