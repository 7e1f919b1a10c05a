/** The completions that some steps learn from, and metrics of the model that wrote them. */
import { advantagesOf, metricsByFunction, type Reward } from "../../../lib/training/loss/advantages.ts";
import { completionMetrics, turnMetrics } from "../../../lib/training/metrics.ts";
import { passMetrics } from "../../../lib/training/pass_at_k.ts";
import { promptsPerGeneration } from "../../../lib/training/schedule.ts";
import type { Curriculum } from "../data/curriculum.ts";
import type { Examples, Prompt } from "../data/examples.ts";
import { newSift, promptsToDraw, sift } from "../data/order.ts";
import { type Drawn, type Kit, type Rolled, rollGroups, writtenTokens } from "./rollout.ts";

export type Generation = {
  index: number;
  /** Samples of a group are adjacent. */
  samples: Drawn[];
  metrics: Record<string, number>;
};
export type Timing = Record<
  "rollout_tokens_per_second" | "reward_latency_p95" | "rollout_time" | "reward_time",
  number
>;
export type GenerationIndex = { index: number; step: number };

const ROLL = 1; // distinguishes this draw from others with the same numbers
const EVALUATE = 2;

/** The advantages are still to be computed. With dynamic_sampling, groups with equal rewards are replaced by new draws, a few times. */
export async function generate(
  kit: Kit,
  prompts: Examples<Prompt>,
  curriculum: Curriculum,
  { index, step }: GenerationIndex,
): Promise<{ generation: Generation; timing: Timing }> {
  const { values } = kit;
  const options = { numGenerations: values.num_generations, scaleRewards: "none" } as const;
  const rows = prompts.count;
  let sifted = newSift<Drawn[]>(promptsPerGeneration({ ...values, rows }));
  const all: Rolled[] = [];
  for (let count = promptsToDraw(sifted); count > 0; count = promptsToDraw(sifted)) {
    const salt = [ROLL, index, sifted.draws];
    const indices = curriculum.draw(count);
    const rolled = await rollGroups(kit, { prompts, indices, samples: values.num_generations, salt, step });
    all.push(rolled);
    if (kit.world.score !== null)
      rolled.groups.forEach((group, g) => {
        curriculum.note(indices[g]!, rewardsOf(group));
      });
    const differs = (group: Drawn[]) => advantagesOf(rewardsOf(group), options).useful[0] === true;
    sifted = sift(sifted, rolled.groups, (group) => !values.dynamic_sampling || differs(group));
  }
  const samples = sifted.kept.flat();
  const drawn = all.flatMap(({ groups }) => groups.flat());
  const rewards = {
    ...advantagesOf(rewardsOf(drawn), options).metrics,
    ...metricsByFunction(byFunction(drawn)),
    errored_rollouts: drawn.filter(({ error }) => error !== null).length,
  };
  const { solved_reward: solved, sampling, retire_after: retires } = values;
  const groups = all.flatMap((rolled) => rolled.groups).map(rewardsOf);
  const metrics = {
    ...(kit.world.score === null ? {} : rewards),
    ...(kit.world.score === null || solved === null ? {} : passMetrics(groups, solved)),
    ...(sampling === "uniform" && retires === null ? {} : curriculum.metrics()),
    ...completionMetrics(drawn.map((each) => ({ tokens: writtenTokens(each), truncated: each.truncated }))),
    ...turnMetrics(all.flatMap(({ finished }) => finished ?? [])),
  };
  return { generation: { index, samples, metrics }, timing: timingOf(all) };
}

const MOST_HELD_OUT = 64;

/**
 * One completion for some held-out prompts, sampled as in training. `teacherKl`: the mean over the tokens of completions.
 */
export async function evaluatePrompts(
  kit: Kit,
  prompts: Examples<Prompt>,
  { step, teacherKl }: { step: number; teacherKl: ((drawn: readonly Drawn[]) => Promise<number>) | null },
) {
  const count = Math.min(prompts.count, MOST_HELD_OUT);
  const indices = Array.from({ length: count }, (_, i) => Math.floor((i * prompts.count) / count));
  const { groups } = await rollGroups(kit, { prompts, indices, samples: 1, salt: [EVALUATE], step });
  const drawn = groups.flat();
  const one = { numGenerations: Math.max(1, drawn.length), scaleRewards: "none" } as const;
  const { frac_reward_zero_std: _, ...rewards } = advantagesOf(rewardsOf(drawn), one).metrics;
  const metrics = {
    ...(kit.world.score === null ? {} : { ...rewards, ...metricsByFunction(byFunction(drawn)) }),
    ...(teacherKl ? { teacher_kl: await teacherKl(drawn) } : {}),
  };
  return Object.fromEntries(Object.entries(metrics).map(([key, value]) => [`eval_${key}`, value]));
}

const rewardsOf = (drawn: readonly Drawn[]): Reward[] => drawn.map(({ reward }) => reward);

function byFunction(drawn: readonly Drawn[]): Record<string, Reward[]> {
  const names = new Set(drawn.flatMap(({ subRewards }) => Object.keys(subRewards)));
  return Object.fromEntries([...names].map((name) => [name, drawn.map(({ subRewards }) => subRewards[name] ?? null)]));
}

/** Latency in seconds, like every time in the metrics. */
function timingOf(all: readonly Rolled[]): Timing {
  const sum = (of: (rolled: Rolled) => number) => all.reduce((total, rolled) => total + of(rolled), 0);
  const latencies = all.flatMap((rolled) => rolled.latencies).sort((a, b) => a - b);
  const rolloutTime = sum(({ seconds }) => seconds);
  return {
    rollout_time: rolloutTime,
    reward_time: sum(({ scoreSeconds }) => scoreSeconds),
    rollout_tokens_per_second: sum(({ tokens }) => tokens) / Math.max(rolloutTime, 1e-3),
    reward_latency_p95: (latencies[Math.ceil(0.95 * latencies.length) - 1] ?? 0) / 1000,
  };
}
