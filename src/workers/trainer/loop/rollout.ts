/** Samples completions for prompts and scores them. */

import { seedOf } from "../../../lib/random.ts";
import { cleaned } from "../../../lib/training/loss/advantages.ts";
import type { TrainSample } from "../../protocol_trainer.ts";
import type { Examples, Prompt } from "../data/examples.ts";
import type { Roller, RolloutSampling } from "../rollouts/types.ts";
import { Trouble } from "../trouble.ts";
import { judgeRewards } from "./guards.ts";
import { type FinishedRollout, rollTurns } from "./turns.ts";
import type { RolledValues, ScoreAnswer, Turns, World } from "./types.ts";

/** One completion. Arrays of log-probabilities have one element per completion token. */
export type Drawn = {
  /** Index of the prompt. */
  prompt: number;
  /** Tokens of the prompt and the completion. */
  tokens: Int32Array;
  from: number;
  /** 1: the model wrote the token itself. Null: all of them. */
  written: Uint8Array | null;
  text: string;
  truncated: boolean;
  reward: number | null;
  subRewards: Record<string, number | null>;
  /** The weights of the functions in the reward. */
  weights: Record<string, number>;
  error: string | null;
  advantage: number;
  sampler: Float32Array | null;
  old: Float32Array | null;
  reference: Float32Array | null;
  teacher: Float32Array | null;
};

export type Kit = {
  world: Pick<World, "score" | "act" | "send" | "signal" | "now">;
  roller: Roller;
  values: RolledValues;
  /** Null: a completion is one answer. */
  turns: (Turns & { newRollout: () => number }) | null;
  seed: number;
};

export const turnsOf = (turns: Turns | null): Kit["turns"] => {
  let rollouts = 0;
  return turns && { ...turns, newRollout: () => rollouts++ };
};

/** `seconds`: to write the completions. `scoreSeconds`: to score them. */
export type Rolled = {
  groups: Drawn[][];
  latencies: number[];
  seconds: number;
  scoreSeconds: number;
  tokens: number;
  /** Null: a completion is one answer. */
  finished: readonly FinishedRollout[] | null;
};
export type Draw = {
  prompts: Examples<Prompt>;
  indices: readonly number[];
  samples: number;
  /** Numbers that select the draw, in addition to the job's seed and the prompt's index. */
  salt: readonly number[];
  step: number;
};

export async function rollGroups(kit: Kit, { prompts, indices, samples, salt, step }: Draw): Promise<Rolled> {
  const { world, seed } = kit;
  const chosen = indices.map((index) => prompts.get(index));
  const seeds = chosen.map((_, i) => seedOf(seed, ...salt, i));
  const begun = world.now();
  const { groups, finished } = kit.turns
    ? await drawTurns({ ...kit, turns: kit.turns }, chosen, samples, seeds)
    : { groups: await drawAnswers(kit, chosen, samples, seeds), finished: null };
  const seconds = (world.now() - begun) / 1000;
  groups.forEach((group, g) => {
    for (const each of group) each.prompt = indices[g]!;
  });
  const flat = groups.flat();
  const tokens = flat.reduce((sum, each) => sum + writtenTokens(each), 0);
  if (world.score === null) return { groups, latencies: [], seconds, scoreSeconds: 0, tokens, finished };
  const written = world.now();
  const answer = await world.score(
    step,
    flat.map(({ text }, i) => {
      const { prompt, row } = chosen[Math.floor(i / samples)]!;
      return {
        prompt,
        row,
        ...(finished ? { completion: finished[i]!.messages, rollout: finished[i]!.rollout } : { completion: text }),
      };
    }),
  );
  const scoreSeconds = (world.now() - written) / 1000;
  finished?.forEach(({ error }, i) => {
    if (error !== null) answer.results[i] = { ...answer.results[i]!, reward: null, error };
  });
  take(kit, flat, answer, (i) => chosen[Math.floor(i / samples)]!.prompt);
  return { groups, latencies: answer.latencies_ms, seconds, scoreSeconds, tokens, finished };
}

/** Tokens of the completion that the model wrote. */
export const writtenTokens = ({ tokens, from, written }: Drawn): number =>
  written?.reduce((sum, each) => sum + each, 0) ?? tokens.length - from;

const UNSCORED = { prompt: 0, reward: null, subRewards: {}, weights: {}, error: null, advantage: 0 };
const UNREAD = { old: null, reference: null, teacher: null };

