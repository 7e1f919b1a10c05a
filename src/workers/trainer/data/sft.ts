/**
 * Supervised fine-tuning: the tokens that count, and their weights. The loss is the mean over all counting tokens of
 * the optimizer step, not a mean of means. Splitting or packing a step therefore does not change it.
 */

/** A stretch of a sequence, in order. */
export type Segment = { tokens: number; role: "prompt" | "completion" | "assistant" };

export type LossScope = {
  /** Tokens of a prompt do not count. */
  completionOnly: boolean;
  /** Only the assistant's turns of a conversation count. */
  assistantOnly: boolean;
  /** Longer sequences are cut at the end. */
  maxLength: number;
};

/**
 * Returns 1 for each token that counts. The first token never counts, because nothing predicts it. In a conversation
 * every turn of another role is a `prompt` segment.
 */
export function lossMask(segments: readonly Segment[], scope: LossScope): Uint8Array {
  const length = segments.reduce((sum, { tokens }) => sum + tokens, 0);
  const mask = new Uint8Array(Math.min(length, scope.maxLength));
  let start = 0;
  for (const { tokens, role } of segments) {
    if (counts(role, scope)) mask.fill(1, start, start + tokens);
    start += tokens;
  }
  if (mask.length > 0) mask[0] = 0;
  return mask;
}

/** True if the tokens of this role are learned. */
export function counts(
  role: Segment["role"],
  { completionOnly, assistantOnly }: Pick<LossScope, "completionOnly" | "assistantOnly">,
): boolean {
  if (assistantOnly) return role === "assistant";
  return role !== "prompt" || !completionOnly;
}

export type SftTally = {
  tokens: number;
  loss: number;
  correct: number;
  judged: number;
  entropy: number;
  entropyTokens: number;
};
export type Predicted = {
  logp: ArrayLike<number>;
  mask: Uint8Array;
  /** 1 where the likeliest token was the right one; null if unknown. */
  correct: Uint8Array | null;
  entropy: ArrayLike<number> | null;
};

/** `stepTokens` is the number of counting tokens in the whole optimizer step. */
export function weighSequence(
  { logp, mask, correct, entropy }: Predicted,
  stepTokens: number,
): { weights: Float32Array; loss: number; tally: SftTally } {
  const scale = 1 / Math.max(stepTokens, 1);
  const weights = new Float32Array(mask.length);
  const tally: SftTally = { tokens: 0, loss: 0, correct: 0, judged: 0, entropy: 0, entropyTokens: 0 };
  for (let t = 0; t < mask.length; t++) {
    if (!mask[t]) continue;
    weights[t] = scale;
    tally.tokens++;
    tally.loss -= scale * logp[t]!;
    if (correct !== null) {
      tally.judged++;
      tally.correct += correct[t]!;
    }
    if (entropy !== null) {
      tally.entropyTokens++;
      tally.entropy += entropy[t]!;
    }
  }
  return { weights, loss: tally.loss, tally };
}

export function sftMetrics(tallies: readonly SftTally[]): Record<string, number> {
  const total = (key: keyof SftTally) => tallies.reduce((sum, tally) => sum + tally[key], 0);
  const metrics: Record<string, number> = { loss: total("loss") };
  if (total("judged") > 0) metrics["mean_token_accuracy"] = total("correct") / total("judged");
  if (total("entropyTokens") > 0) metrics["entropy"] = total("entropy") / total("entropyTokens");
  return metrics;
}
