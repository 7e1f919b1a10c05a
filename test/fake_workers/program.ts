import { resolve } from "node:path";
import type { SpawnOptions, Supervisor } from "../../src/platform/workers/supervisor.ts";
import type { WorkerMessage } from "../../src/platform/workers/types.ts";

/** argv of the program whose workers are the fakes. */
export const FAKE_PROGRAM = [process.execPath, resolve(import.meta.dir, "main.ts")];

/** A supervisor whose workers of `kind` follow `script` instead. */
export const withFakes =
  (kind: "detector" | "serving" | "trainer", script: string) =>
  (real: Supervisor): Supervisor => ({
    ...real,
    spawn: <In extends WorkerMessage, Out>(options: SpawnOptions<In>) =>
      real.spawn<In, Out>(
        options.kind === kind ? { ...options, kind: `fake_${kind}`, args: [script], program: FAKE_PROGRAM } : options,
      ),
  });