async function drawAnswers(
  { world, roller, values }: Kit,
  chosen: readonly Prompt[],
  samples: number,
  seeds: readonly number[],
): Promise<Drawn[][]> {
  const isTeacher = isHard(values);
  const requests = chosen.map(({ tokens, shown }, i) => {
    return { prompt: (isTeacher && shown) || tokens, samples, seed: seeds[i]! };
  });
  const rolled = await roller.roll(requests, samplingOf(values), world.signal);
  world.signal.throwIfAborted();
  return rolled.map((group, g) =>
    group.map(({ tokens, logps, text, truncated }): Drawn => {
      const prompt = chosen[g]!.tokens;
      const whole = new Int32Array(prompt.length + tokens.length);
      whole.set(prompt);
      whole.set(tokens, prompt.length);
      const drawn = { tokens: whole, from: prompt.length, written: null, text, truncated, sampler: logps };
      return { ...drawn, ...UNSCORED, ...UNREAD };
    }),
  );
}

async function drawTurns(
  { world, roller, values, turns }: Kit & { turns: NonNullable<Kit["turns"]> },
  chosen: readonly Prompt[],
  samples: number,
  seeds: readonly number[],
): Promise<{ groups: Drawn[][]; finished: FinishedRollout[] }> {
  const { act, signal } = world;
  const finished = await rollTurns(chosen, samples, seeds, {
    ...turns,
    roller,
    act,
    signal,
    sampling: samplingOf(values),
  });
  const groups = finished.map((group) =>
    group.map(({ tokens, from, written, logps: sampler, truncated }): Drawn => {
      const text = roller.detokenize(tokens.subarray(from));
      return { tokens, from, written, text, truncated, sampler, ...UNSCORED, ...UNREAD };
    }),
  );
  return { groups, finished: finished.flat() };
}

/** True if the teacher draws the completions, and the student learns them as answers. */
export const isHard = (values: RolledValues): boolean =>
  "distillation_loss" in values && values.distillation_loss === "hard";

export const samplingOf = (values: RolledValues): RolloutSampling => ({
  temperature: values.temperature,
  topP: values.top_p,
  topK: values.top_k,
  minP: values.min_p,
  maxTokens: values.max_completion_length,
});

/** Limit of printed lines of the reward code for one batch. */
const MOST_LINES = 100;

function take({ world }: Kit, drawn: Drawn[], answer: ScoreAnswer, promptOf: (i: number) => unknown) {
  const lines = answer.stdout === "" ? [] : answer.stdout.replace(/\n$/, "").split("\n");
  for (const line of lines.slice(0, MOST_LINES)) world.send({ type: "log", stream: "stdout", line: `reward: ${line}` });
  if (lines.length > MOST_LINES)
    world.send({ type: "log", stream: "stdout", line: `reward: … ${lines.length - MOST_LINES} more lines` });
  if (answer.results.length !== drawn.length)
    throw new Trouble(
      "bad_reward",
      `${drawn.length} completions were scored, but ${answer.results.length} results came back`,
    );
  answer.results.forEach(({ reward, sub_rewards, weights = {}, error }, i) => {
    const each = drawn[i]!;
    each.reward = cleaned(reward);
    each.subRewards = sub_rewards;
    each.weights = weights;
    each.error = error ?? faultOf(each.reward, reward);
  });
  const bad = drawn.findIndex(({ error }) => error !== null);
  if (bad < 0) return;
  const errored = drawn.filter(({ error }) => error !== null).length;
  const example = drawn[bad]!.error;
  const verdict = judgeRewards({ samples: drawn.length, errored, example });
  if (verdict) throw new Trouble("bad_reward", verdict.message, { sample: toldSample(drawn[bad]!, promptOf(bad)) });
  const line = `reward: ${errored} of ${drawn.length} completions got no reward: ${example}`;
  world.send({ type: "log", stream: "stderr", line });
}

/** A sample without a reward counts as failed, even if every function returned None. */
function faultOf(kept: number | null, returned: number | null): string | null {
  if (kept !== null) return null;
  return returned === null ? "no function returned a number" : `the reward ${returned} is too large to compute with`;
}

export const toldSample = (drawn: Drawn, prompt: unknown, learned = false): TrainSample => ({
  prompt,
  completion: drawn.text,
  reward: drawn.reward,
  sub_rewards: drawn.subRewards,
  advantage: learned && drawn.reward !== null ? drawn.advantage : null,
  tokens: writtenTokens(drawn),
  truncated: drawn.truncated,
  error: drawn.error,
});
