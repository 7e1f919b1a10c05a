/** A fake pool of reward processes that do what the test says, on a clock of the test's own. */
import type { Entrypoint, Outcome, Sample } from "../../src/lib/rewards/contract.ts";
import { openScorer } from "../../src/sandbox/reward/scorer.ts";
import type { RewardPart } from "../../src/sandbox/reward/scorer_types.ts";
import type {
  Called,
  CallLimits,
  Loaded,
  RewardEnd,
  RewardPool,
  RewardProcess,
} from "../../src/sandbox/reward/types.ts";

export type Call = { part: string; entry: string; whole: boolean; completions: unknown[]; limits: CallLimits };
/** The reaction of a process to a call: outcomes, then perhaps an end. */
export type Done = { values: (number | Outcome)[]; end?: RewardEnd; ms?: number; stdout?: string };
export type Behaviour = (call: Call) => Done | Promise<Done>;

export const entry = (name = "reward", form: Entrypoint["form"] = "batch"): Entrypoint => ({
  name,
  signature: `${name}()`,
  form,
  is_async: false,
  line: 1,
});
export const TIMEOUT: RewardEnd = { kind: "timeout", message: "took longer than 100 ms" };
export const CRASH: RewardEnd = { kind: "crashed", message: "ended without any output" };

/** The source of a part is its name among `parts`, so that a process knows what it was loaded with. */
export function fakePool(parts: Record<string, { entries?: Entrypoint[]; loads?: () => Loaded; does?: Behaviour }>) {
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
        return (
          parts[part]?.loads?.() ?? {
            ok: true,
            entrypoints: parts[part]?.entries ?? [entry()],
            environments: [],
            ...printed,
          }
        );
      },
      map: async () => ({ results: [], end: null }),
      act: async () => ({ results: [], end: null, stdout: "" }),
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

export const part = (name: string, more: Partial<RewardPart> = {}): RewardPart => ({
  name,
  weight: 1,
  code: { language: "python", source: name, params: {}, seed: 0 },
  ...more,
});
export const samples = (count: number): Sample[] =>
  Array.from({ length: count }, (_, i) => ({ prompt: "p", completion: i, row: {} }));
export const LIMITS = { sampleMs: 100, batchMs: 1000 };

export async function score(fake: ReturnType<typeof fakePool>, count: number, parts = [part("a")]) {
  const scorer = await openScorer(fake.pool, { parts, limits: LIMITS, clock: () => fake.clock.now });
  return scorer.score(samples(count));
}
export const rewards = ({ results }: { results: { reward: number | null; error: { kind: string } | null }[] }) =>
  results.map(({ reward, error }) => reward ?? error?.kind ?? null);
