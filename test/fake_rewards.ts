import type { Entrypoint, Outcome, Sample } from "../src/lib/rewards/contract.ts";
import type { RewardEnd, RewardPool, RewardProcess } from "../src/sandbox/reward/types.ts";
import type { TestApp } from "./harness.ts";

const PRINTED = { stdout: "", stdoutBytes: 0 };

/**
 * Replaces reward processes, for tests of the code that uses them. A source with `broken` is rejected. A source with
 * `waits` waits until `letGo` or close. Every function returns the length of the completion.
 */
export function fakeRewards(app: TestApp) {
  const open = new Set<RewardProcess>();
  let taken = 0;
  let refusal: Error | undefined;
  let letGo = Promise.withResolvers<void>();
  const pool: RewardPool = {
    async take(_language, signal) {
      signal?.throwIfAborted();
      if (refusal) throw refusal;
      taken++;
      const process = fakeProcess(
        () => letGo.promise,
        () => open.delete(process),
      );
      open.add(process);
      return process;
    },
    close: async () => {},
  };
  const { rewards: real } = app.ctx;
  (app.ctx as { rewards: RewardPool }).rewards = { ...pool, close: () => real.close() };
  return {
    get open() {
      return open.size;
    },
    /** Processes started so far. */
    get taken() {
      return taken;
    },
    refuse: (error: Error | undefined) => {
      refusal = error;
    },
    letGo() {
      letGo.resolve();
      letGo = Promise.withResolvers<void>();
    },
  };
}

function fakeProcess(wait: () => Promise<void>, onClose: () => void): RewardProcess {
  const over = Promise.withResolvers<RewardEnd>();
  let waits = false;
  const pause = () => (waits ? Promise.race([wait(), over.promise]) : Promise.resolve());
  return {
    pid: 0,
    layers: ["language"],
    ended: over.promise,
    async load({ source }) {
      waits = source.includes("waits");
      await pause();
      if (source.includes("broken"))
        return { ok: false, error: { kind: "syntax", message: "it is broken", line: 3, column: 7 }, ...PRINTED };
      return { ok: true, entrypoints: entrypointsOf(source), environments: [], ...PRINTED };
    },
    async call(_entry: Entrypoint, samples: readonly Sample[]) {
      await pause();
      const outcomes = samples.map(
        ({ completion }): Outcome => ({ value: String(completion).length, fault: null, ms: 1 }),
      );
      return { outcomes, end: null, ...PRINTED };
    },
    map: async (rows) => ({ results: rows.map((row) => ({ rows: [row], fault: null })), end: null }),
    act: async () => ({ results: [], end: null, stdout: "" }),
    async close() {
      onClose();
      over.resolve({ kind: "closed", message: "" });
    },
  };
}

const entrypointsOf = (source: string): Entrypoint[] =>
  [...source.matchAll(/def (\w+)(\(.*?\))/g)].map(([, name = "", signature = ""]) => ({
    name,
    signature: name + signature,
    form: "batch",
    is_async: false,
    line: 1,
  }));
