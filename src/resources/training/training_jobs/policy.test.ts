import { expect, test } from "bun:test";
import {
  bestOf,
  exceededLimit,
  judgeEnd,
  type RunEnd,
  rankedBy,
  rankOf,
  superfluous,
  UNREPORTED_END,
} from "./policy.ts";
import type { JobRow } from "./table.ts";

const ids = (rows: { id: string }[]) => rows.map(({ id }) => id).join(" ");

const job = {
  status: "running",
  step: 7,
  crashes: 0,
  crashStep: 0,
  microDivisor: 1,
  memoryRetries: 0,
  memoryBytes: 2 ** 30,
} as const;
const died: RunEnd = { ...UNREPORTED_END, message: "died" };
const killed: RunEnd = { ...died, killed: true };
const timedOut: RunEnd = { ...died, kind: "time_limit", message: "TIMEOUT" };
const limits = { crashLimit: 3, now: 1000 };
const sample = { prompt: "1+1", completion: "3", reward: null, sub_rewards: {}, advantage: null, tokens: 1 };
const shown = { ...sample, truncated: false, error: "boom" };
const trouble = (kind: "no_effect" | "lacking_memory" | "bad_rows" | "bad_reward", of: typeof shown | null = null) => ({
  ...died,
  trouble: { kind, message: "words", param: null, sample: of },
});

test.each([
  ["a run that got further", job, died, { next: "requeue", patch: { crashes: 0, crashStep: 7, notBefore: 0 } }],
  ["no progress", { ...job, crashStep: 7 }, died, { next: "requeue", patch: { crashes: 1, notBefore: 1200 } }],
  [
    "no progress again",
    { ...job, crashStep: 7, crashes: 1 },
    died,
    { next: "requeue", patch: { crashes: 2, notBefore: 1400 } },
  ],
  ["the last try", { ...job, crashStep: 7, crashes: 2 }, died, { next: "fail", error: { code: "worker_crashed" } }],
  ["a kill after a step", { ...job, crashStep: 9, crashes: 2 }, { ...killed, steps: 1 }, { patch: { crashes: 0 } }],
  ["a kill before any step", { ...job, crashes: 2 }, killed, { next: "requeue", patch: { crashes: 3 } }],
  ["kills without end", { ...job, crashes: 29 }, killed, { next: "fail", error: { code: "worker_crashed" } }],
  ["a lie", job, { ...died, kind: "lied" }, { next: "fail", error: { code: "worker_crashed" } }],
  ["all steps done", job, { ...died, trained: true }, { next: "complete" }],
  ["saved", job, { ...died, kind: "done", saved: true }, { next: "requeue", patch: {} }],
  ["cancelled", { ...job, status: "cancelling" as const }, died, { next: "drop" }],
  ["paused", { ...job, status: "paused" as const }, died, { next: "nothing" }],
  ["resumed before it ended", { ...job, status: "queued" as const }, died, { next: "nothing" }],
  ["failed already", { ...job, status: "failed" as const }, died, { next: "nothing" }],
  ["memory", job, { ...died, kind: "memory" }, { next: "requeue", patch: { microDivisor: 4 } }],
  [
    "memory, reported",
    job,
    trouble("lacking_memory"),
    { next: "requeue", patch: { microDivisor: 4, memoryRetries: 1 } },
  ],
  [
    "memory, small from the start",
    { ...job, microDivisor: 4 },
    trouble("lacking_memory"),
    { patch: { microDivisor: 16 } },
  ],
  [
    "memory, with less",
    { ...job, microDivisor: 4, memoryRetries: 1 },
    trouble("lacking_memory"),
    { next: "fail", error: { code: "out_of_memory" } },
  ],
  ["no effect", job, trouble("no_effect"), { next: "fail", error: { code: "no_effective_update" } }],
  ["rows", job, trouble("bad_rows"), { next: "fail", error: { code: "dataset_error" } }],
  [
    "reward",
    job,
    trouble("bad_reward", shown),
    { error: { message: expect.stringContaining("Error: boom") }, sample: shown },
  ],
  [
    "a time limit after a step",
    job,
    { ...timedOut, steps: 2 },
    { next: "requeue", patch: { crashes: 0, crashStep: 7 } },
  ],
  ["a time limit before any step", job, timedOut, { next: "fail", error: { code: "timeout" } }],
  [
    "a time limit that ends each run at the same step",
    { ...job, crashStep: 7 },
    { ...timedOut, steps: 2 },
    { next: "fail", error: { code: "timeout", message: expect.stringMatching(/^TIMEOUT\. .*no progress/) } },
  ],
  ["settings", job, { ...died, kind: "config" }, { next: "fail", error: { code: "provisioning_failed" } }],
] as const)("an end by %s", (_what, row, end, verdict) => {
  expect(judgeEnd(row, end, limits)).toMatchObject(verdict);
});

test("the wait after crashes without progress doubles up to half a minute", () => {
  const verdict = judgeEnd({ ...job, crashStep: 7, crashes: 90 }, died, { crashLimit: 1000, now: 0 });
  expect(verdict).toMatchObject({ patch: { notBefore: 30_000 } });
});

