/** `bun test/fake_workers/main.ts worker KIND ARG…`: workers without a model, and workers that misbehave on purpose. */
import { UsageError } from "../../src/lib/errors.ts";
import { armFailpoint } from "../../src/platform/failpoint.ts";

const KINDS: Record<string, (args: string[]) => Promise<unknown>> = {
  fake: async (args) => (await import("./supervised.ts")).runFake(args),
  fake_detector: async ([script = ""]) => (await import("./detector.ts")).runFakeDetector(script),
  fake_serving: async ([script = ""]) => (await import("./serving.ts")).runFakeServing(script),
  fake_trainer: async ([script = ""]) => (await import("./trainer.ts")).runFakeTrainer(script),
};

process.umask(0o077);
armFailpoint(process.env["VERK_FAILPOINT"]);
const [, kind = "", ...args] = process.argv.slice(2);
try {
  await KINDS[kind]?.(args);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`verk: ${error.message}`);
  process.exit(error.exitCode);
}
