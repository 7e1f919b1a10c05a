/** An exact sampler and an exact trainer: their log-probabilities are the same to the last bit, before and after steps. */
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { Roller } from "../../src/workers/trainer/rollouts/types.ts";
import { openTrainee, type Trainee } from "../../src/workers/trainer/trainee/trainee.ts";
import type { Piece } from "../../src/workers/trainer/trainee/types.ts";
import { LORA, STEP } from "../../test/ml/trainee/kit.ts";
import { smallModel } from "./learning.ts";
import { teach } from "./rolling.ts";
import type { FileType, Part, Setup } from "./setup.ts";

const LENGTH = 256;
const GROUP = 4;
const PROMPTS = [1, 9, 40, 64, 65, 100, 127, 130]; // tokens: shorter and longer than tiles of 64 keys
const ANSWER = 100;

type Case = { arch: "llama" | "qwen2" | "qwen3"; type: FileType; temperature: number };
const CASES: readonly Case[] = [
  { arch: "llama", type: "BF16", temperature: 1 },
  { arch: "qwen2", type: "BF16", temperature: 1 },
  { arch: "qwen3", type: "BF16", temperature: 1 },
  { arch: "qwen2", type: "F16", temperature: 0.7 },
];

type Drawn = { piece: Piece; said: Float32Array };

async function draw(roller: Roller, temperature: number, seed: number): Promise<Drawn[]> {
  const requests = PROMPTS.map((length, p) => ({
    prompt: Int32Array.from({ length }, (_, i) => 40 + ((p * 31 + i * (17 + p)) % 150)),
    samples: GROUP,
    seed: seed + p,
  }));
  const rolled = await roller.roll(requests, { temperature, topP: 1, topK: 0, minP: 0, maxTokens: ANSWER });
  return rolled.flatMap((group, g) =>
    group.map(({ tokens, logps }) => {
      const { prompt } = requests[g]!;
      const piece = { tokens: Int32Array.from([...prompt, ...tokens]), from: prompt.length };
      return { piece, said: logps ?? new Float32Array(tokens.length).fill(Number.NaN) };
    }),
  );
}

/** How many tokens differ, how far, and the first place of an answer where one does. */
function compared(drawn: readonly Drawn[], logps: readonly ArrayLike<number>[]) {
  let [tokens, differ, sum, max, first] = [0, 0, 0, 0, Number.POSITIVE_INFINITY];
  drawn.forEach(({ said }, i) => {
    said.forEach((logp, t) => {
      const apart = Math.abs(logp - logps[i]![t]!);
      tokens++;
      if (apart === 0) return;
      differ++;
      first = Math.min(first, t);
      sum += apart;
      max = Math.max(max, apart);
    });
  });
  const value =
    differ === 0
      ? `none of ${tokens} differs`
      : `${differ} of ${tokens} differ, ${(sum / tokens).toExponential(2)} in the mean, ${max.toExponential(2)} at most, first at ${first}`;
  return { value, target: "none", ok: differ === 0 };
}

async function learned(trainee: Trainee, drawn: readonly Drawn[]): Promise<Float32Array[]> {
  const found: Float32Array[] = [];
  await trainee.learn(
    drawn.map(({ piece }) => [piece]),
    (unit, scores) => {
      found[unit] = scores[0]!.logps.slice();
      return scores.map(({ logps }) => logps.map(() => 1e-3));
    },
    { dropoutSeed: 1 },
  );
  return found;
}

const scored = async (trainee: Trainee, drawn: readonly Drawn[]) =>
  (await trainee.score(drawn.map(({ piece }) => piece))).map(({ logps }) => logps);

async function* one(setup: Setup, { arch, type, temperature }: Case): ReturnType<Part> {
  const modelPath = await smallModel(setup, arch, type);
  const trainee = await openTrainee({
    dataDir: setup.dir,
    modelPath,
    device: setup.device,
    lora: LORA,
    seed: 1,
    maxLength: LENGTH,
    checkpointing: false,
    temperature,
    microDivisor: 1,
    exact: true,
  });
  const what = `${arch} ${type} at temperature ${temperature}`;
  const size = { contextLength: LENGTH, parallel: PROMPTS.length * GROUP };
  const roller = await openRoller({
    dataDir: setup.dir,
    modelPath,
    ...size,
    frozen: trainee.frozen,
    exact: true,
    ...setup.machine,
  });
  await teach(trainee, 5, 0.01);
  const merged = await roller.merge((at) => trainee.merge(at));
  yield { what: `${what}, merged`, value: String(merged), target: "true", ok: merged };
  const drawn = await draw(roller, temperature, 1);
  yield { what: `${what}, scores`, ...compared(drawn, await scored(trainee, drawn)) };
  yield { what: `${what}, while it learns`, ...compared(drawn, await learned(trainee, drawn)) };
  trainee.step(STEP);
  const changed = compared(drawn, await scored(trainee, drawn)); // merges again
  yield { what: `${what}, the old samples after a step`, ...changed, target: "some", ok: !changed.ok };
  const again = await draw(roller, temperature, 2);
  yield { what: `${what}, new samples after a step`, ...compared(again, await scored(trainee, again)) };
  await roller.close();
  trainee.close();
}

export const sameBits: Part = async function* (setup) {
  if (setup.machine.gpus.length === 0) return;
  for (const each of CASES) yield* one(setup, each);
};
