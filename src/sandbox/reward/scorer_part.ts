/**
 * One part of a scorer: its code in a process. If a sample ends the process, that sample gets the fault, and the others
 * go on in a new process. The number of new processes is limited by MOST_FRESH and the time of the batch. Isolated code
 * runs the samples as programs, so a sample may end the process at will: only the time limits it.
 */
import {
  type Act,
  type Acted,
  type Entrypoint,
  type Environment,
  type Fault,
  LOAD_MS,
  type Outcome,
  type Sample,
} from "../../lib/rewards/contract.ts";
import { type RewardPart, RewardRejected } from "./scorer_types.ts";
import type { RewardEnd, RewardPool, RewardProcess } from "./types.ts";

/** New processes for one batch of one part. Without a limit, code that crashes on every sample would start one for each. */
export const MOST_FRESH = 3;

export type PartLimits = { sampleMs: number; batchMs: number };
export type Clock = () => number;

/** One batch of one part. */
type Round = { until: number; fresh: number; stdout: string[]; signal: AbortSignal };

export class ScorerPart {
  entrypoints: Entrypoint[] = [];
  environments: Environment[] = [];
  /** Everything that has happened in each open rollout: a new process repeats it, because the state of the old one is lost. */
  readonly #rollouts = new Map<number, Act[]>();
  /** Scored rollouts that the process still holds. */
  #scored: number[] = [];
  #process: RewardProcess | undefined;
  #printedAtLoad = "";

  constructor(
    readonly part: RewardPart,
    private readonly pool: RewardPool,
    private readonly limits: PartLimits,
    private readonly clock: Clock,
  ) {}

  /** Throws RewardRejected. */
  async open(signal: AbortSignal): Promise<void> {
    const loaded = await this.#start(signal, Math.min(LOAD_MS, this.limits.batchMs));
    if (!loaded.ok) throw new RewardRejected(this.part.name, loaded.error);
    this.entrypoints = loaded.entrypoints;
    this.environments = loaded.environments;
    this.#printedAtLoad = loaded.stdout;
  }

