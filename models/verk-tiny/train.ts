/**
 * Trains verk-tiny from scratch with Verk's own trainer, all weights: minutes on a GPU; a CPU is far too slow.
 *
 *   bun models/verk-tiny/train.ts --out OUT --device cuda --seconds 240
 *
 * OUT/verk-tiny.gguf is the model in F16, OUT/report.json what was done. Documents come from rows.py, in as many
 * processes as there are --makers; with the same number of them and of steps, the same rows in the same order.
 */
import { mkdirSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { learningRate } from "../../src/lib/training/schedule.ts";
import { openBackend } from "../../src/native/ggml/ggml.ts";
import { writeMergedGguf } from "../../src/workers/trainer/results/merged_gguf.ts";
import { openTrainee, type Trainee } from "../../src/workers/trainer/trainee/trainee.ts";
import type { Piece } from "../../src/workers/trainer/trainee/types.ts";
import { type Batch, openBatches } from "./batches.ts";
import { writeInitial } from "./initial.ts";

const QUESTION_WEIGHT = 0.1; // they are random by nature: reading them teaches a little English, no more
const ADAM = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, maxNorm: 1, divisor: 1 } as const;
const WARMUP = 0.02;

const { values: given } = parseArgs({
  options: {
    out: { type: "string", default: "out" },
    device: { type: "string", default: "cpu" },
    steps: { type: "string", default: "1000000" },
    seconds: { type: "string", default: "1000000" },
    rows: { type: "string", default: "128" },
    length: { type: "string", default: "512" },
    rate: { type: "string", default: "3e-3" },
    seed: { type: "string", default: "7" },
    makers: { type: "string", default: String(Math.max(1, cpus().length - 4)) },
    threads: { type: "string", default: "2" },
    /** Below 1 the micro-batches are larger than the trainer's own: the model is small. */
    divisor: { type: "string", default: "1" },
    from: { type: "string" },
  },
});
const number = (name: Exclude<keyof typeof given, "out" | "device" | "from">) => Number(given[name]);
const [steps, seconds, rows, length, seed] = [
  number("steps"),
  number("seconds"),
  number("rows"),
  number("length"),
  number("seed"),
];

/** Gradients of one batch, and its loss. */
async function learnFrom(trainee: Trainee, batch: Batch, step: number): Promise<number> {
  const units: Piece[][] = Array.from({ length: rows }, (_, row) => [{ tokens: batch.ids(row), from: 1 }]);
  const weights = Array.from({ length: rows }, (_, row) => batch.weights(row, QUESTION_WEIGHT));
  const total = weights.reduce((sum, each) => sum + each.reduce((a, b) => a + b, 0), 0);
  let loss = 0;
  const weigh = (unit: number, [scores]: Parameters<Parameters<Trainee["learn"]>[1]>[1]) => {
    const own = (weights[unit] ?? new Float32Array()).map((weight) => weight / total);
    own.forEach((weight, i) => {
      loss -= weight * (scores?.logps[i] ?? 0);
    });
    return [own];
  };
  await trainee.learn(units, weigh, { dropoutSeed: step });
  return loss;
}

const shape = {};
const rateAt = (progress: number) =>
  learningRate(
    { type: "cosine", learningRate: number("rate"), warmupSteps: WARMUP * 1e6, totalSteps: 1e6, shape },
    progress * 1e6,
  );

mkdirSync(given.out, { recursive: true });
const base = given.from ?? join(given.out, "initial.gguf");
if (given.from === undefined) await writeInitial(base, seed);
const batches = openBatches({ makers: number("makers"), seed, rows, length: length + 1 });
const trainee = await openTrainee({
  dataDir: "",
  modelPath: base,
  device: given.device === "cuda" ? { kind: "cuda", index: 0 } : { kind: "cpu", threads: number("threads") },
  lora: null,
  seed,
  maxLength: length,
  checkpointing: false,
  temperature: 1,
  microDivisor: number("divisor"),
});
const log: { step: number; loss: number; seconds: number }[] = [];
let [step, waitedMs, startedAt] = [0, 0, 0];
for (let progress = 0; progress < 1; ) {
  const askedAt = performance.now();
  const batch = await batches.next();
  waitedMs += step > 0 ? performance.now() - askedAt : 0;
  const loss = await learnFrom(trainee, batch, step);
  const norm = trainee.step({ ...ADAM, learningRate: rateAt(progress) });
  step++;
  startedAt ||= performance.now(); // the first step makes the graph: the clock begins behind it
  const elapsed = (performance.now() - startedAt) / 1000;
  if (step % 50 === 0 || step < 4) {
    log.push({ step, loss: Number(loss.toFixed(4)), seconds: Math.round(elapsed) });
    const perSecond = Math.round(((step - 1) * rows * length) / Math.max(0.001, elapsed));
    console.log(`step ${step}  loss ${loss.toFixed(4)}  norm ${norm.toFixed(2)}  ${perSecond} tokens/s`);
  }
  progress = Math.max(step / steps, elapsed / seconds);
}
batches.close();
const cpu = openBackend("", { kind: "cpu", threads: 1 });
const path = join(given.out, "verk-tiny.gguf");
await writeMergedGguf(cpu, { base, path, type: "F16", learned: { weights: trainee.rows() } });
const report = { options: given, steps: step, tokens: step * rows * length, waited_ms: Math.round(waitedMs), log };
await Bun.write(join(given.out, "report.json"), JSON.stringify(report, null, 1));
console.log(`${path}: ${Bun.file(path).size} bytes, ${step} steps, waited ${Math.round(waitedMs)} ms for rows`);
trainee.close();
cpu.close();
process.exit(0);