test("a worker that is killed from outside again and again is retried soon", () => {
  const verdict = judgeEnd({ ...job, crashes: 28 }, killed, { crashLimit: 1000, now: 0 });
  expect(verdict).toMatchObject({ patch: { notBefore: 5_000 } });
});

test("a worker's own message about its end stands without its standard error", () => {
  const verdict = judgeEnd(job, { ...died, kind: "config", tail: "at main.js:1" }, limits);
  expect(verdict).toMatchObject({ error: { message: "died" } });
});

test("out of memory says what was estimated", () => {
  const verdict = judgeEnd({ ...job, memoryRetries: 1 }, trouble("lacking_memory"), limits);
  expect(JSON.stringify(verdict)).toContain("1 GiB");
});

const metered = {
  runMs: 50_000,
  runSince: 1_000,
  maxRuntimeMs: 60_000,
  rateMicros: 1,
  costMicros: 5,
  maxCostMicros: 10,
  gpuCount: 1,
};

test("runtime counts earlier runs, and the operator's limit holds too", () => {
  const at = (now: number, runtimeMs = 1e9) => exceededLimit(metered, { now, runtimeMs, runMicros: 0 })?.code ?? null;
  expect([at(10_999), at(11_000), at(2_000, 51_000)]).toEqual([null, "timeout", "timeout"]);
});

test("cost counts the present run", () => {
  const at = (runMicros: number) => exceededLimit(metered, { now: 2_000, runtimeMs: 1e9, runMicros })?.code ?? null;
  expect([at(4), at(5)]).toEqual([null, "cost_limit"]);
});

const checkpoint = (id: string, step: number, value: number | null) => ({ id, step, value });

test("the best checkpoint has the lowest loss, the highest reward or the widest margin; the later of equals", () => {
  const all = [checkpoint("a", 1, 3), checkpoint("b", 2, 1), checkpoint("c", 3, 3), checkpoint("d", 4, null)];
  const of = (method: JobRow["method"], hyperparameters: object = {}) => ({
    method,
    hyperparameters: { ...hyperparameters },
  });
  expect(bestOf(of("sft"), all)?.id).toBe("b");
  expect(bestOf(of("grpo"), all)?.id).toBe("c");
  expect(bestOf(of("dpo"), all)?.id).toBe("c");
  expect(bestOf(of("dpo"), [checkpoint("d", 4, null)])).toBeUndefined();
  expect(bestOf(of("custom"), all)).toBeUndefined();
  const own = { metric_for_best_model: "eval_loss", greater_is_better: false };
  expect(bestOf(of("dpo", own), all)?.id).toBe("b");
  expect(rankOf(of("dpo", own), [{ eval_loss: 2, "rewards/margins": 3 }])).toBe(2);
  expect(rankOf(of("dpo", own), [{ "rewards/margins": 3 }])).toBeNull();
  expect(rankOf(of("dpo"), [{ eval_loss: 2, "rewards/margins": 3 }])).toBe(3);
});

test("the newest, the best and the needed checkpoints stay", () => {
  const all = [1, 2, 3, 4, 5].map((step) => checkpoint(`c${step}`, step, 0));
  const pruned = (last: number, best: string | null, needed: string[] = []) =>
    ids(superfluous(all, { last, best, needed: new Set(needed) }));
  expect(pruned(2, "c1")).toBe("c2 c3");
  expect(pruned(1, null, ["c3"])).toBe("c1 c2 c4");
  expect(pruned(0, "c5")).toBe("c1 c2 c3 c4");
});

test("F10 a checkpoint ranks by the held-out rows, or by the mean of its last ten steps, and says which", () => {
  const grpo = { method: "grpo" as const, hyperparameters: {} };
  const lucky = [{ reward: 1 }, ...Array.from({ length: 20 }, () => ({ reward: 0 }))];
  expect(rankOf(grpo, lucky)).toBeCloseTo(0.1);
  expect(rankedBy(grpo)).toBe("mean reward of the last 10 steps");
  const heldOut = { ...grpo, evalDatasetId: "ds_1" };
  expect(rankOf(heldOut, [{ reward: 1 }, { reward: 0, eval_reward: 0.4 }, { eval_reward: 0.1 }])).toBe(0.4);
  expect(rankedBy(heldOut)).toBe("eval_reward on held-out rows");
  expect(rankedBy({ method: "sft", hyperparameters: { metric_for_best_model: "eval_loss" } })).toBe(
    "eval_loss on held-out rows",
  );
  expect(rankedBy({ method: "custom", hyperparameters: {} })).toBeNull();
});

test("F10 while all rewards are 0 no checkpoint is the best; a loss of 0 is one", () => {
  const zeros = [checkpoint("a", 6, 0), checkpoint("b", 12, 0)];
  expect(bestOf({ method: "grpo", hyperparameters: {} }, zeros)).toBeUndefined();
  expect(bestOf({ method: "grpo", hyperparameters: {} }, [...zeros, checkpoint("c", 18, 0.1)])?.id).toBe("c");
  expect(bestOf({ method: "sft", hyperparameters: {} }, zeros)?.id).toBe("b");
});
