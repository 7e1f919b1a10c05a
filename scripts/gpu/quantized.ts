/** Memory and speed of trainings that save memory, on models of real shapes, as a job trains them. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { open } from "../../bench/training/gradients.ts";
import { SHAPES, type ShapeOf, writeModel } from "../../bench/training/model.ts";
import { openRandom } from "../../src/lib/random.ts";
import { type Device, getFloats, putBytes } from "../../src/native/ggml/ggml.ts";
import { isLarge } from "../../src/workers/trainer/engine/adam8/moments.ts";
import { openOptimizer } from "../../src/workers/trainer/engine/optimizer.ts";
import { openTrainee } from "../../src/workers/trainer/trainee/trainee.ts";
import type { Piece, TraineeOptions } from "../../src/workers/trainer/trainee/types.ts";
import { LORA, STEP } from "../../test/ml/trainee/kit.ts";
import { type Part, type Setup, SMALL } from "./setup.ts";

type Case = {
  what: string;
  shape: ShapeOf;
  rows: number;
  /** Admission chooses 4 for a device with little memory. */
  microDivisor: number;
  mostMib: number;
  /** Layers are never computed again in the backward pass. */
  keeps?: true;
  /** Moments of 8 bits, and no adapter. */
  full?: true;
  /** The file is in BF16, and its layers become NF4. */
  in4Bit?: true;
};

const SMALLER = { microDivisor: 4, mostMib: 24_576 };
const TOKENS = 1024;
const TIMES = 4;
const EIGHT: ShapeOf = { ...SHAPES["8B"], tied: false, type: "Q4_K_M" };
const CASES: readonly Case[] = [
  { what: "8B in Q4_K_M, 1 × 1024", shape: EIGHT, rows: 1, microDivisor: 4, mostMib: 12_288 },
  { what: "8B in Q4_K_M, 8 × 1024", shape: EIGHT, rows: 8, microDivisor: 4, mostMib: 12_288 },
  {
    what: "8B in Q4_K_M, 4 × 1024, no layer computed again",
    shape: EIGHT,
    rows: 4,
    microDivisor: 1,
    mostMib: 32_768,
    keeps: true,
  },
  {
    what: "8B in Q8_0, 1 × 1024",
    shape: { ...EIGHT, type: "Q8_0" },
    rows: 1,
    microDivisor: 4,
    mostMib: 16_384,
  },
  {
    what: "32B in Q4_K_M, 4 × 1024",
    shape: { ...SHAPES["32B"], type: "Q4_K_M" },
    rows: 4,
    microDivisor: 4,
    mostMib: 49_152,
  },
  {
    what: "8B in BF16 as NF4, 1 × 1024",
    shape: { ...EIGHT, type: "BF16" },
    rows: 1,
    microDivisor: 4,
    mostMib: 12_288,
    in4Bit: true,
  },
  { what: "all weights of 1B, adamw_8bit, 8 × 1024", shape: SHAPES["1B"], rows: 8, ...SMALLER, full: true },
];

export const quantized: Part = async function* (setup) {
  yield eightBitSteps(setup);
  const path = join(setup.dir, "quantized.gguf");
  let written: ShapeOf | undefined;
  for (const { what, shape, rows, microDivisor, mostMib, keeps, full, in4Bit = false } of CASES) {
    if (written !== shape) {
      rmSync(path, { force: true });
      writeModel(path, shape);
      written = shape;
    }
    const how = full ? { lora: null, optim: "adamw_8bit" as const } : { lora: { ...LORA, r: 16, alpha: 32 } };
    const { mib, tokensPerSecond } = await trained(setup, path, rows, {
      ...how,
      microDivisor,
      in4Bit,
      checkpointing: !keeps,
    });
    const value = `${mib} MiB in use, ${tokensPerSecond} tokens/s`;
    yield { what, value, target: `≤ ${mostMib} MiB`, ok: mib <= mostMib };
  }
};

/** Steps of AdamW with 8-bit moments: the device and the CPU give the same bits for the same gradients. */
function eightBitSteps({ dir, device, cpu }: Setup) {
  const path = join(dir, "small.gguf");
  writeModel(path, SMALL);
  const stepped = (on: Device) => {
    const { weights, backend } = open(path, on, null);
    const optimizer = openOptimizer(weights, { optim: "adamw_8bit" });
    for (let step = 0; step < 3; step++) {
      for (const [i, { gradient, shape }] of weights.trainable.entries()) {
        const random = openRandom(step, i);
        const count = shape.reduce((a, b) => a * b, 1);
        putBytes(
          backend.ggml,
          gradient,
          Float32Array.from({ length: count }, () => (random() - 0.5) * random() ** 4),
        );
      }
      optimizer.step({ ...STEP, maxNorm: 0, weightDecay: 0.1 });
    }
    const found = weights.trainable.filter(isLarge).map(({ tensor }) => getFloats(backend.ggml, tensor));
    optimizer.free();
    weights.free();
    backend.close();
    return found;
  };
  const [expected, found] = [stepped(cpu), stepped(device)];
  const equal = found.filter((values, i) => Buffer.from(values.buffer).equals(Buffer.from(expected[i]!.buffer))).length;
  const value = `${equal} of ${found.length} matrices`;
  return { what: "adamw_8bit against the CPU", value, target: "the same bits", ok: equal === found.length };
}

/** Medians of some steps. Memory is that of the whole card after the last one: nothing is freed before. */
async function trained(
  { dir, device }: Setup,
  modelPath: string,
  rows: number,
  over: Pick<TraineeOptions, "lora" | "microDivisor"> & Partial<TraineeOptions>,
) {
  const trainee = await openTrainee({
    dataDir: dir,
    modelPath,
    device,
    seed: 1,
    maxLength: TOKENS,
    checkpointing: true,
    temperature: 1,
    ...over,
  });
  const random = openRandom(7);
  const { vocab } = trainee.architecture;
  const units = Array.from({ length: rows }, (): Piece[] => [
    { tokens: Int32Array.from({ length: TOKENS }, () => Math.floor(random() * vocab)), from: 1 },
  ]);
  const times: number[] = [];
  for (let i = 0; i <= TIMES; i++) {
    const begun = performance.now();
    await trainee.learn(units, (_unit, scores) => scores.map(({ logps }) => logps.map(() => 1 / (rows * TOKENS))), {
      dropoutSeed: i,
    });
    const norm = trainee.step({ ...STEP, learningRate: 1e-5 });
    if (!Number.isFinite(norm)) throw new Error("The gradient is not finite");
    times.push(performance.now() - begun);
  }
  const mib = usedMib();
  trainee.close();
  const ms = times.slice(1).sort((a, b) => a - b)[TIMES >> 1] as number; // the first builds the graph
  return { mib, tokensPerSecond: Math.round((rows * TOKENS * 1000) / ms) };
}

const usedMib = () =>
  Number(Bun.spawnSync(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]).stdout.toString());
