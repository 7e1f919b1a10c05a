/**
 * ORPO: the likelihood of the chosen row, plus a penalty on the odds of the rejected answer. It needs no reference. Turns
 * log probabilities into token weights (w = −∂loss/∂logp). Formulas are TRL's: the likelihood is over prompt and answer,
 * the odds are those of the mean log probability of an answer's tokens.
 */

export type OrpoOptions = {
  beta: number;
  /** 1 / the number of pairs in the optimizer step. */
  pairScale: number;
  /** 1 / the number of scored tokens of all chosen rows in the step. */
  tokenScale: number;
};

/** `chosen` is scored from the prompt on; its answer begins at `answerFrom`. `rejected` is scored from its answer on. */
export type OrpoPair = { chosen: ArrayLike<number>; answerFrom: number; rejected: ArrayLike<number> };

export type OrpoTally = {
  nll: number;
  ratio: number;
  logOdds: number;
  logpChosen: number;
  logpRejected: number;
  loss: number;
};
export type WeighedOrpo = { chosen: Float32Array; rejected: Float32Array; tally: OrpoTally };

export function weighOdds({ chosen, answerFrom, rejected }: OrpoPair, options: OrpoOptions): WeighedOrpo {
  const { beta, pairScale, tokenScale } = options;
  const [better, worse] = [odds(chosen, answerFrom), odds(rejected, 0)];
  const logOdds = better.logOdds - worse.logOdds;
  const ratio = -softplus(-logOdds); // log σ
  const pull = beta * pairScale * sigmoid(-logOdds);
  const nll = -sum(chosen, 0) * tokenScale;
  const byAnswer = pull * better.slope;
  return {
    chosen: Float32Array.from({ length: chosen.length }, (_, t) => tokenScale + (t >= answerFrom ? byAnswer : 0)),
    rejected: new Float32Array(rejected.length).fill(-pull * worse.slope),
    tally: {
      nll,
      ratio,
      logOdds,
      logpChosen: better.mean,
      logpRejected: worse.mean,
      loss: nll - beta * pairScale * ratio,
    },
  };
}

/** A mean of exactly 0 (probability 1) would have infinite odds. */
const LARGEST_MEAN = -1e-6;

/** log(p / (1 − p)) with log p = the mean of `logps`, and its derivative by one of them. */
function odds(logps: ArrayLike<number>, from: number): { mean: number; logOdds: number; slope: number } {
  const tokens = Math.max(logps.length - from, 1);
  const mean = sum(logps, from) / tokens;
  const within = Math.min(mean, LARGEST_MEAN);
  const rest = -Math.expm1(within); // 1 − p
  return { mean, logOdds: within - Math.log(rest), slope: mean < LARGEST_MEAN ? 1 / (rest * tokens) : 0 };
}

function sum(values: ArrayLike<number>, from: number): number {
  let total = 0;
  for (let i = from; i < values.length; i++) total += values[i]!;
  return total;
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
/** log(1 + e^x), without overflow. */
const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** Metrics over all pairs of a step, with TRL's names. */
export function orpoMetrics(tallies: readonly OrpoTally[], beta: number): Record<string, number> {
  const total = (of: (tally: OrpoTally) => number) => tallies.reduce((all, tally) => all + of(tally), 0);
  const mean = (of: (tally: OrpoTally) => number) => total(of) / Math.max(1, tallies.length);
  return {
    loss: total(({ loss }) => loss),
    nll_loss: total(({ nll }) => nll),
    log_odds_ratio: mean(({ ratio }) => ratio),
    log_odds_chosen: mean(({ logOdds }) => logOdds),
    "rewards/chosen": beta * mean(({ logpChosen }) => logpChosen),
    "rewards/rejected": beta * mean(({ logpRejected }) => logpRejected),
    "rewards/margins": beta * mean(({ logpChosen, logpRejected }) => logpChosen - logpRejected),
    "rewards/accuracies": mean(({ logpChosen, logpRejected }) => (logpChosen > logpRejected ? 1 : 0)),
    "logps/chosen": mean(({ logpChosen }) => logpChosen),
    "logps/rejected": mean(({ logpRejected }) => logpRejected),
  };
}
