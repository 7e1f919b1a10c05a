/** Duration of a training step with answers that share their question, and with as many that do not. */
import { openRandom } from "../../src/lib/random.ts";
import type { Device } from "../../src/native/ggml/ggml.ts";
import { openTrainee } from "../../src/workers/trainer/trainee/trainee.ts";
import type { Piece } from "../../src/workers/trainer/trainee/types.ts";
import { LORA, STEP } from "../../test/ml/trainee/kit.ts";
import { median } from "../tools.ts";

export type Size = { prompts: number; group: number; tokens: number; vocab: number };
export type Learned = { shared: number; apart: number; bytes: number };

const TIMES = 3;

/** `shared`: answers of a group have one question; else each has its own, of the same length. */
export function piecesOf({ prompts, group, tokens, vocab }: Size, shared: boolean): Piece[] {
  const random = openRandom(shared ? 1 : 2);
  const some = () => Array.from({ length: tokens }, () => Math.floor(random() * vocab));
  return Array.from({ length: prompts }, some).flatMap((question) =>
    Array.from({ length: group }, () => ({
      tokens: Int32Array.from([...(shared ? question : some()), ...some()]),
      from: tokens,
    })),
  );
}

/** Seconds, medians. An adapter of rank 16 on all seven matrices, as the step has it. */
export async function learnSeconds(dir: string, modelPath: string, device: Device, size: Size): Promise<Learned> {
  const trainee = await openTrainee({
    dataDir: dir,
    modelPath,
    device,
    lora: { ...LORA, r: 16, alpha: 32 },
    seed: 1,
    maxLength: 2 * size.tokens,
    checkpointing: false,
    temperature: 1,
    microDivisor: 1,
  });
  const seconds = async (shared: boolean) => {
    const units = piecesOf(size, shared).map((piece) => [piece]);
    const times: number[] = [];
    for (let i = 0; i <= TIMES; i++) {
      const begun = performance.now();
      await trainee.learn(units, (_unit, scores) => scores.map(({ logps }) => logps.map(() => 1e-4)), {
        dropoutSeed: i,
      });
      times.push((performance.now() - begun) / 1000);
      trainee.step({ ...STEP, learningRate: 1e-5 });
    }
    return median(times.slice(1)); // the first builds its graphs
  };
  const found = { shared: await seconds(true), apart: await seconds(false), bytes: trainee.memoryBytes };
  trainee.close();
  return found;
}
