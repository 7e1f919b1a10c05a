/** Decides what the end of a run means for its job and which checkpoints stay. Pure. */
import { formatBytes } from "../../lib/bytes.ts";
import { HEADLINE_METRIC } from "../../lib/training/metrics.ts";
import type { FromTrainer, TROUBLES, TrainSample } from "../../workers/protocol_trainer.ts";
import type { Shortage } from "../billing/service.ts";
import type { CheckpointRow, FailureCode, JobError, JobRow } from "./table.ts";

export type Trouble = Omit<Extract<FromTrainer, { type: "trouble" }>, "type">;
export type RunEnd = {
  /** Of the process: done, stopped, crashed, silent, lied, or what it said itself. */
  kind: string;
  message: string;
  /** The end of its standard error. */
  tail: string;
  trained: boolean;
  /** It ended because it was told to save. */
  saved: boolean;
  trouble: Trouble | null;
  /** Steps it told. */
  steps: number;
  /** By somebody else's SIGKILL: no fault of the job's. */
  killed: boolean;
};
/** Of a run that ended without a word. */
export const UNTOLD: RunEnd = {
  kind: "crashed",
  message: "",
  tail: "",
  trained: false,
  saved: false,
  trouble: null,
  steps: 0,
  killed: false,
};

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

const LESS = 4; // times fewer tokens in a micro-batch after memory ran out
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 30_000;
/** Kills from outside say little about the job: more of them are borne, and none is waited for as long. */
const KILLS_FOR_A_CRASH = 10;
const LONGEST_WAIT_KILLED_MS = 5_000;

/** What becomes of a job whose run has ended. Only a row that should run is moved. */
export function judgeEnd(job: Judged, end: RunEnd, limits: Limits): Verdict {
  if (job.status === "cancelling") return { next: "drop" };
  if (job.status !== "running" && job.status !== "provisioning") return { next: "nothing" };
  if (end.trained) return { next: "complete" };
  if (end.trouble?.kind === "lacking_memory" || (!end.trouble && end.kind === "memory")) return lacking(job, end);
  const code = end.trouble ? TROUBLE_CODES[end.trouble.kind] : ENDS[end.kind];
  if (code) return failed({ code, message: wordsOf(end), param: end.trouble?.param ?? null }, end);
  if (end.saved) return { next: "requeue", patch: {}, why: "it was saved and goes on", level: "info" };
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
/** Ends that a second try would only repeat. */
const ENDS: Readonly<Record<string, FailureCode>> = {
  data: "dataset_error",
  reward: "reward_error",
  config: "provisioning_failed",
  lied: "worker_crashed",
};

/** Ends that the worker said nothing about: its standard error is all there is. */
const UNSAID = ["crashed", "silent", "lied"];

function wordsOf({ kind, trouble, message, tail }: RunEnd): string {
  if (trouble) return trouble.sample === null ? trouble.message : `${trouble.message}\n${shown(trouble.sample)}`;
  return tail.trim() === "" || !UNSAID.includes(kind) ? message : `${message}\n${tail.trim()}`;
}

const MOST_SHOWN = 500;
const short = (text: string) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text);

/** A sample that shows what went wrong, in words. */
const shown = ({ prompt, completion, error }: TrainSample) =>
  [
    `Prompt: ${short(typeof prompt === "string" ? prompt : JSON.stringify(prompt))}`,
    `Completion: ${short(completion)}`,
    ...(error === null ? [] : [`Error: ${short(error)}`]),
  ].join("\n");

function lacking(job: Judged, end: RunEnd): Verdict {
  const words = wordsOf(end);
  if (job.memoryRetries === 0) {
    const why = `memory ran out (${words}): it is tried once more with micro-batches that are ${LESS} times smaller`;
    const patch = { microDivisor: job.microDivisor * LESS, memoryRetries: 1 };
    return { next: "requeue", patch, why, level: "warn" };
  }
  const message = `Memory ran out, also with micro-batches that are ${LESS} times smaller: ${words}. It was estimated to take ${formatBytes(job.memoryBytes)}. Lower max_completion_length, max_length or per_device_train_batch_size, or use a smaller model`;
  return failed({ code: "out_of_memory", message, param: "/hyperparameters" }, end);
}

/**
 * A run that got further than the one that crashed before it has earned another try at once; one that was killed from
 * outside by any step at all, for where it was killed says nothing about that step.
 */
