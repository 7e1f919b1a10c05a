/** The share of one rank in the micro-batches of a step, and its part in the sum of the gradients. */
import { getFloats, putBytes } from "../../../native/ggml/ggml.ts";
import type { Graph } from "../engine/graph.ts";
import type { Weights } from "../engine/weights.ts";
import type { MicroBatch } from "../trainee/batches.ts";
import type { Extras, Scores } from "../trainee/types.ts";
import { decodeScores, encodeScores } from "./messages.ts";
import { rangesOf } from "./shares.ts";
import type { Part, Ranks } from "./types.ts";

/** Whole micro-batches of all ranks, in order. Rank 0 has the first ones. */
export const shareOf = (ranks: Ranks, batches: readonly MicroBatch[]) =>
  rangesOf(
    batches.map(({ tokens, rows }) => tokens * rows),
    ranks.count,
  );

/** Returns the scores of every micro-batch. `own`: those of this rank's micro-batches. */
export async function gatherScores(
  ranks: Ranks,
  batches: readonly MicroBatch[],
  { own, extras }: { own: readonly (readonly Scores[])[]; extras: Extras },
): Promise<(readonly Scores[])[]> {
  const encoded = await ranks.gather(encodeScores(own.flat()));
  return shareOf(ranks, batches).flatMap(({ from, to }, rank) => {
    if (rank === ranks.index) return own;
    const some = batches.slice(from, to);
    const lengths = some.flatMap(({ pieces }) => pieces.map(({ piece }) => piece.tokens.length - piece.from));
    const scores = decodeScores(encoded[rank]!, lengths, extras);
    return some.map(({ pieces }) => scores.splice(0, pieces.length));
  });
}

export type SpreadGradients = {
  /** Ranks after the first keep the gradients of each micro-batch apart, and add them later. */
  readonly apart: boolean;
  /** Call it before the backward pass of a micro-batch, */
  before: () => void;
  /** and this after it. */
  after: (graph: Graph) => void;
  /** Puts the sum over all micro-batches of all ranks into the gradients of every rank. */
  sum: () => Promise<void>;
};

export function spreadGradients(
  { trainable, backend: { ggml }, clearGradients }: Weights,
  ranks: Ranks,
): SpreadGradients {
  const apart = ranks.index > 0;
  let length = 0;
  const sums = trainable.map(({ gradient, shape }) => {
    const at = length;
    length += shape.reduce((a, b) => a * b, 1);
    return { gradient, at, end: length };
  });
  let parts: Part[] = [];
  const read = () => parts.push(...sums.map(({ gradient, at }) => ({ at, values: getFloats(ggml, gradient) })));

  /** Writes the numbers of a segment into the tensors that it covers. */
  function put({ at, values }: Part) {
    for (const sum of sums) {
      const [from, to] = [Math.max(at, sum.at), Math.min(at + values.length, sum.end)];
      if (from < to) putBytes(ggml, sum.gradient, values.subarray(from - at, to - at), 4 * (from - sum.at));
    }
  }

  return {
    apart,
    before() {
      if (apart) clearGradients();
    },
    after({ later }) {
      if (!apart) return;
      read();
      for (const { gradient, at } of sums)
        for (const each of later.get(gradient) ?? []) parts.push({ at, values: getFloats(ggml, each) });
    },
    async sum() {
      if (!apart) read();
      await Promise.all([ranks.gradients.publish(parts, length), ranks.gradients.collect(length, put)]);
      parts = [];
    },
  };
}
