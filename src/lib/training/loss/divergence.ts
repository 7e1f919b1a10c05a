/** The ways to compare a student with its teacher. */

/**
 * `sampled`: the teacher's probability of each token that the student drew. `reverse_kl`, `forward_kl`, `jsd`: a divergence over the
 * vocabulary at each of these tokens. `hard`: the teacher draws the completions, and they are answers to learn.
 */
export const DISTILLATION_LOSSES = ["sampled", "reverse_kl", "forward_kl", "jsd", "hard"] as const;
type DistillationLoss = (typeof DISTILLATION_LOSSES)[number];

export type Divergence = {
  loss: Exclude<DistillationLoss, "sampled" | "hard">;
  /** `jsd`: the teacher's share in the mixture that both are compared with. */
  mix: number;
  /** The student's most likely tokens that count. Null: all. */
  topK: number | null;
};

/** Null if the loss of these hyperparameters has no divergence over the vocabulary. */
export function divergenceOf(hyperparameters: Readonly<Record<string, unknown>>): Divergence | null {
  const { distillation_loss: loss, distillation_mix: mix, distillation_top_k: topK } = hyperparameters;
  if (loss !== "reverse_kl" && loss !== "forward_kl" && loss !== "jsd") return null;
  return { loss, mix: typeof mix === "number" ? mix : 0.5, topK: typeof topK === "number" ? topK : null };
}
