/** Several rewards over one batch, over a fake pool whose processes do what the test says, on a clock of the test's own. */
import { describe, expect, test } from "bun:test";
import type { Entrypoint, Outcome, Sample } from "../../src/lib/rewards/contract.ts";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import { MOST_FRESH } from "../../src/sandbox/reward/scorer_part.ts";
import { type RewardPart, RewardRejected } from "../../src/sandbox/reward/scorer_types.ts";
import type {
  Called,
  CallLimits,
  Loaded,
  RewardEnd,
  RewardPool,
  RewardProcess,
} from "../../src/sandbox/reward/types.ts";

type Call = { part: string; entry: string; whole: boolean; completions: unknown[]; limits: CallLimits };
/** What a process does when it is called: outcomes, then perhaps an end. */
type Done = { values: (number | Outcome)[]; end?: RewardEnd; ms?: number; stdout?: string };
type Behaviour = (call: Call) => Done | Promise<Done>;

const entry = (name = "reward", form: Entrypoint["form"] = "batch"): Entrypoint => ({
  name,
  signature: `${name}()`,
  form,
  is_async: false,
  line: 1,
});
const TIMEOUT: RewardEnd = { kind: "timeout", message: "took longer than 100 ms" };
const CRASH: RewardEnd = { kind: "crashed", message: "ended without any output" };

/** The source of a part is its name among `parts`, so that a process knows what it was loaded with. */
function fakePool(parts: Record<string, { entries?: Entrypoint[]; loads?: () => Loaded; does?: Behaviour }>) {
  const clock = { now: 1000 };
  const calls: Call[] = [];
  const open = new Set<RewardProcess>();
  let taken = 0;
  const pool: RewardPool = {
    async take(_language, signal) {
      signal?.throwIfAborted();
      taken++;
      return fakeProcess();
    },
    close: async () => {},
  };
  const fakeProcess = (): RewardProcess => {
    const ended = Promise.withResolvers<RewardEnd>();
    let part = "";
    const process: RewardProcess = {
      pid: taken,
      layers: ["language"],
      ended: ended.promise,
      async load({ source }) {
        part = source;
        const printed = { stdout: `${source} loaded\n`, stdoutBytes: 1 };
        return parts[part]?.loads?.() ?? { ok: true, entrypoints: parts[part]?.entries ?? [entry()], ...printed };
      },
      async call({ name }, samples, limits): Promise<Called> {
        const call = {
          part,
          entry: name,
          whole: limits.wholeMs > 0,
          completions: samples.map((s) => s.completion),
          limits,
        };
        calls.push(call);
        const working: Promise<Done> = Promise.resolve(
          (parts[part]?.does ?? (() => ({ values: samples.map(() => 1) })))(call),
        );
        const done: Done | RewardEnd = await Promise.race([working, ended.promise]);
        if (!("values" in done)) return { outcomes: [], end: done, stdout: "", stdoutBytes: 0 };
        clock.now += done.ms ?? 0;
        const outcomes = done.values.map(
          (v): Outcome => (typeof v === "number" ? { value: v, fault: null, ms: 1 } : v),
        );
        if (done.end) ended.resolve(done.end);
        return { outcomes, end: done.end ?? null, stdout: done.stdout ?? "", stdoutBytes: 0 };
      },
      async close() {
        open.delete(process);
        ended.resolve({ kind: "closed", message: "was closed" });
      },
    };
    open.add(process);
    return process;
  };
  return { pool, calls, clock, open, taken: () => taken };
}

const part = (name: string, more: Partial<RewardPart> = {}): RewardPart => ({
  name,
  weight: 1,
  code: { language: "python", source: name, params: {}, seed: 0 },
  ...more,
});
const samples = (count: number): Sample[] =>
  Array.from({ length: count }, (_, i) => ({ prompt: "p", completion: i, row: {} }));
const LIMITS = { sampleMs: 100, batchMs: 1000 };

