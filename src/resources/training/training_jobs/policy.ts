/** Decides what the end of a run means for its job and which checkpoints stay. Pure. */

import { formatBytes } from "../../../lib/bytes.ts";
import { usdOf } from "../../../lib/money.ts";
import { HEADLINE_METRIC, isLowerBetter } from "../../../lib/training/metrics.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { CUSTOM_ENDS, TIME_LIMIT } from "../../../platform/providers/protocol.ts";
import type { FromTrainer, TROUBLES, TrainSample } from "../../../workers/protocol_trainer.ts";
import { isInWorkspace } from "../../machines/sessions/schema.ts";
import type { Shortage } from "../../money/billing/service.ts";
import type { CheckpointRow, FailureCode, JobError, JobRow, JobVolume, Rewards } from "./table.ts";

export type Trouble = Omit<Extract<FromTrainer, { type: "trouble" }>, "type">;
export type RunEnd = {
  /** The end of the process: done, stopped, crashed, silent, lied, or the kind that it reported itself. */
  kind: string;
  message: string;
  /** The end of its standard error. */
  tail: string;
  trained: boolean;
  /** Why not all steps were done. */
  stoppedEarly: string | null;
  /** The run ended because it was asked to save. */
  saved: boolean;
  trouble: Trouble | null;
  /** Steps that the run reported. */
  steps: number;
  /** A SIGKILL from outside ended the run: the job is not at fault. */
  killed: boolean;
  /** Times in a row that a file of the node came damaged. */
  damaged?: number;
};
/** The end of a run that reported nothing. */
export const UNREPORTED_END: RunEnd = {
  kind: "crashed",
  message: "",
  tail: "",
  trained: false,
  stoppedEarly: null,
  saved: false,
  trouble: null,
  steps: 0,
  killed: false,
};

/** False for a student that learns from its teacher alone, and for methods that learn from rows. */
export const hasRewards = ({ parts, evaluators = [] }: Rewards): boolean => parts.length + evaluators.length > 0;

type Patch = Partial<Pick<JobRow, "crashes" | "crashStep" | "notBefore" | "microDivisor" | "memoryRetries">>;
export type Verdict =
  | { next: "complete" }
  | { next: "drop" }
  | { next: "nothing" }
  | { next: "requeue"; patch: Patch; why: string; level: "info" | "warn" }
  | { next: "fail"; error: JobError; sample: TrainSample | null };

type Judged = Pick<
  JobRow,
  "status" | "step" | "crashes" | "crashStep" | "microDivisor" | "memoryRetries" | "memoryBytes"
>;
type Limits = { crashLimit: number; now: number };

const SMALLER = 4; // times fewer tokens in a micro-batch after memory ran out
const FIRST_WAIT_MS = 200;
export const LONGEST_WAIT_MS = 30_000;
/** Kills from outside say little about the job: more of them are tolerated, with shorter waits. */
const KILLS_FOR_A_CRASH = 10;
const LONGEST_WAIT_KILLED_MS = 5_000;

/** Decides how a job goes on after a run. A job that was paused or has ended meanwhile stays as it is. */
export function judgeEnd(job: Judged, end: RunEnd, limits: Limits): Verdict {
  if (job.status === "cancelling") return { next: "drop" };
  if (job.status !== "running" && job.status !== "provisioning") return { next: "nothing" };
  if (end.trained) return { next: "complete" };
  if (end.trouble?.kind === "lacking_memory" || (!end.trouble && end.kind === "memory")) return outOfMemory(job, end);
  if (!end.trouble && end.kind === TIME_LIMIT) return outOfTime(job, end);
  const code = end.trouble ? TROUBLE_CODES[end.trouble.kind] : FINAL_ENDS[end.kind];
  if (code) return failed({ code, message: messageOf(end), param: end.trouble?.param ?? null }, end);
  if (end.saved)
    return { next: "requeue", patch: {}, why: "saved; resuming from the newest checkpoint", level: "info" };
  return crashed(job, end, limits);
}

const failed = (error: JobError, { trouble }: RunEnd): Verdict => ({
  next: "fail",
  error,
  sample: trouble?.sample ?? null,
});

const TROUBLE_CODES: Record<(typeof TROUBLES)[number], FailureCode> = {
  no_effect: "no_effective_update",
  lacking_memory: "out_of_memory",
  bad_rows: "dataset_error",
  bad_reward: "reward_error",
};
/** A retry would only repeat these ends. */
const FINAL_ENDS: Readonly<Record<string, FailureCode>> = {
  data: "dataset_error",
  reward: "reward_error",
  config: "provisioning_failed",
  lied: "worker_crashed",
  ...CUSTOM_ENDS,
};