  /** Outcomes of each function, in the order of `entrypoints`, one for each sample. */
  async score(samples: readonly Sample[], signal: AbortSignal): Promise<{ outcomes: Outcome[][]; stdout: string }> {
    const round: Round = { until: this.clock() + this.limits.batchMs, fresh: 0, stdout: [this.#printedAtLoad], signal };
    this.#printedAtLoad = "";
    const outcomes: Outcome[][] = [];
    for (const [n, entry] of this.entrypoints.entries()) {
      const share = (round.until - this.clock()) / (this.entrypoints.length - n);
      outcomes.push(await this.#scoreEntry(entry, samples, this.clock() + share, round));
    }
    this.#end(samples);
    return { outcomes, stdout: round.stdout.join("") };
  }

  /** Results in order. An act that ends the process gets the fault, and its rollout is lost; the others go on. */
  async act(acts: readonly Act[], signal: AbortSignal): Promise<Acted[]> {
    const round: Round = { until: this.clock() + this.limits.batchMs, fresh: 0, stdout: [], signal };
    const results: Acted[] = [];
    const ends = this.#scored.splice(0).map((rollout): Act => ({ rollout, seed: 0, act: "end" }));
    const actMs = this.part.timeoutMs ?? this.limits.sampleMs;
    if (ends.length > 0) await this.#process?.act(ends, actMs);
    const lose = (act: Act, fault: Fault) => {
      this.#rollouts.delete(act.rollout);
      results.push({ text: null, failed: true, fault });
    };
    while (results.length < acts.length) {
      signal.throwIfAborted();
      const process =
        this.clock() < round.until ? (this.#process ?? (await this.#again(round, round.until))) : TIME_IS_UP;
      const rest = acts.slice(results.length);
      if ("kind" in process) {
        for (const act of rest) lose(act, process);
        break;
      }
      const done = await process.act(rest, actMs);
      for (const [i, acted] of done.results.entries()) this.#note(rest[i]!, acted);
      results.push(...done.results);
      this.#printedAtLoad += done.stdout;
      if (done.end === null) break;
      await this.#drop(process);
      signal.throwIfAborted();
      if (done.end.kind === "closed") throw new Error("The scorer was closed while it worked");
      const cause = acts[results.length];
      if (cause) lose(cause, faultOf(done.end));
    }
    return results;
  }

  #note(act: Act, { fault }: Acted) {
    if (act.act === "end" || fault !== null) this.#rollouts.delete(act.rollout);
    else if (act.act === "reset") this.#rollouts.set(act.rollout, [act]);
    else this.#rollouts.get(act.rollout)?.push(act);
  }

  #end(samples: readonly Sample[]) {
    for (const { rollout } of samples)
      if (rollout !== undefined && this.#rollouts.delete(rollout)) this.#scored.push(rollout);
  }

  async close(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    await process?.close();
  }

  async #scoreEntry(entry: Entrypoint, samples: readonly Sample[], until: number, round: Round): Promise<Outcome[]> {
    const { signal } = round;
    const outcomes: Outcome[] = [];
    const giveUp = (fault: Fault): Outcome[] => {
      while (outcomes.length < samples.length) outcomes.push({ value: null, fault, ms: 0 });
      return outcomes;
    };
    const { isolate = false } = this.part.code;
    let whole = entry.form === "batch" && !isolate;
    while (outcomes.length < samples.length) {
      signal.throwIfAborted();
      if (this.clock() >= until) return giveUp(TIME_IS_UP);
      const process = this.#process ?? (await this.#again(round, until));
      if ("kind" in process) return giveUp(process);
      const rest = samples.slice(outcomes.length);
      const startedAt = this.clock();
      const called = await process.call(entry, rest, this.#allowed(whole, rest.length, until));
      outcomes.push(...called.outcomes.slice(0, rest.length).map((each) => this.#settled(each)));
      round.stdout.push(called.stdout);
      if (called.end === null) return giveUp(NO_ANSWER);
      await this.#drop(process);
      signal.throwIfAborted();
      if (called.end.kind === "closed") throw new Error("The scorer was closed while it worked");
      // A call with all samples does not tell which one ended it. One by one, that sample is found.
      if (whole && rest.length > 1 && called.outcomes.length === 0) whole = false;
      else if (outcomes.length < samples.length) {
        const ms = this.clock() - startedAt - called.outcomes.reduce((sum, outcome) => sum + outcome.ms, 0);
        outcomes.push(this.#settled({ value: null, fault: faultOf(called.end), ms: Math.max(0, ms) }));
      }
      if (round.fresh >= MOST_FRESH && !isolate) return giveUp(tooOften(called.end));
    }
    return outcomes;
  }

  /** If samples are programs, a sample that ends the process gets `failedScore`. */
  #settled(outcome: Outcome): Outcome {
    const { failedScore } = this.part.code;
    const ended = outcome.fault !== null && ENDS.includes(outcome.fault.kind);
    return failedScore === undefined || !ended ? outcome : { value: failedScore, fault: null, ms: outcome.ms };
  }

  /**
   * The first try of a whole batch gets the time of some samples, and at most half of the time left. If one sample
   * hangs, there is still time to try the samples one by one.
   */
  #allowed(whole: boolean, count: number, until: number) {
    const sampleMs = this.part.timeoutMs ?? this.limits.sampleMs;
    if (!whole) return { sampleMs, wholeMs: 0, until };
    const left = until - this.clock();
    const wholeMs = count === 1 ? sampleMs : Math.min(left / 2, sampleMs * Math.max(2, Math.ceil(count / 16)));
    return { sampleMs, wholeMs: Math.max(1, wholeMs), until };
  }

  /** A new process with the code loaded, or the fault for the rest of this batch. */
  async #again(round: Round, until: number): Promise<RewardProcess | Fault> {
    round.fresh++;
    const left = Math.max(1, until - this.clock());
    try {
      const signal = AbortSignal.any([round.signal, AbortSignal.timeout(Math.ceil(left))]);
      const loaded = await this.#start(signal, Math.min(LOAD_MS, left));
      if (loaded.ok && this.#process) return await this.#repeated(this.#process);
      const why = loaded.ok ? "the process ended at once" : loaded.error.message;
      return { kind: "crashed", message: `The code could not be loaded again: ${why}`.slice(0, 2000), line: null };
    } catch (error) {
      round.signal.throwIfAborted();
      if (this.clock() >= until || isTimeout(error)) return TIME_IS_UP;
      throw error;
    }
  }

  /** Brings a new process to the state of the one that ended. */
  async #repeated(process: RewardProcess): Promise<RewardProcess | Fault> {
    const acts = [...this.#rollouts.values()].flat();
    if (acts.length === 0) return process;
    const { end } = await process.act(acts, this.part.timeoutMs ?? this.limits.sampleMs);
    if (end === null) return process;
    await this.#drop(process);
    this.#rollouts.clear();
    return { ...faultOf(end), message: `The rollouts could not be repeated: the code ${end.message}`.slice(0, 2000) };
  }

  async #start(signal: AbortSignal, loadMs: number) {
    const process = await this.pool.take(this.part.code.language, signal);
    this.#process = process;
    void process.ended.then(() => {
      if (this.#process === process) this.#process = undefined; // it ended between two batches
    });
    const onAbort = () => void process.close();
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      signal.throwIfAborted(); // aborted while the process started
      const loaded = await process.load(this.part.code, loadMs);
      signal.throwIfAborted();
      if (!loaded.ok) await this.#drop(process);
      return loaded;
    } catch (error) {
      await this.#drop(process);
      throw error;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  async #drop(process: RewardProcess): Promise<void> {
    if (this.#process === process) this.#process = undefined;
    await process.close();
  }
}

const ENDS: readonly Fault["kind"][] = ["timeout", "memory", "crashed"];

const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === "TimeoutError";

const TIME_IS_UP: Fault = { kind: "timeout", message: "the time for the batch ran out before this sample", line: null };
const NO_ANSWER: Fault = { kind: "crashed", message: "the code returned no result for this sample", line: null };

const faultOf = ({ kind, message }: RewardEnd): Fault => ({
  kind: kind === "closed" ? "crashed" : kind,
  message: `The code ${message}`.slice(0, 2000),
  line: null,
});

const tooOften = (end: RewardEnd): Fault => ({
  ...faultOf(end),
  message: `Not run: the code ended ${MOST_FRESH + 1} processes in this batch (the last one ${end.message})`.slice(
    0,
    2000,
  ),
});
