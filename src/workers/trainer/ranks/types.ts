/**
 * The ranks of one training: processes that hold the same model, each on its own device. Every rank runs the same loop
 * over the same rows. A rank computes its share of the micro-batches and of the completions, and gets the results of
 * the others. So all ranks make the same decisions, and apply the same update to the same weights.
 */

/** Some numbers of a gradient, from index `at` of all trainable numbers on. */
export type Part = { at: number; values: Float32Array };

/**
 * Adds up the gradients of all ranks. Rank 0 begins, and each rank adds its own parts, one after the other, to the sum
 * of the ranks before it. Micro-batches are given to ranks in order, so the additions are those of one process, and
 * the sum has the same bits. Both functions run at the same time: a sum passes in segments, of which few are held.
 */
export type GradientSum = {
  /** Adds the parts in their order. `length`: count of all trainable numbers. Rank 0 gives each number once. */
  publish: (parts: readonly Part[], length: number) => Promise<void>;
  /** Calls `take` with the segments of the sum over all ranks, first to last. The values are valid during the call. */
  collect: (length: number, take: (segment: Part) => void) => Promise<void>;
};

export type Ranks = {
  /** Rank 0 reports, saves, and talks to the server. */
  readonly index: number;
  readonly count: number;
  /**
   * Completions are drawn in this many parts, one for each rank. Rounding depends on the samples that are drawn
   * together, so the parts decide the completions. A rank that draws several parts draws them one after the other.
   */
  readonly parts: number;
  readonly gradients: GradientSum;
  /** Every rank gives its bytes and gets those of all, by rank. All ranks make the same calls in the same order. */
  gather: (bytes: Uint8Array) => Promise<Uint8Array[]>;
};
