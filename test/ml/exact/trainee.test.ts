// tier: all (trains models)
/** An exact trainee computes with the sampler's weights: scores and learning have the sampler's bits, also after a step. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { openRoller } from "../../../src/workers/trainer/rollouts/roller.ts";
import { openTrainee } from "../../../src/workers/trainer/trainee/trainee.ts";
import { tempDir } from "../../harness.ts";
import { makeModel } from "../../models.ts";
import { canEmulate, openEmulation } from "../../native/emulation/device.ts";
import { openEmulatedKernels } from "../engine/emulated_kernels.ts";
import { LORA, STEP } from "../trainee/kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const MODEL = {
  type: "BF16",
  layers: 1,
  width: 64,
  heads: 1,
  kvHeads: 1,
  headLength: 64,
  ff: 64,
  sharpness: 1,
} as const;
const LENGTH = 128;
const SAMPLING = { temperature: 1, topP: 1, topK: 0, minP: 0, maxTokens: 8 };
const REQUESTS = [1, 5, 66].map((length, seed) => ({
  prompt: Int32Array.from({ length }, (_, i) => 40 + ((seed * 31 + i * 17) % 50)),
  samples: 2,
  seed,
}));

describe.skipIf(!canEmulate)("an exact trainee", () => {
  const path = makeModel(dir, { arch: "qwen2", context: LENGTH, ...MODEL });
  const opened = (lora = LORA) =>
    openTrainee({
      dataDir: dir,
      modelPath: path,
      device: { kind: "cpu", threads: 1 },
      lora,
      seed: 1,
      maxLength: LENGTH,
      checkpointing: false,
      temperature: 1,
      microDivisor: 1,
      exact: true,
      kernels: openEmulatedKernels(),
    });

  test("has the sampler's bits, and merges again after a step", async () => {
    const trainee = await opened();
    const size = { contextLength: LENGTH, parallel: 6, threads: 1, gpus: [], device: openEmulation() };
    const roller = await openRoller({ dataDir: dir, modelPath: path, ...size, frozen: trainee.frozen, exact: true });
    const draw = async () =>
      (await roller.roll(REQUESTS, SAMPLING)).flatMap((group, g) =>
        group.map(({ tokens, logps }) => {
          const { prompt } = REQUESTS[g]!;
          return { piece: { tokens: Int32Array.from([...prompt, ...tokens]), from: prompt.length }, said: logps! };
        }),
      );
    type Drawn = Awaited<ReturnType<typeof draw>>;
    const scored = async (drawn: Drawn) =>
      (await trainee.score(drawn.map(({ piece }) => piece))).map(({ logps }) => [...logps]);
    const learned = async (drawn: Drawn) => {
      const found: number[][] = [];
      await trainee.learn(
        drawn.map(({ piece }) => [piece]),
        (unit, scores) => {
          found[unit] = [...scores[0]!.logps];
          return scores.map(({ logps }) => logps.map(() => 1));
        },
        { dropoutSeed: 1 },
      );
      return found;
    };
    const said = (drawn: Drawn) => drawn.map(({ said }) => [...said]);

    await learned(await draw()); // nothing is merged yet: a usual pass
    trainee.step(STEP);
    expect(await roller.merge((at) => trainee.merge(at))).toBe(true);
    const drawn = await draw();
    expect(await scored(drawn)).toEqual(said(drawn));
    expect(await learned(drawn)).toEqual(said(drawn));
    expect(trainee.step(STEP)).toBeGreaterThan(0);
    expect(await scored(drawn)).not.toEqual(said(drawn));
    const again = await draw(); // by the weights that the trainee has merged for its scores
    expect(await scored(again)).toEqual(said(again));
    await roller.close();
    trainee.close();
  }, 120_000);

  test("needs an adapter without dropout", async () => {
    const trainee = await opened({ ...LORA, dropout: 0.1 });
    expect(trainee.isExact).toBe(false);
    trainee.close();
  });
});
