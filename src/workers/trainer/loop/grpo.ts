/**
 * GRPO, RLOO and distillation. A generation gives steps_per_generation batches of completions, each used num_iterations times. An optimizer
 * step takes the next gradient_accumulation_steps of them. The choice depends only on the step.
 *
 * Shapes: a generation has `batches` × B samples, B = per_device_train_batch_size, and the num_generations samples of a
 * prompt are adjacent. A sample's `tokens` are [prompt + completion]; `sampler`, `old`, `reference`, `teacher`, `logps`, masks and
 * weights are [completion]. Rewards and advantages are one number per sample.
 */

import { seedOf } from "../../../lib/random.ts";
import type { Row } from "../../../lib/rows/format.ts";
import type { RolledMethod } from "../../../lib/training/fields.ts";
import { divergenceOf } from "../../../lib/training/loss/divergence.ts";
import { uncertainTokens } from "../../../lib/training/loss/grpo.ts";
import { type GrpoTally, grpoMetrics, joinTallies } from "../../../lib/training/loss/grpo_metrics.ts";
import { stepsOf } from "../../../lib/training/plan.ts";
import { type Resolved, readResolved } from "../../../lib/training/resolve.ts";
import { type CurriculumOptions, openCurriculum } from "../data/curriculum.ts";
import { type Examples, openPrompts, type Prompt } from "../data/examples.ts";
import { epochsPassed, openOrder } from "../data/order.ts";
import { shownPrompt } from "../data/shown_prompt.ts";
import type { Piece } from "../trainee/types.ts";
import { evaluatePrompts, type Generation, generate, type Timing } from "./generation.ts";
import { decodeGeneration, encodeGeneration } from "./generation_file.ts";
import { activeOf, answersObjective, grpoObjective, type Objective, rlooObjective } from "./objective.ts";
import { leftOutWords } from "./over_rows.ts";
import { type Drawn, isHard, type Kit, toldSample, turnsOf } from "./rollout.ts";
import { environmentOf, toolsOf } from "./turns.ts";
import type {
  Gathered,
  Method,
  MethodKind,
  Reference,
  Resumed,
  RolledValues,
  Sampler,
  Split,
  Turns,
  World,
} from "./types.ts";

export const grpo = rolledMethod("grpo", grpoObjective);
export const rloo = rolledMethod("rloo", rlooObjective);
export const distill = rolledMethod("distill", (values) =>
  isHard(values) ? answersObjective() : grpoObjective(values),
);

function rolledMethod<M extends RolledMethod>(method: M, objectiveOf: (values: Resolved<M>) => Objective): MethodKind {
  return {
    async open(plan, { encoder, contextLength, read }) {
      const values = readResolved(method, plan.hyperparameters);
      const { max_completion_length: least, max_turns: maxTurns, max_rollout_tokens: most } = values;
      const { environments } = plan;
      const maxTokens = environments ? (most ?? least) : least;
      const turns = environments ? { encoder, environments, maxTurns, maxTokens } : null;
      const tools = turns && ((row: Row) => toolsOf(environmentOf(turns.environments, row)));
      const template = "distillation_prompt" in values ? values.distillation_prompt : null;
      const shown = template === null ? null : shownPrompt(template);
      const room = { contextLength, least: maxTokens, shown, ...(tools ? { tools } : {}) };
      const split = await read((source) => openPrompts(source, encoder, room));
      const { examples: prompts, heldOut } = split;
      return {
        kind: "rolled",
        values,
        maxLength: Math.max(prompts.longest, heldOut?.longest ?? 0) + maxTokens,
        rows: `${prompts.count} prompts`,
        prompts,
        turns,
        open(world, sampler, resumed) {
          const totalSteps = stepsOf(method, values, prompts.count);
          const setting = { ...sampler, values, totalSteps, objective: objectiveOf(values), turns, seed: plan.seed };
          return openRolled(world, { ...setting, ...split }, resumed);
        },
      };
    },
  };
}