/** The worker reports no cause for these ends: its standard error is all there is. */
const WITHOUT_CAUSE = ["crashed", "silent", "lied"];

function messageOf({ kind, trouble, message, tail }: RunEnd): string {
  if (trouble) return trouble.sample === null ? trouble.message : `${trouble.message}\n${formatSample(trouble.sample)}`;
  return tail.trim() === "" || !WITHOUT_CAUSE.includes(kind) ? message : `${message}\n${tail.trim()}`;
}

const MOST_SHOWN = 500;
const short = (text: string) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);

const formatSample = ({ prompt, completion, error }: TrainSample) =>
  [
    `Prompt: ${short(typeof prompt === "string" ? prompt : JSON.stringify(prompt))}`,
    `Completion: ${short(completion)}`,
    ...(error === null ? [] : [`Error: ${short(error)}`]),
  ].join("\n");

function outOfMemory(job: Judged, end: RunEnd): Verdict {
  const message = messageOf(end);
  if (job.memoryRetries === 0) {
    const why = `out of memory (${message}); retrying once with micro-batches ${SMALLER} times smaller`;
    const patch = { microDivisor: job.microDivisor * SMALLER, memoryRetries: 1 };
    return { next: "requeue", patch, why, level: "warn" };
  }
  const text = `Out of memory, also with micro-batches ${SMALLER} times smaller: ${message}. The estimate was ${formatBytes(job.memoryBytes)}. Lower max_completion_length, max_length or per_device_train_batch_size, or use a smaller model`;
  return failed({ code: "out_of_memory", message: text, param: "/hyperparameters" }, end);
}

/** A run that a scheduler ended goes on if it got further than the last one that ended so. A retry would repeat the rest. */
function outOfTime(job: Judged, end: RunEnd): Verdict {
  const message = messageOf(end);
  if (end.steps > 0 && job.step > job.crashStep) {
    const patch = { crashes: 0, notBefore: 0, crashStep: job.step };
    return { next: "requeue", patch, why: `${message}. Resuming from the newest checkpoint`, level: "warn" };
  }
  const text = `${message}. The run made no progress within this limit: use a region with a longer time limit, or smaller steps`;
  return failed({ code: "timeout", message: text, param: null }, end);
}

/**
 * Retry at once if the run got further than the previous crash. A run killed from outside is retried at once after any
 * completed step: where it was killed says nothing about the job.
 */
function crashed(job: Judged, end: RunEnd, { crashLimit, now }: Limits): Verdict {
  const message = messageOf(end);
  if (end.killed ? end.steps > 0 : job.step > job.crashStep) {
    const patch = { crashes: 0, notBefore: 0, ...(end.killed ? {} : { crashStep: job.step }) };
    return { next: "requeue", patch, why: `${message}. Resuming from the newest checkpoint`, level: "warn" };
  }
  const crashes = job.crashes + 1;
  if (crashes >= (end.killed ? crashLimit * KILLS_FOR_A_CRASH : crashLimit)) {
    const text = `The worker crashed ${crashes} times without progress (training.crash_limit). The last crash: ${message}`;
    return failed({ code: "worker_crashed", message: text, param: null }, end);
  }
  const longest = end.killed ? LONGEST_WAIT_KILLED_MS : LONGEST_WAIT_MS;
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** (crashes - 1), longest);
  const why = `${message}. Retrying in ${waitMs / 1000} s`;
  return { next: "requeue", patch: { crashes, notBefore: now + waitMs }, why, level: "warn" };
}

type Metered = Pick<
  JobRow,
  "runMs" | "runSince" | "maxRuntimeMs" | "rateMicros" | "costMicros" | "maxCostMicros" | "gpuCount"
>;

export const runtimeMs = ({ runMs, runSince }: Pick<JobRow, "runMs" | "runSince">, now: number) =>
  runMs + (runSince === null ? 0 : Math.max(0, now - runSince));

/** The limit that a running job has reached, if any. `runMicros`: cost of the present run, in micro-dollars. */
export function exceededLimit(
  job: Metered,
  most: { runtimeMs: number; runMicros: number; now: number },
): JobError | null {
  const limitMs = Math.min(job.maxRuntimeMs ?? most.runtimeMs, most.runtimeMs);
  if (runtimeMs(job, most.now) >= limitMs) {
    const message = `The job ran for ${Math.round(limitMs / MINUTE_MS)} minutes, its limit: raise max_runtime_minutes`;
    return { code: "timeout", message, param: "/max_runtime_minutes" };
  }
  if (job.maxCostMicros === null || job.costMicros + most.runMicros < job.maxCostMicros) return null;
  const message = `The job has cost ${usdOf(job.maxCostMicros).toFixed(2)} USD, its limit: raise max_cost_usd`;
  return { code: "cost_limit", message, param: "/max_cost_usd" };
}

