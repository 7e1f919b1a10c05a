/** Shapes of known models, and how many bytes a step of decoding must move. Pure. */
import { HALF_BILLION, type RolloutShape } from "../peers/rollout_model.ts";

export const SHAPES: Readonly<Record<string, RolloutShape>> = {
  tiny: { vocab: 2048, width: 128, layers: 2, heads: 2, keyHeads: 1, forward: 192 }, // to see that the benchmark runs
  "0.5B": HALF_BILLION,
  "1B": { vocab: 128_256, width: 2048, layers: 16, heads: 32, keyHeads: 8, forward: 8192 },
  "8B": { vocab: 128_256, width: 4096, layers: 32, heads: 32, keyHeads: 8, forward: 14_336 },
};

/** Bytes of a weight. */
export const WEIGHT_BYTES = { BF16: 2, Q8_0: 34 / 32, Q4_K: 144 / 256, Q4_K_M: 0.605 } as const;

/** Bytes of weights that a step reads, with the output layer and without the embedding of other tokens. */
export function weightBytes({ vocab, width, layers, heads, keyHeads, forward }: RolloutShape, each = 2): number {
  const head = width / heads;
  const layer = width * (heads + 2 * keyHeads) * head + heads * head * width + 3 * width * forward;
  return each * (layers * layer + vocab * width);
}

/** Bytes of keys and values that a step reads, for sequences of `keys` tokens. */
export const keyBytes = ({ width, layers, heads, keyHeads }: RolloutShape, streams: number, keys: number) =>
  streams * keys * layers * 2 * keyHeads * (width / heads) * 2;

/** Tokens a second at which the bytes of a step alone take all the time. */
export const roof = (shape: RolloutShape, streams: number, keys: number, bytesPerSecond: number, each = 2) =>
  (streams * bytesPerSecond) / (weightBytes(shape, each) + keyBytes(shape, streams, keys));