type RolledSetting = Sampler &
  Split<Prompt> & {
    values: RolledValues;
    totalSteps: number;
    objective: Objective;
    turns: Turns | null;
    seed: number;
    samplesPerStep: number;
  };

/** Micro-batches [from, to) of one generation, counted over the whole training. */
type Stretch = { index: number; from: number; to: number };

function openRolled(world: World, setting: RolledSetting, resumed: Resumed | null): Method {
  const { trainee } = world;
  const { values, totalSteps, objective, seed, examples: prompts, heldOut, sync } = setting;
  const kit: Kit = { world, roller: setting.roller, values, turns: turnsOf(setting.turns), seed };
  const { steps_per_generation: batches, gradient_accumulation_steps: perStep } = values;
  const perGeneration = batches * values.num_iterations;
  const order = openOrder(
    { rows: prompts.count, shuffle: values.shuffle_dataset, atEnd: "wrap" },
    resumed?.order ?? { seed, epoch: 0, position: 0 },
  );
  const curriculum = openCurriculum(
    order,
    curriculumOptions(values, { rows: prompts.count, seed }),
    resumed?.curriculum ?? null,
  );
  let current: Generation | null = typeof resumed?.left === "string" ? decodeGeneration(resumed.left) : null;
  let next = 0; // the first micro-batch of the next step
  const divergence = divergenceOf(values);
  const hasTeacher = world.teacher !== null || isHard(values);
  let lacksMerge = current !== null && setting.roller.isExact; // exact passes need the sampler's weights

  const samplesOf = ({ samples }: Generation, batch: number) =>
    samples.slice(batch * values.per_device_train_batch_size, (batch + 1) * values.per_device_train_batch_size);

  async function begin({ index, to }: Stretch, step: number): Promise<Timing & { sync_time: number }> {
    const begun = world.now();
    await sync();
    const sync_time = (world.now() - begun) / 1000;
    const { generation, timing } = await generate(kit, prompts, curriculum, { index, step });
    const { samples } = generation;
    if (values.beta !== 0) await note(samples, "reference");
    if (world.teacher !== null && divergence === null) await note(samples, "teacher");
    if (objective.penalizes) await note(samples, "old");
    const advantages = objective.advantages(samples);
    samples.forEach((sample, i) => {
      sample.advantage = advantages[i]!;
      sample.old = null; // the first pass compares with itself
    });
    const now = new Set(Array.from({ length: to - index * perGeneration }, (_, i) => i % batches));
    const later = Array.from({ length: batches }, (_, i) => i).filter((batch) => !now.has(batch));
    await note(
      later.flatMap((batch) => samplesOf(generation, batch)),
      "old",
    ); // the weights will have changed when these are used
    current = generation;
    return { ...timing, sync_time };
  }

  async function note(samples: readonly Drawn[], as: "old" | "reference" | "teacher", from = prompts) {
    const whole = samples.filter((sample) => sample.tokens.length > sample.from);
    if (whole.length === 0) return;
    const score = as === "old" ? (pieces: readonly Piece[]) => trainee.score(pieces) : scorerOf(as);
    const scored = await score(as === "teacher" ? whole.map((sample) => shownPiece(sample, from)) : whole);
    whole.forEach((sample, i) => {
      sample[as] = scored[i]!.logps;
    });
  }

  function scorerOf(as: "reference" | "teacher"): Reference {
    const score = as === "teacher" ? world.teacher?.score : world.reference;
    if (!score) throw new Error("beta needs the model as it was before");
    return score;
  }

  /** How much more likely the one who wrote the completions finds their tokens than the other one: student or teacher. */
  async function teacherKl(drawn: readonly Drawn[]): Promise<number> {
    const isTeacher = isHard(values);
    if (!isTeacher) await note(drawn, "teacher", heldOut ?? prompts);
    await note(drawn, "old");
    let [sum, tokens] = [0, 0];
    for (const { old, teacher, sampler } of drawn)
      old?.forEach((logp, t) => {
        sum += isTeacher ? (sampler?.[t] ?? Number.NaN) - logp : logp - teacher![t]!;
        tokens++;
      });
    return sum / Math.max(tokens, 1);
  }

  /** Asks the teacher about the completions of a step. The weights are those of the divergences. */
  async function taughtOf(samples: readonly Drawn[], masks: readonly Uint8Array[], scales: readonly number[]) {
    if (divergence === null || !("distillation_weight" in values)) return null;
    if (!world.teacher) throw new Error("A divergence needs a teacher");
    const states = await world.teacher.states(samples.map((sample) => shownPiece(sample, prompts)));
    samples.forEach((sample, i) => {
      sample.teacher = states[i]!.logps;
    });
    const { distillation_weight: weight } = values;
    return samples.map((_, i) => ({
      states: states[i]!.states,
      weights: Float32Array.from(masks[i]!, (counts) => (counts ? weight * scales[i]! : 0)),
    }));
  }

  async function gather(step: number): Promise<Gathered> {
    next = (step + 1) * perStep;
    if (lacksMerge) await sync();
    lacksMerge = false;
    const drawn: { sample: Drawn; again: boolean }[] = [];
    const told: Record<string, number>[] = [];
    let timing: Partial<Timing> = {};
    let [syncTime, rolloutTime, rewardTime] = [0, 0, 0]; // a step that learns from an earlier generation writes nothing
    for (const stretch of stretches(step * perStep, next, perGeneration)) {
      if (current?.index !== stretch.index) {
        const { sync_time, ...taken } = await begin(stretch, step);
        timing = taken;
        syncTime += sync_time;
        rolloutTime += timing.rollout_time ?? 0;
        rewardTime += timing.reward_time ?? 0;
      }
      const generation = current!;
      told.push(generation.metrics);
      const end = (stretch.index + 1) * perGeneration;
      for (let micro = stretch.from; micro < stretch.to; micro++) {
        const again = (micro % batches) + batches * Math.ceil((next - (micro % batches)) / batches) < end;
        drawn.push(...samplesOf(generation, micro % batches).map((sample) => ({ sample, again })));
      }
    }
    const begun = world.now();
    const tally = await learn(drawn, seedOf(seed, step));
    const times = {
      sync_time: syncTime,
      rollout_time: rolloutTime,
      reward_time: rewardTime,
      update_time: (world.now() - begun) / 1000,
    };
    const samples = drawn.map(({ sample }) => sample);
    const metrics = { ...grpoMetrics(tally), ...meanOf(told), ...timing, ...times };
    return {
      metrics,
      loss: tally.loss,
      tokens: samples.reduce((sum, { tokens }) => sum + tokens.length, 0),
      maxAdvantage: !hasTeacher
        ? samples.reduce((most, { advantage }) => Math.max(most, Math.abs(advantage)), 0)
        : null,
      samples: picked(samples, setting.samplesPerStep).map((each) =>
        toldSample(each, prompts.get(each.prompt).prompt, true),
      ),
    };
  }

  /** The entropies of all tokens of a step must be known before the first one is learned from: another forward pass. */
  async function uncertainOf(samples: readonly Drawn[], masks: readonly Uint8Array[]): Promise<Uint8Array[] | null> {
    const share = "top_entropy_quantile" in values ? values.top_entropy_quantile : 1;
    if (share >= 1 || samples.length === 0) return null;
    const scores = await trainee.score(samples, { entropies: true });
    return uncertainTokens(
      scores.map(({ entropies }) => entropies!),
      masks,
      share,
    );
  }

  async function learn(drawn: readonly { sample: Drawn; again: boolean }[], dropoutSeed: number): Promise<GrpoTally> {
    const masks = drawn.map(({ sample }) => activeOf(sample, values, world.score !== null)); // [sample][completion token]
    const counts = masks.map((mask) => mask.reduce((sum, each) => sum + each, 0)); // [sample]
    const scales = objective.scales(counts); // [sample]
    const live = drawn.flatMap((_, i) => (counts[i]! > 0 ? [i] : []));
    const uncertain = await uncertainOf(
      live.map((i) => drawn[i]!.sample),
      live.map((i) => masks[i]!),
    );
    const taught = await taughtOf(
      live.map((i) => drawn[i]!.sample),
      live.map((i) => masks[i]!),
      live.map((i) => scales[i]!),
    );
    const tallies: GrpoTally[] = new Array(live.length);
    await trainee.learn(
      live.map((i) => [drawn[i]!.sample]),
      (unit, [scores]) => {
        const i = live[unit]!;
        const { sample, again } = drawn[i]!;
        const { old: logpOld, reference: logpRef, teacher: logpTeacher, sampler: logpSampler, advantage } = sample;
        const { logps: logp, entropies: entropy, divergences } = scores!;
        const rollout = {
          logp,
          logpOld,
          logpRef,
          logpTeacher,
          logpSampler,
          entropy,
          uncertain: uncertain?.[unit] ?? null,
          active: masks[i]!,
          advantage,
        };
        const weighed = objective.weigh(rollout, scales[i]!);
        if (again) sample.old ??= logp.slice();
        if (taught && divergences) noteDivergences(weighed.tally, divergences, taught[unit]!.weights);
        tallies[unit] = weighed.tally;
        return [weighed.weights];
      },
      { dropoutSeed, entropies: true, ...(taught ? { taught: (unit) => taught[unit]! } : {}) },
    );
    return joinTallies(tallies);
  }

  return {
    values,
    totalSteps,
    gather,
    evaluate:
      heldOut &&
      (async (step) => {
        await sync();
        return evaluatePrompts(kit, heldOut, { step, teacherKl: hasTeacher ? teacherKl : null });
      }),
    epoch: () => epochsPassed(order.state(), prompts.count),
    order: order.state,
    curriculum: () => (values.sampling === "uniform" && values.retire_after === null ? null : curriculum.state()),
    left: () => {
      const isUsedUp = current === null || next >= (current.index + 1) * perGeneration;
      return isUsedUp ? null : encodeGeneration(current!);
    },
    warning: leftOutWords(prompts, "the model's context has no room for max_completion_length after them"),
  };
}

