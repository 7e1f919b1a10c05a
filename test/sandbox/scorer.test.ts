/** Several rewards over one batch, over a fake pool. */
import { describe, expect, test } from "bun:test";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import { RewardRejected } from "../../src/sandbox/reward/scorer_types.ts";
import type { RewardPool } from "../../src/sandbox/reward/types.ts";
import { type Call, type Done, entry, fakePool, LIMITS, part, rewards, samples, score } from "./scorer_kit.ts";

describe("opening", () => {
  test("rejected code is reported with its part, and no process is left", async () => {
    const error = { kind: "syntax" as const, message: "no", line: 3, column: 1 };
    const fake = fakePool({ a: {}, b: { loads: () => ({ ok: false, error, stdout: "", stdoutBytes: 0 }) } });
    const opening = openScorer(fake.pool, { parts: [part("a"), part("b")], limits: LIMITS });
    const thrown = await opening.catch((e) => e);
    expect(thrown).toBeInstanceOf(RewardRejected);
    expect(thrown).toMatchObject({ part: "b", rejection: error });
    expect(fake.open.size).toBe(0);
  });

  test("a pool without a free process is reported with its reason", async () => {
    const pool: RewardPool = { take: () => Promise.reject(new Error("none here")), close: async () => {} };
    expect(openScorer(pool, { parts: [part("a")], limits: LIMITS })).rejects.toThrow("none here");
  });

  test("a caller that has left leaves no process", async () => {
    const fake = fakePool({ a: {} });
    const left = new AbortController();
    left.abort(new Error("left"));
    await expect(openScorer(fake.pool, { parts: [part("a")], limits: LIMITS, signal: left.signal })).rejects.toThrow(
      "left",
    );
    expect(fake.open.size).toBe(0);
  });
});

describe("names and sums", () => {
  test("a part with one function named reward has the part's name, else both; the second of a name is marked", async () => {
    const fake = fakePool({ a: {}, b: { entries: [entry("x_reward"), entry("y_reward")] } });
    const scorer = await openScorer(fake.pool, {
      parts: [part("a", { weight: 2 }), part("b", { weight: 0.5 }), part("a")],
      limits: LIMITS,
    });
    const { results } = await scorer.score(samples(1));
    expect(results[0]).toMatchObject({ reward: 4, sub_rewards: { a: 1, "b/x_reward": 1, "b/y_reward": 1, "a#2": 1 } });
    expect(scorer.entrypoints.map((e) => [e.part, e.entrypoint.name])).toEqual([
      ["a", "reward"],
      ["b", "x_reward"],
      ["b", "y_reward"],
      ["a", "reward"],
    ]);
    expect(fake.taken()).toBe(3);
  });

  test("the output of the parts is reported, and their output at load once", async () => {
    const fake = fakePool({ a: { does: () => ({ values: [1], stdout: "hi\n" }) } });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    expect((await scorer.score(samples(1))).stdout).toBe("a loaded\nhi\n");
    expect((await scorer.score(samples(1))).stdout).toBe("hi\n");
  });

  test("an empty batch gives no scores", async () => {
    expect((await score(fakePool({ a: {} }), 0)).summary).toMatchObject({ count: 0, mean: null });
  });
});

describe("parts and callers", () => {
  test("parts work side by side", async () => {
    const both = Promise.withResolvers<void>();
    let working = 0;
    const does = async ({ completions }: Call) => {
      if (++working === 2) both.resolve();
      await both.promise; // of one after the other, the first would wait for ever
      return { values: completions.map(() => 1) };
    };
    expect(rewards(await score(fakePool({ a: { does }, b: { does } }), 2, [part("a"), part("b")]))).toEqual([2, 2]);
  });

  test("batches go one after the other", async () => {
    const fake = fakePool({ a: {} });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    const all = await Promise.all([scorer.score(samples(1)), scorer.score(samples(2))]);
    expect(all.map(({ results }) => results.length)).toEqual([1, 2]);
  });

  test("a caller that leaves ends the processes, and the scorer can be used again", async () => {
    const called = Promise.withResolvers<void>();
    let hangs = true;
    const fake = fakePool({
      a: {
        does: ({ completions }) => {
          called.resolve();
          return hangs ? new Promise<Done>(() => {}) : { values: completions.map(() => 1) };
        },
      },
    });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    const caller = new AbortController();
    const scoring = scorer.score(samples(2), caller.signal);
    await called.promise;
    caller.abort(new Error("left"));
    await expect(scoring).rejects.toThrow("left");
    expect(fake.open.size).toBe(0);
    hangs = false;
    expect(rewards(await scorer.score(samples(2)))).toEqual([1, 1]);
  });

  test("closing ends running work and leaves nothing", async () => {
    const called = Promise.withResolvers<void>();
    const fake = fakePool({
      a: {
        does: () => {
          called.resolve();
          return new Promise<Done>(() => {});
        },
      },
    });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    const scoring = scorer.score(samples(2));
    scoring.catch(() => {});
    await called.promise;
    await scorer.close();
    await expect(scoring).rejects.toThrow("closed");
    await expect(scorer.score(samples(1))).rejects.toThrow("closed");
    expect(fake.open.size).toBe(0);
  });
});
