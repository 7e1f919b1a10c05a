/**
 * Two processes that train together against one: the same losses and weights. Both processes use the same device, so
 * one card is enough. The second process is this part again, with VERK_RANKS_FOLDER in its environment.
 */
import { closeSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LoraSettings } from "../../src/lib/training/lora.ts";
import type { TrainPlan } from "../../src/workers/protocol_trainer.ts";
import { joinSharedMemory, newSharedMemory } from "../../src/workers/trainer/ranks/shared_memory.ts";
import type { Ranks } from "../../src/workers/trainer/ranks/types.ts";
import { planOf, runTraining } from "../../test/trainer_kit.ts";
import { smallModel } from "./learning.ts";
import type { Part, Setup } from "./setup.ts";

const COUNT = 2;
const SHARED_FD = 3;
const APART = 0.01;
const CASES: readonly { what: string; lora: Partial<LoraSettings> | null }[] = [
  { what: "an adapter on BF16", lora: { r: 16, alpha: 32, dropout: 0 } },
  { what: "all weights in BF16", lora: null },
];
const ROWS = Array.from({ length: 64 }, (_, i) => ({
  prompt: `count from ${i}: `,
  completion: Array.from({ length: 40 }, (_, n) => i + n).join(" "),
}));

async function run({ dir, machine }: Pick<Setup, "dir" | "machine">, plan: TrainPlan, ranks: Ranks | null) {
  const checkpoints = join(dir, `ranks-${ranks?.index ?? "alone"}-${plan.lora ? "lora" : "all"}`);
  const done = await runTraining({ plan, dir, checkpoints, machine, ...(ranks ? { ranks } : {}) });
  if (done.error) throw done.error;
  const losses = done.steps.map(({ values }) => values["loss"] ?? Number.NaN);
  const seconds = done.steps.slice(2).reduce((sum, { values }) => sum + (values["step_time"] ?? 0), 0);
  const last = done.checkpoints.at(-1);
  const weights = last ? readFileSync(join(last.path, "weights.safetensors")).toString("base64") : "";
  return { losses, seconds, weights };
}

const seat = (index: number, fd: number) => joinSharedMemory({ index, count: COUNT, fd, onTurn() {} });

async function together(setup: Setup, plan: TrainPlan) {
  writeFileSync(join(setup.dir, "ranks.json"), JSON.stringify(plan));
  const fd = newSharedMemory(COUNT);
  const flags = setup.machine.gpus.length > 0 ? [] : ["--cpu"];
  const second = Bun.spawn([process.execPath, Bun.main, "--perform", "ranks", "--into", "/dev/null", ...flags], {
    stdio: ["ignore", "ignore", "inherit", fd],
    env: { ...process.env, VERK_RANKS_FOLDER: setup.dir },
  });
  const ranks = seat(0, fd);
  closeSync(fd);
  const lost = second.exited.then((code) => {
    if (code !== 0) throw new Error(`the second process ended with ${code}`);
    return undefined;
  });
  const [done] = await Promise.all([run(setup, plan, ranks), lost]);
  return done;
}

export const ranks: Part = async function* (setup) {
  const folder = process.env["VERK_RANKS_FOLDER"];
  if (folder !== undefined) {
    const plan = JSON.parse(readFileSync(join(folder, "ranks.json"), "utf8")) as TrainPlan;
    await run({ ...setup, dir: folder }, plan, seat(1, SHARED_FD));
    return;
  }
  for (const { what, lora } of CASES) {
    const model = await smallModel(setup, "llama", "BF16");
    const onGpu = setup.machine.gpus.length > 0;
    const steps = onGpu ? 10 : 3;
    const given = { learning_rate: 0.002, max_steps: steps, per_device_train_batch_size: onGpu ? 64 : 4 };
    const plan = await planOf({ dir: setup.dir, model, method: "sft", rows: ROWS, given, lora, context: 256 });
    plan.micro_divisor = 4; // micro-batches of 2,048 tokens, on a CPU 256
    const alone = await run(setup, plan, null);
    const both = await together(setup, plan);
    const apart = Math.max(...alone.losses.map((loss, i) => Math.abs(both.losses[i]! - loss) / loss));
    const isSame = apart === 0 && alone.weights === both.weights;
    const times = `${alone.seconds.toFixed(2)} s alone, ${both.seconds.toFixed(2)} s together`;
    yield {
      what: `two processes: ${what}`,
      value: `${isSame ? "the same bits" : `losses at most ${(100 * apart).toFixed(3)} % apart`}; ${steps - 2} steps: ${times}`,
      target: `≤ ${100 * APART} % apart`,
      ok: apart <= APART,
    };
  }
};
