import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { HyperparameterInput } from "../../src/lib/training/fields.ts";
import type { Score } from "../../src/workers/trainer/loop/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { planOf, runTraining, scoring } from "../trainer_kit.ts";

const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128 });
afterAll(() => rmSync(dir, { recursive: true, force: true }));

let runs = 0;
const place = () => join(dir, `run-${runs++}`);
const common = { dir, model, lora: { r: 4, alpha: 8 }, context: 128 };
const prompts = [..."abcdefgh"].map((prompt) => ({ prompt }));
const long = "x".repeat(200);
const GRPO: HyperparameterInput<"grpo"> = {
  learning_rate: 0.01,
  num_generations: 2,
  per_device_train_batch_size: 4,
  max_completion_length: 6,
};
const alarmsOf = ({ steps }: Awaited<ReturnType<typeof runTraining>>) =>
  steps.flatMap(({ alarms }) => alarms.map(({ type }) => type));

test("a job whose rewards became equal by learning completes with a warning, also across a pause", async () => {
  const solved: Score = (step, samples) => scoring((text) => (step < 4 ? text.length % 2 : 1))(step, samples);
  const plan = await planOf({ ...common, method: "grpo", rows: prompts, given: { ...GRPO, max_steps: 32 } });
  const checkpoints = place();
  const half = await runTraining({
    plan,
    dir,
    checkpoints,
    score: solved,
    endsWhen: (told) => told.some((each) => each.type === "step" && each.step === 10),
  });
  expect(half.ending).toBe("saved");
  const rest = await runTraining({ plan, dir, checkpoints, score: solved, resume: half.checkpoints[0]!.path });
  expect([rest.ending, rest.steps.at(-1)?.values["frac_reward_zero_std"]]).toEqual(["trained", 1]);
  expect(alarmsOf(rest)).toContain("same_rewards");
}, 60_000);

test.each([
  ["sft", [{ prompt: "a", completion: "b" }], { prompt: long, completion: "c" }, { max_length: 40 }, 2],
  [
    "dpo",
    [{ prompt: "a", chosen: "b", rejected: "c" }],
    { prompt: long, chosen: "b", rejected: "c" },
    { max_length: 40 },
    2,
  ],
  [
    "kto",
    [
      { prompt: "a", completion: "b", label: true },
      { prompt: "b", completion: "c", label: false },
    ],
    { prompt: long, completion: "c", label: true },
    { max_length: 40 },
    2,
  ],
  ["grpo", prompts.slice(0, 4), { prompt: long }, GRPO, 4],
] as const)(
  "%s: an epoch counts the rows that are trained on, not the rows that are left out",
  async (method, rows, left, given, steps) => {
    const all = [...rows, ...Array.from({ length: 16 }, () => left)];
    const plan = await planOf({ ...common, method, rows: all, given: { ...given, num_train_epochs: 2 } });
    const run = await runTraining({ plan, dir, checkpoints: place(), score: scoring((text) => text.length % 3) });
    expect(run.of("begun")).toMatchObject([{ total_steps: steps }]);
    expect([run.ending, run.steps.length, run.steps.at(-1)?.epoch]).toEqual(["trained", steps, 2]);
  },
  60_000,
);

test("rewards up to the limit of 32 bits are learned from; larger ones are errors, and the run continues", async () => {
  const given = { ...GRPO, num_iterations: 3, max_steps: 3 };
  const plan = await planOf({ ...common, method: "grpo", rows: prompts, given });
  const large = scoring((text) => (text.length % 2 === 0 ? 1e30 : -1e30));
  const whole = await runTraining({ plan, dir, checkpoints: place(), score: large, saveSteps: 1 });
  expect(whole.ending).toBe("trained");
  const resume = whole.checkpoints[0]!.path;
  expect((await runTraining({ plan, dir, checkpoints: place(), score: large, resume })).ending).toBe("trained");
  const tooLarge = await runTraining({ plan, dir, checkpoints: place(), score: scoring(() => 1e300) });
  expect(tooLarge.error).toMatchObject({ kind: "bad_reward", message: expect.stringContaining("1e+300 is too large") });
}, 60_000);
