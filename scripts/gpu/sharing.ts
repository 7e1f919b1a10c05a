/** Answers that share their question are scored and learned from as each by itself. */
import { openRandom } from "../../src/lib/random.ts";
import type { Trainee } from "../../src/workers/trainer/trainee/trainee.ts";
import type { Piece, Scores } from "../../src/workers/trainer/trainee/types.ts";
import { alone, LORA, STEP } from "../../test/ml/trainee/kit.ts";
import { smallModel } from "./learning.ts";
import { opened, teach } from "./rolling.ts";
import type { Part } from "./setup.ts";

const VOCAB = 250;
const NEAR = 0.02; // nats, in the mean
const SAME = 0.02; // of the norm of a gradient

/** Questions of any length, and answers of up to so many tokens to each. */
function groupsOf(sizes: readonly { questionTokens: number; answers: number; most: number }[]): Piece[] {
  const random = openRandom(7);
  const tokens = (length: number) => Array.from({ length }, () => Math.floor(random() * VOCAB));
  return sizes.flatMap(({ questionTokens, answers, most }) => {
    const question = tokens(questionTokens);
    return Array.from({ length: answers }, () => ({
      tokens: Int32Array.from([...question, ...tokens(1 + Math.floor(random() * most))]),
      from: questionTokens,
    }));
  });
}

const GROUPS = groupsOf([
  { questionTokens: 30, answers: 8, most: 30 },
  { questionTokens: 60, answers: 16, most: 4 },
  { questionTokens: 12, answers: 5, most: 50 },
  { questionTokens: 40, answers: 1, most: 20 },
]);

const weigh = (first: number) => (unit: number, scores: readonly Scores[]) =>
  scores.map(({ logps }) => logps.map((_, t) => 0.01 * Math.sin(1 + 7 * (first + unit) + t)));

/** Mean difference of what is said of the tokens. */
async function apart(trainee: Trainee): Promise<number> {
  const together = await trainee.score(GROUPS);
  let [sum, count] = [0, 0];
  for (const [i, piece] of GROUPS.entries()) {
    const [single] = await trainee.score([piece]);
    single!.logps.forEach((value, t) => {
      sum += Math.abs(value - together[i]!.logps[t]!);
      count++;
    });
  }
  return sum / count;
}

async function norms(trainee: Trainee) {
  const still = { ...STEP, learningRate: 0 };
  await trainee.learn(alone(GROUPS), weigh(0), { dropoutSeed: 1 });
  const together = trainee.step(still);
  for (const [i, piece] of GROUPS.entries()) await trainee.learn([[piece]], weigh(i), { dropoutSeed: 1 });
  return { together, single: trainee.step(still) };
}

export const sharing: Part = async function* (setup) {
  for (const arch of ["llama", "qwen2", "qwen3"] as const) {
    const trainee = await opened(setup, await smallModel(setup, arch, "BF16"), LORA);
    await teach(trainee, 3, 0.01);
    const mean = await apart(trainee);
    const what = `${arch}: answers that share their question, against each by itself`;
    yield { what, value: `${mean.toExponential(1)} nats apart`, target: `≤ ${NEAR}`, ok: mean <= NEAR };
    const { together, single } = await norms(trainee);
    const value = `norms ${together.toFixed(5)} and ${single.toFixed(5)}`;
    const ok = Math.abs(together / single - 1) <= SAME;
    yield { what: `${arch}: gradients of them`, value, target: `≤ ${100 * SAME} % apart`, ok };
    trainee.close();
  }
};
