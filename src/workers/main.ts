/** `verk worker <kind>`: the table of kinds. Each is loaded alone, so a worker holds only what it uses. */
import { UsageError } from "../lib/errors.ts";

const KINDS: Record<string, (args: string[]) => Promise<unknown>> = {
  connector: async () => (await import("./connector/main.ts")).runConnector(),
  converter: async () => (await import("./inspector/main.ts")).runInspector(),
  detector: async () => (await import("./detector/main.ts")).runDetector(),
  importer: async () => (await import("./connector/importer.ts")).runImporter(),
  inspector: async () => (await import("./inspector/main.ts")).runInspector(),
  proxy: async () => (await import("./proxy/main.ts")).runProxy(),
  reward: async (args) => (await import("./reward/main.ts")).runReward(args[0] ?? "", args[1] ?? ""),
  serving: async (args) => (await import("./serving/main.ts")).runServing(args[0]),
  speed: async () => (await import("./serving/speed.ts")).runSpeed(),
  trainer: async () => (await import("./trainer/main.ts")).runTrainer(),
  unpack: async ([dataDir = "", ...groups]) =>
    (await import("../native/bundle/extract.ts")).ensureGroups(groups, dataDir),
  probe: async (args) => (await import("../native/probe.ts")).runProbe(args[0], args[1]),
};

export async function runWorker(kind: string, args: string[]): Promise<void> {
  const run = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (!run) throw new UsageError(`Unknown worker kind "${kind}". Use one of: ${Object.keys(KINDS).join(", ")}`);
  await run(args);
}
