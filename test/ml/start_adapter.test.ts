import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Opened, openTraining } from "../../src/workers/trainer/open.ts";
import type { Piece } from "../../src/workers/trainer/trainee/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { planOf, runTraining, scoring } from "../trainer_kit.ts";

const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128 });
const LORA = { r: 4, alpha: 8 };
const common = { dir, model, context: 128 };
const PAIRS = ["a", "b", "c", "d"].map((prompt) => ({ prompt, chosen: "yes", rejected: "no!" }));
const DPO = { learning_rate: 0.02, max_steps: 3, per_device_train_batch_size: 4 };
let adapter = "";
let adapterDir = "";

beforeAll(async () => {
  const given = { learning_rate: 0.02, max_steps: 8, per_device_train_batch_size: 4 };
  const rows = ["a", "b", "c", "d"].map((prompt) => ({ prompt, completion: `yes ${prompt}` }));
  const plan = await planOf({ ...common, method: "sft", rows, given, lora: LORA });
  const { checkpoints } = await runTraining({ plan, dir, checkpoints: join(dir, "sft") });
  adapterDir = checkpoints.at(-1)!.path;
  adapter = join(adapterDir, "adapter.gguf");
}, 60_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const dpoPlan = async (lora: object, start: boolean) => ({
  ...(await planOf({ ...common, method: "dpo", rows: PAIRS, given: DPO, lora })),
  ...(start ? { start_adapter: adapter } : {}),
});
const openPlan = (plan: Awaited<ReturnType<typeof dpoPlan>>): Promise<Opened> =>
  openTraining({
    machine: { data_dir: dir, threads: 1, gpus: [] },
    plan,
    samplesPerStep: 0,
    fresh: true,
    onLoading() {},
    onTurn() {},
  });
const pieceOf = ({ recipe }: Opened): Piece => {
  if (recipe.kind !== "rows") throw new Error("dpo has rows");
  return recipe.units(0)[0]![0]!; // chosen
};
const logps = async (scores: Promise<readonly { logps: Float32Array }[]>) => [...(await scores)[0]!.logps];

test("the reference of a training that starts from an adapter is that adapter, before and after a step", async () => {
  const bare = await openPlan(await dpoPlan(LORA, false));
  const base = await logps(bare.reference!([pieceOf(bare)]));
  await bare.trainee.load(adapterDir, { moments: false });
  const sft = await logps(bare.trainee.score([pieceOf(bare)]));
  await bare.close();
  expect(sft).not.toEqual(base);

  const opened = await openPlan(await dpoPlan(LORA, true));
  expect(await logps(opened.trainee.score([pieceOf(opened)]))).toEqual(sft);
  expect(await logps(opened.reference!([pieceOf(opened)]))).toEqual(sft);
  await opened.trainee.learn([[pieceOf(opened)]], (_, [one]) => [new Float32Array(one!.logps.length).fill(1)], {
    dropoutSeed: 1,
  });
  const adam = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxNorm: 1, divisor: 1 };
  opened.trainee.step({ learningRate: 0.02, ...adam });
  const learned = await logps(opened.trainee.score([pieceOf(opened)]));
  expect(learned).not.toEqual(sft);
  expect(await logps(opened.reference!([pieceOf(opened)]))).toEqual(sft);
  expect(await logps(opened.trainee.score([pieceOf(opened)]))).toEqual(learned); // the reference changed nothing
  await opened.close();
}, 60_000);

test("dpo from an adapter begins with a margin of 0, and a resumed run reports the same numbers", async () => {
  const plan = await dpoPlan(LORA, true);
  const whole = await runTraining({ plan, dir, checkpoints: join(dir, "whole"), saveSteps: 2 });
  expect(whole.steps[0]!.values["rewards/margins"]).toBe(0);
  expect(whole.steps[0]!.values["loss"]).toBeCloseTo(Math.LN2, 5);
  const resume = whole.checkpoints[0]!.path;
  const resumed = await runTraining({ plan, dir, checkpoints: join(dir, "resumed"), resume });
  const margin = "rewards/margins";
  expect(resumed.steps.map(({ values }) => values[margin])).toEqual([whole.steps[2]!.values[margin]]);
}, 60_000);

test("another alpha gives the same model; another rank is refused", async () => {
  const same = await openPlan(await dpoPlan(LORA, true));
  const wanted = await logps(same.trainee.score([pieceOf(same)]));
  await same.close();
  const scaled = await openPlan(await dpoPlan({ r: 4, alpha: 32, use_rslora: true }, true));
  const found = await logps(scaled.trainee.score([pieceOf(scaled)]));
  await scaled.close();
  for (const [i, value] of found.entries()) expect(value).toBeCloseTo(wanted[i]!, 4);
  expect(openPlan(await dpoPlan({ r: 8, alpha: 8 }, true))).rejects.toThrow("does not fit the LoRA settings");
  const fewer = { ...LORA, target_modules: ["q_proj"] };
  expect(openPlan(await dpoPlan(fewer, true))).rejects.toThrow("does not fit the LoRA settings");
}, 60_000);

test("grpo with beta from an adapter begins with a KL of 0", async () => {
  const given = {
    learning_rate: 0.01,
    num_generations: 4,
    per_device_train_batch_size: 4,
    max_completion_length: 4,
    max_steps: 1,
    beta: 0.1,
  };
  const plan = await planOf({
    ...common,
    method: "grpo",
    rows: PAIRS.map(({ prompt }) => ({ prompt })),
    given,
    lora: LORA,
  });
  const score = scoring((text) => text.length);
  const { steps } = await runTraining({
    plan: { ...plan, start_adapter: adapter },
    dir,
    checkpoints: join(dir, "grpo"),
    score,
  });
  expect(steps[0]!.values["kl"]).toBeCloseTo(0, 6);
}, 60_000);
