/** pass@k: the chance that at least one of k completions of a prompt is solved, estimated without bias from n of them. */

/** 1 − C(n − c, k) / C(n, k), as a product that does not overflow. */
export function passAtK({ samples, solved, k }: { samples: number; solved: number; k: number }): number {
  if (samples - solved < k) return 1;
  let none = 1;
  for (let i = 0; i < k; i++) none *= (samples - solved - i) / (samples - i);
  return 1 - none;
}

const NORMAL = 1.96; // of the 95 % interval

/**
 * The mean over prompts for k = 1 and for the whole group, with the 95 % interval of the latter from the spread between prompts.
 * `groups`: the rewards of each prompt's completions; null: none.
 */
export function passMetrics(
  groups: readonly (readonly (number | null)[])[],
  solvedReward: number,
): Record<string, number> {
  const counted = groups
    .map((rewards) => rewards.filter((reward) => reward !== null))
    .filter((rewards) => rewards.length > 0)
    .map((rewards) => ({ samples: rewards.length, solved: rewards.filter((reward) => reward >= solvedReward).length }));
  if (counted.length === 0) return {};
  const most = counted.reduce((least, { samples }) => Math.min(least, samples), Number.POSITIVE_INFINITY);
  const metrics: Record<string, number> = {};
  for (const k of new Set([1, most])) {
    const values = counted.map((each) => passAtK({ ...each, k }));
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    metrics[`pass@${k}`] = mean;
    if (values.length < 2) continue;
    const half = NORMAL * Math.sqrt(squares / (values.length - 1) / values.length);
    metrics[`pass@${k}/low`] = Math.max(0, mean - half);
    metrics[`pass@${k}/high`] = Math.min(1, mean + half);
  }
  return metrics;
}