async function score(fake: ReturnType<typeof fakePool>, count: number, parts = [part("a")]) {
  const scorer = await openScorer(fake.pool, { parts, limits: LIMITS, clock: () => fake.clock.now });
  return scorer.score(samples(count));
}
const rewards = ({ results }: { results: { reward: number | null; error: { kind: string } | null }[] }) =>
  results.map(({ reward, error }) => reward ?? error?.kind ?? null);

describe("opening", () => {
  test("code that is rejected is told with its part, and no process is left", async () => {
    const error = { kind: "syntax" as const, message: "no", line: 3, column: 1 };
    const fake = fakePool({ a: {}, b: { loads: () => ({ ok: false, error, stdout: "", stdoutBytes: 0 }) } });
    const opening = openScorer(fake.pool, { parts: [part("a"), part("b")], limits: LIMITS });
    const thrown = await opening.catch((e) => e);
    expect(thrown).toBeInstanceOf(RewardRejected);
    expect(thrown).toMatchObject({ part: "b", rejection: error });
    expect(fake.open.size).toBe(0);
  });

  test("a pool that has no process to give is told as it is", async () => {
    const pool: RewardPool = { take: () => Promise.reject(new Error("none here")), close: async () => {} };
    expect(openScorer(pool, { parts: [part("a")], limits: LIMITS })).rejects.toThrow("none here");
  });

  test("an asker who has left leaves no process", async () => {
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

  test("what the parts print is told, what they print at load once", async () => {
    const fake = fakePool({ a: { does: () => ({ values: [1], stdout: "hi\n" }) } });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    expect((await scorer.score(samples(1))).stdout).toBe("a loaded\nhi\n");
    expect((await scorer.score(samples(1))).stdout).toBe("hi\n");
  });

  test("nothing to score is nothing scored", async () => {
    expect((await score(fakePool({ a: {} }), 0)).summary).toMatchObject({ count: 0, mean: null });
  });
});

describe("a process that ends over a sample", () => {
  test("costs that sample only: the rest goes on in a fresh one", async () => {
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

  test("in a whole batch: the time of two samples for the first try, then one by one, and the one is found", async () => {
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

  test("again and again is bounded, and the rest is told why", async () => {
    const fake = fakePool({ a: { entries: [entry("reward", "sample")], does: () => ({ values: [], end: CRASH }) } });
    const batch = await score(fake, 10);
    expect(rewards(batch)).toEqual(Array(10).fill("crashed"));
    expect(fake.taken()).toBe(1 + MOST_FRESH);
    expect(batch.results.at(-1)?.error?.message).toContain("Not run: the code ended 4 processes");
    expect(fake.open.size).toBe(0);
  });

  test("code that runs what it judges is ended by that: each sample has its own time, and only the time bounds them", async () => {
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

  test("where a sample is a program, one that ends its process scores what such a one scores", async () => {
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

  test("between two batches is nobody's fault", async () => {
    const fake = fakePool({ a: {} });
    const scorer = await openScorer(fake.pool, { parts: [part("a")], limits: LIMITS });
    for (const process of fake.open) await process.close();
    expect(rewards(await scorer.score(samples(2)))).toEqual([1, 1]);
  });

  test("code that cannot be loaded again leaves the rest without a reward, with words", async () => {
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
          loads++ === 0 ? { ok: true, entrypoints: [entry("reward", "sample")], stdout: "", stdoutBytes: 0 } : no,
        does: () => ({ values: [1], end: CRASH }),
      },
    });
    const batch = await score(fake, 3);
    expect(rewards(batch)).toEqual([1, "crashed", "crashed"]);
    expect(batch.results[2]?.error?.message).toBe("The code could not be loaded again: now it fails");
  });

  test("one function of a part keeps the others' share of the time", async () => {
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

describe("parts and askers", () => {
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

  test("an asker who leaves ends the processes, and the scorer can be asked again", async () => {
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
    const leaving = new AbortController();
    const scoring = scorer.score(samples(2), leaving.signal);
    await called.promise;
    leaving.abort(new Error("left"));
    await expect(scoring).rejects.toThrow("left");
    expect(fake.open.size).toBe(0);
    hangs = false;
    expect(rewards(await scorer.score(samples(2)))).toEqual([1, 1]);
  });

  test("closing ends what works and leaves nothing", async () => {
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
