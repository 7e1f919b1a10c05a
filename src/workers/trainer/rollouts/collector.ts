import type { Delta } from "../../serving/engine/types.ts";
import type { Rollout } from "./types.ts";

type Sample = { tokens: number[]; logps: number[]; text: string; truncated: boolean; over: boolean };

/** Assembles the samples of one group from the engine's deltas. */
export class Collector {
  readonly #samples: Sample[];
  readonly #scored: boolean;

  constructor(samples: number, scored: boolean) {
    this.#scored = scored;
    this.#samples = Array.from({ length: samples }, () => ({
      tokens: [],
      logps: [],
      text: "",
      truncated: false,
      over: false,
    }));
  }

  take({ sample, text, tokens, logprobs, finish }: Delta) {
    const state = this.#samples[sample]!;
    state.text += text;
    for (const token of tokens ?? []) state.tokens.push(token);
    for (const { logprob } of logprobs ?? []) state.logps.push(logprob);
    if (finish === undefined) return;
    state.over = true;
    state.truncated = finish !== "stop";
  }

  finish(): Rollout[] {
    return this.#samples.map(({ tokens, logps, text, truncated, over }) => {
      if (!over || (this.#scored && logps.length !== tokens.length))
        throw new Error("the engine ended before a sample was complete");
      const scores = this.#scored ? Float32Array.from(logps) : null;
      return { tokens: Int32Array.from(tokens), logps: scores, text, truncated };
    });
  }
}
