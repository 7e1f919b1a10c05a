/** The words by which a slot's tokens are drawn, as the kernel reads them (kernels/decode/draw.cuh). Pure. */
import { randomState } from "../../lib/random.ts";
import { DRAWING_WORDS, MOST_ALTERNATIVES } from "../../native/cuda/decode/kernels.ts";

export type Drawing = {
  /** 0 = always the most likely token. */
  temperature: number;
  /** 0 = off. */
  topK: number;
  topP: number;
  minP: number;
  /** 1 = off. */
  typical: number;
  frequencyPenalty: number;
  presencePenalty: number;
  /** 1 = off. */
  repeatPenalty: number;
  seed: number;
  logitBias: readonly (readonly [token: number, bias: number])[];
  /** Undefined = no log-probabilities. Otherwise this many alternatives for each token. */
  topLogprobs?: number | undefined;
  /** Log-probabilities are those of the logits divided by this. */
  logprobTemperature: number;
  /** True if only tokens of the slot's mask may be drawn. */
  masked: boolean;
};

export const PLAIN: Drawing = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  typical: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repeatPenalty: 1,
  seed: 0,
  logitBias: [],
  logprobTemperature: 1,
  masked: false,
};

export const MASKED_WORD = 10;
export const RANDOM_WORD = 12; // the first of four
const GREEDY_BELOW = 1e-5; // as in the sampler chains: logits divided by less overflow

export function drawingWords(of: Drawing): Int32Array {
  const words = new Int32Array(DRAWING_WORDS);
  const floats = new Float32Array(words.buffer);
  const greedy = of.temperature < GREEDY_BELOW;
  floats[0] = greedy ? 0 : of.temperature;
  words[1] = of.topK;
  floats[2] = of.topP;
  floats[3] = of.minP;
  floats[4] = of.typical;
  floats[5] = of.frequencyPenalty;
  floats[6] = of.presencePenalty;
  floats[7] = of.repeatPenalty;
  floats[8] = of.logprobTemperature;
  words[9] = of.topLogprobs === undefined ? -1 : Math.min(of.topLogprobs, MOST_ALTERNATIVES);
  words[MASKED_WORD] = of.masked ? 1 : 0;
  words[11] = of.logitBias.length;
  words.set(randomState(of.seed), RANDOM_WORD);
  return words;
}
