/** Engines that keep prompts on the disk, for the benchmarks of kept prompts. */
import { mkdirSync } from "node:fs";
import { openEngine } from "../src/workers/serving/engine/engine.ts";
import type { Engine, EngineOptions } from "../src/workers/serving/engine/types.ts";
import { SAMPLING } from "./peers/plain_decode.ts";

const off = { minP: 0, frequencyPenalty: 0, presencePenalty: 0, logitBias: [] };
const EMULATED = new URL("../test/serving/emulated_thread.ts", import.meta.url);

/** `dir` null: prompts stay in memory. `emulated`: our kernels on the processor. */
export async function open(options: EngineOptions, dir: string | null, emulated = false): Promise<Engine> {
  const prepared = emulated ? { thread: new Worker(EMULATED) } : undefined;
  if (dir === null) return await openEngine(options, prepared);
  mkdirSync(dir, { recursive: true });
  const opened = Promise.withResolvers<Engine>();
  const engine = await openEngine(
    {
      ...options,
      prefixes: { dir, key: "11".repeat(32), identity: "bench" },
      onPrefixes: (message) => {
        if (message.type === "wants_room") void opened.promise.then((open) => open.grantRoom(message.bytes));
        else if (message.problem !== null) console.error(message.problem);
      },
    },
    prepared,
  );
  opened.resolve(engine);
  return engine;
}

export const promptOf = (length: number, seed: number) =>
  Int32Array.from({ length }, (_, i) => 300 + ((seed * 7919 + i * 31) % 200));

/** Milliseconds until the first token. `fresh`: nothing of the prompt may be in memory. */
export async function generate(engine: Engine, prompt: Int32Array, maxTokens: number, fresh = false): Promise<number> {
  const begun = performance.now();
  const request = {
    prompt,
    maxTokens,
    sampling: { ...SAMPLING, ...off, seed: 1 },
    samples: 1,
    stop: [],
    ignoreEos: true,
    fresh,
  };
  let first = 0;
  for await (const _ of engine.generate(request)) first ||= performance.now() - begun;
  return first;
}