function crashed(job: Judged, end: RunEnd, { crashLimit, now }: Limits): Verdict {
  const words = wordsOf(end);
  if (end.killed ? end.steps > 0 : job.step > job.crashStep) {
    const patch = { crashes: 0, notBefore: 0, ...(end.killed ? {} : { crashStep: job.step }) };
    return { next: "requeue", patch, why: `${words}. It goes on from its newest checkpoint`, level: "warn" };
  }
  const crashes = job.crashes + 1;
  if (crashes >= (end.killed ? crashLimit * KILLS_FOR_A_CRASH : crashLimit)) {
    const message = `The worker died ${crashes} times without progress (training.crash_limit). The last time: ${words}`;
    return failed({ code: "worker_crashed", message, param: null }, end);
  }
  const longest = end.killed ? LONGEST_WAIT_KILLED_MS : LONGEST_WAIT_MS;
  const waitMs = Math.min(FIRST_WAIT_MS * 2 ** (crashes - 1), longest);
  const why = `${words}. It is tried again in ${waitMs / 1000} s`;
  return { next: "requeue", patch: { crashes, notBefore: now + waitMs }, why, level: "warn" };
}

type Metered = Pick<
  JobRow,
  "runMs" | "runSince" | "maxRuntimeMs" | "rateMicros" | "costMicros" | "maxCostMicros" | "gpuCount"
>;

export const runtimeMs = ({ runMs, runSince }: Pick<JobRow, "runMs" | "runSince">, now: number) =>
  runMs + (runSince === null ? 0 : Math.max(0, now - runSince));

/** What it has used up, if anything. `live`: what the present run cost so far, in micro-dollars. */
export function overdrawn(job: Metered, most: { runtimeMs: number; live: number; now: number }): JobError | null {
  const limitMs = Math.min(job.maxRuntimeMs ?? most.runtimeMs, most.runtimeMs);
  if (runtimeMs(job, most.now) >= limitMs) {
    const message = `It ran for ${Math.round(limitMs / 60_000)} minutes, the most it may: raise max_runtime_minutes`;
    return { code: "timeout", message, param: "/max_runtime_minutes" };
  }
  if (job.maxCostMicros === null || job.costMicros + most.live < job.maxCostMicros) return null;
  const message = `It has cost ${(job.maxCostMicros / 1e6).toFixed(2)} USD, the most it may: raise max_cost_usd`;
  return { code: "cost_limit", message, param: "/max_cost_usd" };
}

export const isShortage = (reason: JobRow["pauseReason"] | undefined): reason is Shortage =>
  reason === "out of credit" || reason === "out of budget";

/** For a job that costs something. `short`: the reason why its payer cannot go on. */
export function judgeCredit(
  job: Pick<JobRow, "status" | "pauseReason">,
  short: Shortage | null,
): "pause" | "resume" | "nothing" {
  if (job.status === "paused") return isShortage(job.pauseReason) && short === null ? "resume" : "nothing";
  const runs = job.status === "queued" || job.status === "provisioning" || job.status === "running";
  return runs && short !== null ? "pause" : "nothing";
}

const LOWER_IS_BETTER: Record<keyof typeof HEADLINE_METRIC, boolean> = { grpo: false, sft: true, dpo: false };

export const headlineOf = (method: JobRow["method"], values: Readonly<Record<string, number>>): number | null =>
  method === "custom" ? null : (values[HEADLINE_METRIC[method]] ?? null);

type Scored = Pick<CheckpointRow, "id" | "step" | "value">;

/** By the headline metric; of equals the later one. Undefined where none has it. */
export function bestOf<T extends Scored>(method: JobRow["method"], checkpoints: readonly T[]): T | undefined {
  if (method === "custom") return undefined;
  const sign = LOWER_IS_BETTER[method] ? -1 : 1;
  const rank = ({ value }: Scored) => (value === null ? Number.NEGATIVE_INFINITY : sign * value);
  return checkpoints
    .filter(({ value }) => value !== null)
    .toSorted((a, b) => rank(b) - rank(a) || b.step - a.step)
    .at(0);
}

/** Those that go: neither of the newest, nor the best, nor needed by somebody. */
export function superfluous<T extends Scored>(
  checkpoints: readonly T[],
  keep: { last: number; best: string | null; needed: ReadonlySet<string> },
): T[] {
  const newest = checkpoints.toSorted((a, b) => b.step - a.step).slice(0, Math.max(1, keep.last));
  return checkpoints.filter((each) => !newest.includes(each) && each.id !== keep.best && !keep.needed.has(each.id));
}
