/** A tiny model that learns, on the CPU. */

import { openRandom } from "../../../src/lib/random.ts";
import type { LoraSettings } from "../../../src/lib/training/lora.ts";
import type { Step } from "../../../src/workers/trainer/engine/optimizer.ts";
import { openTrainee, type Trainee } from "../../../src/workers/trainer/trainee/trainee.ts";
import type { Piece, Scores, TraineeOptions } from "../../../src/workers/trainer/trainee/types.ts";
import { type ModelOptions, makeModel } from "../../models.ts";
import { SMALL } from "../engine/kit.ts";

export const LORA: LoraSettings = {
  r: 4,
  alpha: 8,
  dropout: 0,
  target_modules: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
  use_rslora: false,
};
export const STEP: Step = {
  learningRate: 1e-2,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0,
  maxNorm: 1,
  divisor: 1,
};

export type Over = Partial<TraineeOptions> & { model?: Partial<ModelOptions> };

export const opened = (dir: string, { model, ...over }: Over = {}): Promise<Trainee> =>
  openTrainee({
    dataDir: dir,
    modelPath: makeModel(dir, { arch: "llama", type: "F32", ...SMALL, ...model }),
    device: { kind: "cpu", threads: 1 },
    lora: LORA,
    seed: 1,
    maxLength: 64,
    checkpointing: false,
    temperature: 1,
    microDivisor: 1,
    ...over,
  });

/** Pieces of many lengths, always the same for a seed. */
export function somePieces(count: number, seed = 1, vocab = 250): Piece[] {
  const random = openRandom(seed);
  return Array.from({ length: count }, () => {
    const length = 2 + Math.floor(random() * 30);
    const tokens = Int32Array.from({ length }, () => Math.floor(random() * vocab));
    return { tokens, from: 1 + Math.floor(random() * (length - 1)) };
  });
}

export const alone = (pieces: readonly Piece[]): Piece[][] => pieces.map((piece) => [piece]);

/** Plain log-likelihood, the mean over all tokens. */
export function likelihood(pieces: readonly Piece[]) {
  const count = pieces.reduce((sum, { tokens, from }) => sum + tokens.length - from, 0);
  return (_unit: number, scores: readonly Scores[]) => scores.map(({ logps }) => logps.map(() => 1 / count));
}

export const meanOf = (scores: readonly Scores[]): number => {
  const all = scores.flatMap(({ logps }) => [...logps]);
  return all.reduce((sum, each) => sum + each, 0) / all.length;
};
