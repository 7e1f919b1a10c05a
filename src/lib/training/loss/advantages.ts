/**
 * Turns rewards of groups of completions into advantages, as TRL does: the group's mean is the baseline, and the
 * standard deviation divides by n − 1, plus 1e-4. A sample without a reward counts in no mean and no deviation and has
 * advantage 0. So has every sample of a group with fewer than two rewards.
 */

export const SCALE_REWARDS = ["group", "batch", "none"] as const;
export type ScaleRewards = (typeof SCALE_REWARDS)[number];

/** null: the sample got no reward. Values outside 32-bit floats (NaN, infinities, 1e300) count as null. */
export type Reward = number | null;

/** Added to a standard deviation before a division. */
export const EPSILON = 1e-4;
/** A deviation below this is rounding, not a difference. */
export const ZERO_STD = 1e-8;

export type Spread = { count: number; mean: number; std: number | null };

export type Advantages = {
  /** One advantage per sample; 0 without a reward. */
  values: Float64Array;
  /** True if the sample has a reward. A sample without one takes no part in the loss. */
  scored: boolean[];
  /** True for each group that the model can learn from. */
  useful: boolean[];
  metrics: Record<string, number>;
};

export type AdvantageOptions = { numGenerations: number; scaleRewards: ScaleRewards };

/** Samples of a group are adjacent: sample i belongs to group ⌊i / numGenerations⌋. */
export function advantagesOf(rewards: readonly Reward[], options: AdvantageOptions): Advantages {
  const { numGenerations, scaleRewards } = options;
  if (rewards.length % numGenerations !== 0)
    throw new RangeError(`${rewards.length} rewards are not a whole number of groups of ${numGenerations}`);
  const usable = rewards.map(cleaned);
  const all = spreadOf(usable);
  const values = new Float64Array(usable.length);
  const useful: boolean[] = [];
  for (let start = 0; start < usable.length; start += numGenerations) {
    const group = usable.slice(start, start + numGenerations);
    const { mean, std } = spreadOf(group);
    const differs = std !== null && std > ZERO_STD;
    useful.push(differs);
    if (!differs) continue; // rewards that differ only by rounding teach nothing
    const scale = scaleRewards === "none" ? 1 : (scaleRewards === "batch" ? (all.std ?? 0) : std) + EPSILON;
    group.forEach((reward, i) => {
      if (reward !== null) values[start + i] = (reward - mean) / scale;
    });
  }
  return { values, scored: usable.map((reward) => reward !== null), useful, metrics: rewardMetrics(all, useful) };
}

export const AGGREGATIONS = ["sum_then_normalize", "normalize_then_sum"] as const;
/** The rewards of one function. */
export type WeighedRewards = { weight: number; rewards: readonly Reward[] };

/**
 * Advantages with each function normalized within its group first (GDPO): a reward with small differences is not lost
 * beside one with large ones. Their weighted sum is normalized over the batch. `totals`: a sample without one has
 * advantage 0.
 */
export function advantagesOfEach(
  totals: readonly Reward[],
  functions: readonly WeighedRewards[],
  numGenerations: number,
): Float64Array {
  const sums: Reward[] = totals.map((total) => (cleaned(total) === null ? null : 0));
  for (const { weight, rewards } of functions)
    for (let start = 0; start < rewards.length; start += numGenerations) {
      const group = rewards.slice(start, start + numGenerations).map(cleaned);
      const { mean, std } = spreadOf(group);
      if (std === null || std <= ZERO_STD) continue;
      group.forEach((reward, i) => {
        const sum = sums[start + i] ?? null;
        if (reward !== null && sum !== null) sums[start + i] = sum + (weight * (reward - mean)) / (std + EPSILON);
      });
    }
  const { mean, std } = spreadOf(sums);
  return Float64Array.from(sums, (sum) => (sum === null || std === null ? 0 : (sum - mean) / (std + EPSILON)));
}

/**
 * `frac_reward_zero_std` is the share of groups without a learning signal, under every scaling. It includes groups with
 * fewer than two rewards. (TRL's is 0 or 1 under "batch", and leaves such groups out.)
 */
function rewardMetrics(all: Spread, useful: readonly boolean[]): Record<string, number> {
  const metrics: Record<string, number> = {};
  if (all.count > 0) metrics["reward"] = all.mean;
  if (all.std !== null) metrics["reward_std"] = all.std;
  if (useful.length > 0) metrics["frac_reward_zero_std"] = useful.filter((differs) => !differs).length / useful.length;
  return metrics;
}

/** `rewards/<name>/mean` and `/std` of each function, over the samples with a number. */
export function metricsByFunction(subRewards: Readonly<Record<string, readonly Reward[]>>): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const [name, rewards] of Object.entries(subRewards)) {
    const { count, mean, std } = spreadOf(rewards.map(cleaned));
    if (count > 0) metrics[`rewards/${name}/mean`] = mean;
    if (std !== null) metrics[`rewards/${name}/std`] = std;
  }
  return metrics;
}

/** `std` estimates that of the distribution (n − 1); null for fewer than two values. */
export function spreadOf(values: readonly Reward[]): Spread {
  let count = 0;
  let mean = 0;
  let squares = 0; // Welford: equal values give exactly 0, and large ones do not overflow
  for (const value of values) {
    if (value === null) continue;
    count++;
    const before = value - mean;
    mean += before / count;
    squares += before * (value - mean);
  }
  return { count, mean, std: count < 2 ? null : Math.sqrt(squares / (count - 1)) };
}

const LARGEST = 2 ** 127;

export const cleaned = (reward: Reward): Reward => (reward !== null && Math.abs(reward) < LARGEST ? reward : null);
