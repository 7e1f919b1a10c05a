/**
 * Reports whether the model decodes. The server decides what follows (fleet/liveness.ts). An idle engine decodes a probe;
 * an engine that works for a request shows it with that work, so no probe waits behind a long prompt.
 */
import { AppError } from "../../lib/errors.ts";
import type { ServingHealth } from "../protocol.ts";
import type { Engine } from "./engine/types.ts";

const LOOK_MS = 10;

const GREEDY = { temperature: 0, topP: 1, topK: 0, minP: 0, frequencyPenalty: 0, presencePenalty: 0, logitBias: [] };

/** Decodes one token, or embeds one with an encoder. Returns the time it took. */
export async function decodeOne(engine: Engine, signal?: AbortSignal): Promise<number> {
  const begun = performance.now();
  if (engine.facts.isEncoder) {
    await engine.embed([engine.tokenize("a", { addBos: true, special: false })], signal);
    return performance.now() - begun;
  }
  const prompt = engine.tokenize("a", { addBos: engine.facts.addsBos, special: false });
  let tokens = 0;
  const probe = { prompt, maxTokens: 1, sampling: GREEDY, samples: 1, stop: [], probe: true };
  for await (const deltas of engine.generate(probe, signal))
    for (const { finish } of deltas) if (finish === "stop" || finish === "length") tokens++;
  if (tokens === 0) throw new AppError("worker_failed", "The model did not decode a token. Check the deployment's log");
  return performance.now() - begun;
}

/** Measures the speed of a decode call twice: the first call may also read the weights from the disk. */
export async function warm(engine: Engine): Promise<void> {
  await decodeOne(engine);
  await decodeOne(engine);
}

/** Answers when a decode call has succeeded, and after `waitMs` at the latest. Throws if a probe failed. */
export async function checkHealth(engine: Engine, waitMs: number): Promise<ServingHealth> {
  const { callsDone: before, active, waiting } = engine.stats();
  const decoded = () => engine.stats().callsDone > before;
  const probe = active + waiting === 0 ? startProbe(engine) : undefined;
  const until = performance.now() + waitMs;
  const isOver = () => (probe ? probe.isOver : decoded());
  while (!isOver() && performance.now() < until) await Promise.race([probe?.over, Bun.sleep(LOOK_MS)]);
  if (probe?.error && !decoded())
    throw new AppError("worker_failed", "The model did not decode a probe", { cause: probe.error });
  const { running } = engine.stats();
  return {
    decoded: decoded() || probe?.decodeMs != null,
    decode_ms: probe?.decodeMs ?? null,
    running: running && { age_ms: running.ageMs, expected_ms: running.expectedMs },
  };
}

type Probe = { over: Promise<void>; isOver: boolean; decodeMs: number | null; error: unknown };

/** No deadline ends the probe: a call that takes long is not cut off by its check. */
function startProbe(engine: Engine): Probe {
  const probe: Probe = { over: Promise.resolve(), isOver: false, decodeMs: null, error: undefined };
  probe.over = decodeOne(engine).then(
    (ms) => {
      probe.isOver = true;
      probe.decodeMs = ms;
    },
    (error) => {
      probe.isOver = true;
      probe.error = error;
    },
  );
  return probe;
}