const curriculumOptions = (
  values: RolledValues,
  { rows, seed }: { rows: number; seed: number },
): CurriculumOptions => ({
  rows,
  seed,
  sampling: values.sampling,
  retireAfter: values.retire_after,
  solvedReward: values.solved_reward,
  replayShare: values.replay_share,
});

/** A completion behind the prompt that the teacher sees. */
function shownPiece({ tokens, from, prompt }: Drawn, prompts: Examples<Prompt>): Piece {
  const { shown } = prompts.get(prompt);
  if (shown === undefined) return { tokens, from };
  const whole = new Int32Array(shown.length + tokens.length - from);
  whole.set(shown);
  whole.set(tokens.subarray(from), shown.length);
  return { tokens: whole, from: shown.length };
}

function noteDivergences(tally: GrpoTally, divergences: Float32Array, weights: Float32Array) {
  weights.forEach((weight, t) => {
    if (weight === 0) return;
    tally.loss += weight * divergences[t]!;
    tally.divergence += divergences[t]!;
    tally.divergenceTokens++;
  });
}

function* stretches(from: number, to: number, perGeneration: number): Generator<Stretch> {
  for (let at = from; at < to; ) {
    const index = Math.floor(at / perGeneration);
    const end = Math.min(to, (index + 1) * perGeneration);
    yield { index, from: at, to: end };
    at = end;
  }
}

/** Mean over the generations of one step, usually one. */
function meanOf(all: readonly Record<string, number>[]): Record<string, number> {
  const keys = new Set(all.flatMap((each) => Object.keys(each)));
  return Object.fromEntries(
    [...keys].map((key) => {
      const values = all.flatMap((each) => (each[key] === undefined ? [] : [each[key]]));
      return [key, values.reduce((a, b) => a + b, 0) / values.length];
    }),
  );
}

/** Picks evenly over the groups. */
const picked = <T>(all: readonly T[], most: number): T[] => {
  const count = Math.min(most, all.length);
  return Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)]!);
};
