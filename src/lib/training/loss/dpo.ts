/**
 * DPO: turns log probabilities of a chosen and a rejected completion, under the model and the reference, into token
 * weights (w = −∂loss/∂logp). A pair depends on the other pairs only through their number. Formulas are TRL's; label
 * smoothing is that of conservative DPO and applies to `sigmoid`.
 */

export const DPO_LOSSES = ["sigmoid", "hinge", "ipo"] as const;
export type DpoLoss = (typeof DPO_LOSSES)[number];

export type DpoOptions = { lossType: DpoLoss; beta: number; labelSmoothing: number };

/** One completion: one element per token; `active` is 1 if the token belongs to the completion. */
export type Judged = { logp: ArrayLike<number>; logpRef: ArrayLike<number>; active: Uint8Array };
export type Preference = { chosen: Judged; rejected: Judged };

export type DpoTally = {
  pairs: number;
  loss: number;
  rewardChosen: number;
  rewardRejected: number;
  accurate: number;
  logpChosen: number;
  logpRejected: number;
};

export type WeighedPreference = { chosen: Float32Array; rejected: Float32Array; loss: number; tally: DpoTally };

/** `scale` is 1 / the number of pairs in the optimizer step. */
export function weighPreference(pair: Preference, scale: number, options: DpoOptions): WeighedPreference {
  const chosen = totals(pair.chosen);
  const rejected = totals(pair.rejected);
  const slopes = lossOf(chosen, rejected, options);
  const tally: DpoTally = {
    pairs: 1,
    loss: scale * slopes.loss,
    rewardChosen: options.beta * chosen.logRatio,
    rewardRejected: options.beta * rejected.logRatio,
    accurate: chosen.logRatio > rejected.logRatio ? 1 : 0,
    logpChosen: chosen.logp,
    logpRejected: rejected.logp,
  };
  return {
    chosen: spread(pair.chosen.active, -scale * slopes.byChosen),
    rejected: spread(pair.rejected.active, -scale * slopes.byRejected),
    loss: tally.loss,
    tally,
  };
}

type Totals = { logp: number; logRatio: number; tokens: number };
type Slopes = { loss: number; byChosen: number; byRejected: number };

function lossOf(chosen: Totals, rejected: Totals, { lossType, beta, labelSmoothing }: DpoOptions): Slopes {
  const margin = beta * (chosen.logRatio - rejected.logRatio);
  switch (lossType) {
    case "sigmoid": {
      const loss = (1 - labelSmoothing) * softplus(-margin) + labelSmoothing * softplus(margin);
      const slope = beta * (labelSmoothing * sigmoid(margin) - (1 - labelSmoothing) * sigmoid(-margin));
      return { loss, byChosen: slope, byRejected: -slope };
    }
    case "hinge": {
      const slope = margin < 1 ? -beta : 0;
      return { loss: Math.max(0, 1 - margin), byChosen: slope, byRejected: -slope };
    }
    case "ipo": {
      // Divided by tokens: otherwise the square would grow with the length of the completions.
      const chosenTokens = Math.max(chosen.tokens, 1);
      const rejectedTokens = Math.max(rejected.tokens, 1);
      const off = chosen.logRatio / chosenTokens - rejected.logRatio / rejectedTokens - 1 / (2 * beta);
      return { loss: off * off, byChosen: (2 * off) / chosenTokens, byRejected: (-2 * off) / rejectedTokens };
    }
  }
}

function totals({ logp, logpRef, active }: Judged): Totals {
  const total: Totals = { logp: 0, logRatio: 0, tokens: 0 };
  for (let t = 0; t < active.length; t++) {
    if (!active[t]) continue;
    total.logp += logp[t]!;
    total.logRatio += logp[t]! - logpRef[t]!;
    total.tokens++;
  }
  return total;
}

const spread = (active: Uint8Array, weight: number) => Float32Array.from(active, (isActive) => (isActive ? weight : 0));
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
/** log(1 + e^x), without overflow. */
const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** Metrics over all pairs of a step, with TRL's names. */
export function dpoMetrics(tallies: readonly DpoTally[]): Record<string, number> {
  const mean = (of: (tally: DpoTally) => number) =>
    tallies.reduce((sum, tally) => sum + of(tally), 0) /
    Math.max(
      1,
      tallies.reduce((sum, { pairs }) => sum + pairs, 0),
    );
  return {
    loss: tallies.reduce((sum, { loss }) => sum + loss, 0),
    "rewards/chosen": mean(({ rewardChosen }) => rewardChosen),
    "rewards/rejected": mean(({ rewardRejected }) => rewardRejected),
    "rewards/margins": mean(({ rewardChosen, rewardRejected }) => rewardChosen - rewardRejected),
    "rewards/accuracies": mean(({ accurate }) => accurate),
    "logps/chosen": mean(({ logpChosen }) => logpChosen),
    "logps/rejected": mean(({ logpRejected }) => logpRejected),
  };
}