export const isShortage = (reason: JobRow["pauseReason"] | undefined): reason is Shortage =>
  reason === "out of credit" || reason === "out of budget";

/** For a job that costs something. `shortage`: the reason why its payer cannot pay. */
export function judgeCredit(
  job: Pick<JobRow, "status" | "pauseReason">,
  shortage: Shortage | null,
): "pause" | "resume" | "nothing" {
  if (job.status === "paused") return isShortage(job.pauseReason) && shortage === null ? "resume" : "nothing";
  const runs = job.status === "queued" || job.status === "provisioning" || job.status === "running";
  return runs && shortage !== null ? "pause" : "nothing";
}

type Judgeable = Pick<JobRow, "method" | "hyperparameters"> & Partial<Pick<JobRow, "evalDatasetId">>;

/** One step is luck: a batch of it may have had easy prompts. */
export const STEPS_OF_MEAN = 10;

/** `steps`: how many training steps the mean covers; null for a metric of the held-out rows. */
export type Ranking = { metric: string; lower: boolean; steps: number | null };

/**
 * The ranking of checkpoints: by the job's own metric (`metric_for_best_model`), else the method's, on the held-out rows if
 * there are some, else over the last training steps.
 */
export function rankingOf({ method, hyperparameters, evalDatasetId }: Judgeable): Ranking | null {
  if (method === "custom") return null;
  const { metric_for_best_model: own, greater_is_better: greater } = hyperparameters;
  if (typeof own === "string") return { metric: own, lower: greater === false, steps: null };
  const metric = HEADLINE_METRIC[method];
  const lower = isLowerBetter(metric);
  return evalDatasetId ? { metric: `eval_${metric}`, lower, steps: null } : { metric, lower, steps: STEPS_OF_MEAN };
}

/** The ranking in words. Null for a job that has none. */
export function rankedBy(job: Judgeable): string | null {
  const ranking = rankingOf(job);
  if (!ranking) return null;
  const { metric, steps } = ranking;
  return steps === null ? `${metric} on held-out rows` : `mean ${metric} of the last ${steps} steps`;
}

type Values = Readonly<Record<string, number>>;

/**
 * The value that ranks a checkpoint. `recent`: the metrics of its step and of steps before, newest first; null if none
 * has the metric.
 */
export function rankOf(job: Judgeable, recent: readonly Values[]): number | null {
  const ranking = rankingOf(job);
  if (!ranking) return null;
  const values = recent.flatMap((each) => each[ranking.metric] ?? []).slice(0, ranking.steps ?? 1);
  return values.length === 0 ? null : values.reduce((sum, each) => sum + each, 0) / values.length;
}

/** True if the job's model is made from its best checkpoint, not from its last. */
export const takesBest = ({ hyperparameters }: Judgeable) => hyperparameters["load_best_model_at_end"] === true;

type Scored = Pick<CheckpointRow, "id" | "step" | "value">;

/**
 * The best checkpoint by the job's metric; the later one of equals. Undefined if none has the metric, or if nothing is
 * learned yet: all rewards or margins are 0.
 */
export function bestOf<T extends Scored>(job: Judgeable, checkpoints: readonly T[]): T | undefined {
  const ranking = rankingOf(job);
  if (!ranking) return undefined;
  const sign = ranking.lower ? -1 : 1;
  const rank = ({ value }: Scored) => (value === null ? Number.NEGATIVE_INFINITY : sign * value);
  const ranked = checkpoints.filter(({ value }) => value !== null);
  if (!ranking.lower && ranked.every(({ value }) => value === 0)) return undefined;
  return ranked.toSorted((a, b) => rank(b) - rank(a) || b.step - a.step).at(0);
}

/** Checkpoints to delete: neither among the newest, nor the best, nor needed elsewhere. */
export function superfluous<T extends Scored>(
  checkpoints: readonly T[],
  keep: { last: number; best: string | null; needed: ReadonlySet<string> },
): T[] {
  const newest = checkpoints.toSorted((a, b) => b.step - a.step).slice(0, Math.max(1, keep.last));
  return checkpoints.filter((each) => !newest.includes(each) && each.id !== keep.best && !keep.needed.has(each.id));
}

type VolumeMount = Pick<JobVolume, "mount_path"> & { read_only?: boolean | undefined };

/** Volumes of older jobs do not say it: commands could write below /workspace. */
export const isReadOnly = ({ read_only, mount_path }: VolumeMount): boolean => read_only ?? !isInWorkspace(mount_path);
