/** Draws groups of samples with a decoder. A group's prompt is read once; slots are refilled as samples finish. */
import { seedOf } from "../../lib/random.ts";
import type { RolloutRequest, RolloutSampling } from "../trainer/rollouts/types.ts";
import { PLAIN } from "./drawing.ts";
import type { Decoder } from "./types.ts";

export type RolledSample = {
  /** Includes the end token if the model wrote one. */
  tokens: Int32Array;
  /** The log-probabilities at temperature-scaled logits, before any cut. */
  logps: Float32Array;
  truncated: boolean;
};

type Sample = { group: number; index: number; tokens: number[]; logps: number[]; truncated: boolean };

/** The result is indexed [group][sample]. It depends on the weights, the requests and the sampling alone. */
export function rollGroups(...given: Parameters<typeof rolling>): RolledSample[][] {
  const steps = rolling(...given);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** The same, a step at a time. A caller that stops early calls `return`, which releases all sequences. */
export function* rolling(
  decoder: Decoder,
  requests: readonly RolloutRequest[],
  sampling: RolloutSampling,
  isEnd: (token: number) => boolean,
): Generator<void, RolledSample[][]> {
  const samples = requests.flatMap(({ samples: count }, group) =>
    Array.from({ length: count }, (_, index): Sample => ({ group, index, tokens: [], logps: [], truncated: true })),
  );
  const running = new Map<number, Sample>();
  let next = 0;
  try {
    while (next < samples.length || running.size > 0) {
      for (; next < samples.length; next++) {
        const sample = samples[next]!;
        const id = decoder.admit(admissionOf(requests[sample.group]!, sample.index, sampling));
        if (id === null) break;
        running.set(id, sample);
      }
      if (running.size === 0) throw new Error("The decoder has no room for a single sample");
      for (const { sequence, token, logp = Number.NaN, done } of decoder.step()) {
        const sample = running.get(sequence)!;
        sample.tokens.push(token);
        sample.logps.push(logp);
        if (isEnd(token)) sample.truncated = false;
        else if (!done) continue;
        running.delete(sequence);
        decoder.release(sequence);
      }
      yield;
    }
  } finally {
    for (const id of running.keys()) decoder.release(id);
  }
  const rolled: RolledSample[][] = requests.map(() => []);
  for (const { group, tokens, logps, truncated } of samples)
    rolled[group]!.push({ tokens: Int32Array.from(tokens), logps: Float32Array.from(logps), truncated });
  return rolled;
}

/** Seeds are those of the serving engine, so that both draw with the same random numbers. */
function admissionOf(request: RolloutRequest, index: number, { maxTokens: most, ...sampling }: RolloutSampling) {
  const { prompt, seed, maxTokens = most } = request;
  const logprobTemperature = sampling.temperature > 0 ? sampling.temperature : 1;
  const drawing = { ...PLAIN, ...sampling, seed: seedOf(seedOf(seed), index), topLogprobs: 0, logprobTemperature };
  return { prompt, maxTokens, drawing };
}
