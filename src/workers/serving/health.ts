/** Healthy means that the model decodes: a token of its own or, if all sequences are busy, a recent token of theirs. */
import { AppError } from "../../lib/errors.ts";
import type { Engine } from "./engine/types.ts";

const DEADLINE_MS = 10_000;
const RECENT_MS = 1_000;

const GREEDY = { temperature: 0, topP: 1, topK: 0, minP: 0, frequencyPenalty: 0, presencePenalty: 0, logitBias: [] };

/** Decodes one token and returns the time it took. */
export async function decodeOne(engine: Engine, signal?: AbortSignal): Promise<number> {
  const begun = performance.now();
  const prompt = engine.tokenize("a", { addBos: engine.facts.addsBos, special: false });
  let tokens = 0;
  const probe = { prompt, maxTokens: 1, sampling: GREEDY, samples: 1, stop: [], probe: true };
  for await (const deltas of engine.generate(probe, signal))
    for (const { finish } of deltas) if (finish === "stop" || finish === "length") tokens++;
  if (tokens === 0) throw new AppError("worker_failed", "The model did not decode a token. Check the deployment's log");
  return performance.now() - begun;
}

export async function checkHealth(engine: Engine, deadlineMs = DEADLINE_MS): Promise<Response> {
  const busy = () => engine.stats().active >= engine.facts.parallel && engine.stats().idleMs < RECENT_MS;
  if (busy()) return Response.json({ ok: true, decode_ms: null });
  try {
    return Response.json({ ok: true, decode_ms: await decodeOne(engine, AbortSignal.timeout(deadlineMs)) });
  } catch (error) {
    // the probe waits in the queue
    if (engine.stats().idleMs < RECENT_MS) return Response.json({ ok: true, decode_ms: null });
    throw new AppError("worker_failed", `The model decoded no token for ${deadlineMs} ms`, { cause: error });
  }
}
