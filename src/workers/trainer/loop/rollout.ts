/** Samples completions for prompts and scores them. */

import { seedOf } from "../../../lib/random.ts";
import { cleaned } from "../../../lib/training/loss/advantages.ts";
import type { TrainSample } from "../../protocol_trainer.ts";
import type { Examples, Prompt } from "../data/examples.ts";
import type { Roller, RolloutSampling } from "../rollouts/types.ts";
import { Trouble } from "../trouble.ts";
import { judgeRewards } from "./guards.ts";
import type { RolledValues, ScoreAnswer, World } from "./types.ts";

/** One completion. Arrays of log-probabilities have one element per completion token. */
export type Drawn = {
  /** Index of the prompt. */
  prompt: number;
  /** Tokens of the prompt and the completion. */
  tokens: Int32Array;
  from: number;
  text: string;
  truncated: boolean;
  reward: number | null;
  subRewards: Record<string, number | null>;
  error: string | null;
  advantage: number;
  sampler: Float32Array | null;
  old: Float32Array | null;
  reference: Float32Array | null;
  teacher: Float32Array | null;
};

export type Kit = {
  world: Pick<World, "score" | "send" | "signal" | "now">;
  roller: Roller;
  values: RolledValues;
  seed: number;
};

/** `seconds`: to write the completions. `scoreSeconds`: to score them. */
export type Rolled = { groups: Drawn[][]; latencies: number[]; seconds: number; scoreSeconds: number; tokens: number };
export type Draw = {
  prompts: Examples<Prompt>;
  indices: readonly number[];
  samples: number;
  /** Numbers that select the draw, in addition to the job's seed and the prompt's index. */
  salt: readonly number[];
  step: number;
};

export async function rollGroups(kit: Kit, { prompts, indices, samples, salt, step }: Draw): Promise<Rolled> {
  const { world, roller, seed, values } = kit;
  const chosen = indices.map((index) => prompts.get(index));
  const requests = chosen.map(({ tokens }, i) => ({ prompt: tokens, samples, seed: seedOf(seed, ...salt, i) }));
  const begun = world.now();
  const rolled = await roller.roll(requests, samplingOf(values), world.signal);
  const seconds = (world.now() - begun) / 1000;
  world.signal.throwIfAborted();
  const groups = rolled.map((group, g) =>
    group.map(({ tokens, logps, text, truncated }): Drawn => {
      const prompt = chosen[g]!.tokens;
      const whole = new Int32Array(prompt.length + tokens.length);
      whole.set(prompt);
      whole.set(tokens, prompt.length);
      const unscored = { reward: null, subRewards: {}, error: null, advantage: 0 };
      const unread = { old: null, reference: null, teacher: null };
      return {
        prompt: indices[g]!,
        tokens: whole,
        from: prompt.length,
        text,
        truncated,
        sampler: logps,
        ...unscored,
        ...unread,
      };
    }),
  );
  const flat = groups.flat();
  const tokens = flat.reduce((sum, each) => sum + each.tokens.length - each.from, 0);
  if (world.score === null) return { groups, latencies: [], seconds, scoreSeconds: 0, tokens };
  const written = world.now();
  const answer = await world.score(
    step,
    flat.map(({ text }, i) => {
      const { prompt, row } = chosen[Math.floor(i / samples)]!;
      return { prompt, completion: text, row };
    }),
  );
  const scoreSeconds = (world.now() - written) / 1000;
  take(kit, flat, answer, (i) => chosen[Math.floor(i / samples)]!.prompt);
  return { groups, latencies: answer.latencies_ms, seconds, scoreSeconds, tokens };
}

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
  answer.results.forEach(({ reward, sub_rewards, error }, i) => {
    const each = drawn[i]!;
    each.reward = cleaned(reward);
    each.subRewards = sub_rewards;
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
  tokens: drawn.tokens.length - drawn.from,
  truncated: drawn.truncated,
  error: drawn.error,
});
