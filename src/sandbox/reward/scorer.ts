/** Runs several named rewards over the samples of one job. The parts run in parallel, each in its own process. */
import { combine, type Judged, summarize } from "../../lib/rewards/combine.ts";
import { type Act, type Acted, type Sample, STDOUT_BYTES } from "../../lib/rewards/contract.ts";
import { Semaphore } from "../../platform/semaphore.ts";
import { type Clock, type PartLimits, ScorerPart } from "./scorer_part.ts";
import type { RewardPart, ScoredBatch, Scorer } from "./scorer_types.ts";
import type { RewardPool } from "./types.ts";

export type ScorerOptions = {
  parts: readonly RewardPart[];
  limits: PartLimits;
  signal?: AbortSignal;
  /** Milliseconds, like performance.now(). */
  clock?: Clock;
};

/** Throws RewardRejected for the first part whose code cannot be loaded; then no process is left running. */
export async function openScorer(pool: RewardPool, options: ScorerOptions): Promise<Scorer> {
  const { limits, signal, clock = () => performance.now() } = options;
  const parts = options.parts.map((part) => new ScorerPart(part, pool, limits, clock));
  const stop = new AbortController(); // stops the other parts if one cannot be opened
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const opened = await Promise.allSettled(
    parts.map((part) =>
      part.open(either).catch((error) => {
        stop.abort();
        throw error;
      }),
    ),
  );
  const failed = opened.filter((each) => each.status === "rejected").map(({ reason }) => reason);
  if (failed.length > 0) {
    await Promise.all(parts.map((part) => part.close()));
    signal?.throwIfAborted();
    throw failed.find((reason) => !(reason instanceof DOMException)) ?? failed[0];
  }
  return scorerOf(parts);
}

const ONE_JOB = { workspaceId: "" };

function scorerOf(parts: readonly ScorerPart[]): Scorer {
  const names = functionNames(parts);
  const closing = new AbortController();
  const closeParts = () => Promise.all(parts.map((part) => part.close()));
  const turns = Semaphore.unshared("the calls of one job", { permits: 1 }); // a process takes one call at a time
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    const release = await turns.acquire(ONE_JOB);
    return work().finally(() => release?.());
  };

  const stoppable = async <T>(
    caller: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const signal = caller ? AbortSignal.any([caller, closing.signal]) : closing.signal;
    signal.throwIfAborted();
    const kill = () => void closeParts();
    signal.addEventListener("abort", kill, { once: true });
    try {
      return await work(signal);
    } finally {
      signal.removeEventListener("abort", kill);
    }
  };
  const scoreNow = async (samples: readonly Sample[], signal: AbortSignal): Promise<ScoredBatch> =>
    combined(parts, names, samples.length, await all(parts.map((part) => part.score(samples, signal))));
  const actNow = (acts: readonly Act[], signal: AbortSignal): Promise<Acted[]> => {
    const part = parts.find(({ environments }) => environments.length > 0);
    if (!part) throw new Error("No part of the rewards has an environment");
    return part.act(acts, signal);
  };
  return {
    entrypoints: parts.flatMap(({ part, entrypoints }) =>
      entrypoints.map((entrypoint) => ({ part: part.name, entrypoint })),
    ),
    score: (samples, caller) => inTurn(() => stoppable(caller, (signal) => scoreNow(samples, signal))),
    act: (acts, caller) => inTurn(() => stoppable(caller, (signal) => actNow(acts, signal))),
    async close() {
      closing.abort(new Error("The scorer was closed"));
      await closeParts();
      await inTurn(closeParts); // a call that was about to start may have opened a process
    },
  };
}

/** Waits for all, even if one fails, so that nothing runs on after the caller has its answer. */
async function all<T>(works: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(works);
  return Promise.all(works);
}

type PartOutcomes = Awaited<ReturnType<ScorerPart["score"]>>;

function combined(
  parts: readonly ScorerPart[],
  names: readonly string[][],
  count: number,
  results: readonly PartOutcomes[],
): ScoredBatch {
  const functions: Judged[] = parts.flatMap(({ part }, n) =>
    names[n]!.map((name, m) => ({ name, weight: part.weight, outcomes: results[n]!.outcomes[m] ?? [] })),
  );
  const scored = combine(functions, count);
  const stdout = Buffer.from(results.map((each) => each.stdout).join("")).subarray(0, STDOUT_BYTES);
  return {
    results: scored,
    summary: summarize(scored),
    stdout: new TextDecoder().decode(stdout).slice(0, STDOUT_BYTES),
  };
}

/** `part` if its only function is named reward, else `part/function`; `part#2` for a second part of the same name. */
function functionNames(parts: readonly ScorerPart[]): string[][] {
  const taken = new Set<string>();
  return parts.map(({ part, entrypoints }) => {
    let name = part.name;
    for (let n = 2; taken.has(name); n++) name = `${part.name}#${n}`;
    taken.add(name);
    if (entrypoints.length === 1 && entrypoints[0]?.name === "reward") return [name];
    return entrypoints.map((entrypoint) => `${name}/${entrypoint.name}`);
  });
}
