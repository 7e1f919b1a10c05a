// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { HyperparameterInput, Method } from "../../src/lib/training/fields.ts";
import type { FromTrainer } from "../../src/workers/protocol_trainer.ts";
import type { Score } from "../../src/workers/trainer/loop/types.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { planOf, runTraining, scoring, secondsLeftOver, stream } from "../trainer_kit.ts";
import { GRPO, HELD_OUT, LORA, loud, mean, series, TASKS } from "./tasks.ts";

const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128 });
const teacher = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128, seed: 5 });
afterAll(() => rmSync(dir, { recursive: true, force: true }));

let runs = 0;
const place = () => join(dir, `run-${runs++}`);
const common = { dir, model, lora: LORA, context: 128 };
describe.each([["an adapter", LORA] as const, ["all weights", null] as const])("%s", (_, lora) => {
  const rate = lora ? 0.02 : 0.003;

  test("sft lowers the loss of rows that it never saw", async () => {
    const given = { learning_rate: rate, max_steps: 30, per_device_train_batch_size: 4 };
    const plan = await planOf({ ...common, method: "sft", rows: TASKS.sft, heldOut: HELD_OUT.sft, given, lora });
    const { steps, ending, checkpoints } = await runTraining({ plan, dir, checkpoints: place() });
    expect(ending).toBe("trained");
    const losses = series(steps, "eval_loss");
    expect(losses).toHaveLength(10);
    expect(secondsLeftOver(steps)).toBeLessThan(1e-3);
    expect(losses.at(-1)!).toBeLessThan(losses[0]! * 0.75);
    const files = ["moments.safetensors", "state.json", "steps.ndjson", "weights.safetensors"];
    expect(readdirSync(checkpoints[0]!.path).sort()).toEqual([lora ? "adapter.gguf" : "model.gguf", ...files].sort());
  }, 60_000);

  test("dpo raises the margin between answers to questions that it never saw", async () => {
    const given = { learning_rate: rate, max_steps: 20, per_device_train_batch_size: 4 };
    const plan = await planOf({ ...common, method: "dpo", rows: TASKS.dpo, heldOut: HELD_OUT.dpo, given, lora });
    const { steps, ending } = await runTraining({ plan, dir, checkpoints: place() });
    expect(ending).toBe("trained");
    expect(steps[0]!.values["rewards/margins"]).toBeCloseTo(0, 5); // nothing has changed yet
    const margins = series(steps, "eval_rewards/margins");
    expect(margins.at(-1)!).toBeGreaterThan(margins[0]! + 0.5);
  }, 60_000);

  test("grpo raises a reward", async () => {
    const given = { ...GRPO, learning_rate: rate, max_steps: 25 };
    const plan = await planOf({ ...common, method: "grpo", rows: TASKS.grpo, heldOut: HELD_OUT.grpo, given, lora });
    const { steps, ending } = await runTraining({ plan, dir, checkpoints: place(), score: loud });
    expect(ending).toBe("trained");
    const rewards = series(steps, "reward");
    expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 3)) + 0.1);
    expect(steps[0]!.values).toMatchObject({ "completions/max_length": 6, errored_rollouts: 0 });
    expect(steps[0]!.values["sampling/sampling_logp_difference/mean"]).toBeLessThan(0.01);
    expect(steps[0]!.values["entropy"]).toBeGreaterThan(0);
    expect(steps[0]!.samples).toHaveLength(4);
    expect([secondsLeftOver(steps) < 1e-3, steps[0]!.values["rollout_time"]! > 0]).toEqual([true, true]);
    expect(series(steps, "eval_reward").length).toBeGreaterThan(5);
  }, 60_000);
});

test("distill brings a student closer to its teacher, without any reward", async () => {
  const given = { ...GRPO, learning_rate: 0.02, max_steps: 40 };
  const rows = { rows: TASKS.distill, heldOut: HELD_OUT.distill };
  const plan = await planOf({ ...common, ...rows, method: "distill", given, teacher });
  const { steps, ending, error } = await runTraining({ plan, dir, checkpoints: place() });
  expect([ending, error]).toEqual(["trained", null]);
  const distances = series(steps, "teacher_kl");
  expect(mean(distances.slice(-3))).toBeLessThan(mean(distances.slice(0, 3)) * 0.8);
  const heldOut = series(steps, "eval_teacher_kl");
  expect(heldOut.at(-1)!).toBeLessThan(heldOut[0]! * 0.9);
  expect(Object.keys(steps[0]!.values).filter((key) => /reward(?!_)|rewards/.test(key))).toEqual([]);
}, 60_000);

const DISTILLED = [
  { distillation_loss: "reverse_kl" },
  { distillation_loss: "forward_kl" },
  { distillation_loss: "jsd", distillation_mix: 0.3 },
  { distillation_loss: "forward_kl", distillation_top_k: 20, distillation_prompt: "{prompt}! {prompt}" },
  { distillation_loss: "hard" },
] as const;

test.each(DISTILLED)(
  "distill with %o brings a student closer to its teacher",
  async (more) => {
    const given = { ...GRPO, ...more, learning_rate: 0.02, max_steps: 30 };
    const rows = { rows: TASKS.distill, heldOut: HELD_OUT.distill };
    const plan = await planOf({ ...common, ...rows, method: "distill", given, teacher });
    const { steps, ending, error } = await runTraining({ plan, dir, checkpoints: place() });
    expect([ending, error]).toEqual(["trained", null]);
    const key = more.distillation_loss === "hard" ? "teacher_kl" : "divergence";
    const distances = series(steps, key);
    expect(distances).toHaveLength(30);
    expect(mean(distances.slice(-3))).toBeLessThan(mean(distances.slice(0, 3)) * 0.8);
    expect(series(steps, "eval_teacher_kl").every(Number.isFinite)).toBe(true);
    expect(Object.keys(steps[0]!.values)).toContain("teacher_kl");
  },
  60_000,
);

test("the teacher's prompt names columns of the row, and a missing one is refused with the row", async () => {
  const given = {
    ...GRPO,
    max_steps: 1,
    distillation_loss: "forward_kl",
    distillation_prompt: "{prompt} {hint}",
  } as const;
  const rows = [{ prompt: "a", hint: { is: 1 } }, { prompt: "b" }];
  const plan = await planOf({ ...common, rows, method: "distill", given, teacher });
  await expect(runTraining({ plan, dir, checkpoints: place() })).rejects.toThrow(
    "Row 2 of the dataset cannot be used: distillation_prompt names {hint}, and this row has no hint",
  );
}, 60_000);

test("with rewards too, a student learns from both", async () => {
  const given = { ...GRPO, max_steps: 2, distillation_weight: 0.5 };
  const { unrewarded: _, ...plan } = await planOf({
    ...common,
    method: "distill",
    rows: TASKS.distill,
    given,
    teacher,
  });
  const { steps, error } = await runTraining({ plan, dir, checkpoints: place(), score: loud });
  expect(error).toBeNull();
  expect(steps[0]!.values).toMatchObject({ reward: expect.any(Number), teacher_kl: expect.any(Number) });
  const other = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128, extraVocab: ["zq"] });
  const foreign = runTraining({ plan: { ...plan, teacher_path: other }, dir, checkpoints: place(), score: loud });
  await expect(foreign).rejects.toThrow("teacher_model: has other tokens than base_model");
}, 60_000);

type Case = { name: string; method: Method; given: object; lora?: object | null; teacher?: string };
const CASES: Case[] = [
  { name: "sft with dropout", method: "sft", given: { num_train_epochs: 2 }, lora: { ...LORA, dropout: 0.2 } },
  { name: "sft, packed, of all weights", method: "sft", given: { packing: true, max_length: 60 }, lora: null },
  { name: "sft with noise", method: "sft", given: { neftune_noise_alpha: 5, packing: true, max_length: 60 } },
  { name: "dpo", method: "dpo", given: { gradient_accumulation_steps: 2 } },
  { name: "grpo", method: "grpo", given: { ...GRPO, max_steps: 7 } },
  { name: "rloo", method: "rloo", given: { ...GRPO, max_steps: 5, num_iterations: 2, beta: 0.1 } },
  {
    name: "rloo of all weights, with batches that are used later",
    method: "rloo",
    given: {
      ...GRPO,
      per_device_train_batch_size: 8,
      steps_per_generation: 2,
      max_steps: 5,
      normalize_advantages: true,
    },
    lora: null,
  },
  {
    name: "distill, with a generation used in four steps",
    method: "distill",
    given: { ...GRPO, per_device_train_batch_size: 8, steps_per_generation: 2, num_iterations: 2, max_steps: 6 },
    teacher,
  },
  {
    name: "distill over the vocabulary, with a generation used in four steps",
    method: "distill",
    given: {
      ...GRPO,
      per_device_train_batch_size: 8,
      steps_per_generation: 2,
      num_iterations: 2,
      max_steps: 6,
      distillation_loss: "jsd",
      distillation_top_k: 20,
    },
    teacher,
  },
  {
    name: "distill of the teacher's answers, which sees another prompt",
    method: "distill",
    given: { ...GRPO, max_steps: 5, distillation_loss: "hard", distillation_prompt: "Say yes to {prompt}" },
    teacher,
  },
  {
    name: "grpo with prompts by their difficulty, and retired ones",
    method: "grpo",
    given: { ...GRPO, max_steps: 7, sampling: "difficulty", solved_reward: 0.5, retire_after: 1 },
  },
  {
    name: "rloo with replay, each generation used in two steps",
    method: "rloo",
    given: {
      ...GRPO,
      per_device_train_batch_size: 8,
      steps_per_generation: 2,
      max_steps: 7,
      sampling: "replay",
      replay_share: 0.5,
      solved_reward: 0.3,
    },
  },
  { name: "orpo", method: "orpo", given: { max_steps: 6 }, lora: { ...LORA, dropout: 0.2 } },
  { name: "kto", method: "kto", given: { max_steps: 6, gradient_accumulation_steps: 2 } },
  { name: "kto of all weights", method: "kto", given: { max_steps: 5, desirable_weight: 2 }, lora: null },
  { name: "cispo", method: "grpo", given: { ...GRPO, max_steps: 5, num_iterations: 2, loss_type: "cispo" } },
  { name: "grpo of all weights", method: "grpo", given: { ...GRPO, max_steps: 5, beta: 0.05 }, lora: null },
  {
    name: "grpo with each generation used in six steps",
    method: "grpo",
    given: {
      ...GRPO,
      per_device_train_batch_size: 8,
      steps_per_generation: 3,
      num_iterations: 2,
      max_steps: 8,
      beta: 0.1,
    },
  },
  {
    name: "grpo with steps across generations, dynamic sampling and masks",
    method: "grpo",
    given: {
      ...GRPO,
      per_device_train_batch_size: 4,
      steps_per_generation: 2,
      gradient_accumulation_steps: 3,
      dynamic_sampling: true,
      mask_truncated_completions: true,
      max_steps: 7,
    },
  },
];

test.each(CASES)(
  "a resumed run reports the same as the whole run: $name",
  async ({ method, given, lora = LORA, ...more }) => {
    const rows = TASKS[method];
    const full = { max_steps: 8, learning_rate: 0.01, per_device_train_batch_size: 4, ...given } as HyperparameterInput<
      typeof method
    >;
    const plan = await planOf({ ...common, ...more, lora, method, rows, heldOut: HELD_OUT[method], given: full });
    const whole = await runTraining({ plan, dir, checkpoints: place(), score: loud, saveSteps: 1 });
    expect(whole.ending).toBe("trained");
    expect(whole.steps).toHaveLength(plan.total_steps);
    for (const at of [1, 2, 4]) {
      const resume = whole.checkpoints[at - 1]!.path;
      const rest = await runTraining({ plan, dir, checkpoints: place(), score: loud, saveSteps: 1, resume });
      expect(rest.of("begun")[0]!.step).toBe(at);
      expect(stream(rest.steps)).toEqual(stream(whole.steps).slice(at));
    }
  },
  120_000,
);

test("a batch that is reused, or used later, is compared with the weights that sampled it", async () => {
  const ratios = async (given: HyperparameterInput<"grpo">) => {
    const plan = await planOf({
      ...common,
      method: "grpo",
      rows: TASKS.grpo,
      given: { ...GRPO, max_steps: 4, ...given },
    });
    return series((await runTraining({ plan, dir, checkpoints: place(), score: loud })).steps, "ratio/mean");
  };
  const isOne = (ratio: number) => Math.abs(ratio - 1) < 1e-6;
  expect((await ratios({})).map(isOne)).toEqual([true, true, true, true]);
  expect((await ratios({ num_iterations: 2 })).map(isOne)).toEqual([true, false, true, false]);
  expect((await ratios({ steps_per_generation: 2 })).map(isOne)).toEqual([true, false, true, false]);
}, 60_000);

test("groups of one prompt draw independent samples", async () => {
  const rows = Array.from({ length: 4 }, () => ({ prompt: "a" }));
  const plan = await planOf({ ...common, method: "grpo", rows, given: { ...GRPO, max_steps: 1 } });
  const { steps } = await runTraining({ plan, dir, checkpoints: place(), score: loud, samplesPerStep: 16 });
  const texts = steps[0]!.samples.map(({ completion }) => completion);
  expect(new Set(texts).size).toBeGreaterThan(12);
});

test("runs with the same seed are equal, and runs with another seed differ", async () => {
  const of = async (seed: number) => {
    const plan = await planOf({ ...common, method: "grpo", rows: TASKS.grpo, given: { ...GRPO, max_steps: 3 }, seed });
    return stream((await runTraining({ plan, dir, checkpoints: place(), score: loud })).steps);
  };
  const [one, same, other] = [await of(1), await of(1), await of(2)];
  expect(same).toEqual(one);
  expect(other).not.toEqual(one);
}, 60_000);

test("on a request to save and end, the run finishes the step, and the next run continues after it", async () => {
  const plan = await planOf({ ...common, method: "sft", rows: TASKS.sft, given: { max_steps: 6 } });
  const checkpoints = place();
  const whole = await runTraining({ plan, dir, checkpoints: place() });
  const ended = await runTraining({
    plan,
    dir,
    checkpoints,
    endsWhen: (told) => told.some((each) => each.type === "step" && each.step === 4),
  });
  expect([ended.ending, ended.checkpoints.map(({ step }) => step)]).toEqual(["saved", [4]]);
  expect(ended.messages.at(-1)).toEqual({ type: "saved" });
  const rest = await runTraining({ plan, dir, checkpoints, resume: ended.checkpoints[0]!.path });
  expect(stream([...ended.steps, ...rest.steps])).toEqual(stream(whole.steps));
  const never = await runTraining({ plan, dir, checkpoints: place(), endsWhen: () => true });
  expect([never.ending, never.steps.length, never.checkpoints.length]).toEqual(["saved", 0, 0]);
  const over = await runTraining({ plan, dir, checkpoints, resume: rest.checkpoints[0]!.path });
  expect([over.ending, over.steps.length]).toEqual(["trained", 0]);
}, 60_000);

test("incomplete checkpoints of a killed run are removed, and an unreported checkpoint is replaced", async () => {
  const plan = await planOf({ ...common, method: "sft", rows: TASKS.sft, given: { max_steps: 2 } });
  const checkpoints = place();
  mkdirSync(join(checkpoints, ".verk-tmp-0123456789abcdef"), { recursive: true });
  mkdirSync(join(checkpoints, "step-000002", "old"), { recursive: true });
  const run = await runTraining({ plan, dir, checkpoints });
  expect(run.ending).toBe("trained");
  expect(readdirSync(checkpoints)).toEqual(["step-000002"]);
  expect(existsSync(join(checkpoints, "step-000002", "old"))).toBe(false);
});

test("a warm start takes the weights of another job, but not its steps and moments", async () => {
  const given = { max_steps: 10, learning_rate: 0.02 };
  const plan = await planOf({ ...common, method: "sft", rows: TASKS.sft, given });
  const first = await runTraining({ plan, dir, checkpoints: place() });
  const warmStart = first.checkpoints[0]!.path;
  const second = await runTraining({ plan: { ...plan, seed: 8 }, dir, checkpoints: place(), warmStart });
  expect(second.steps).toHaveLength(10);
  expect(second.steps[0]!.values["loss"]!).toBeLessThan(first.steps[0]!.values["loss"]! * 0.8);
  const other = { ...plan, lora: { ...plan.lora!, r: 8 } };
  await expect(
    runTraining({ plan: other, dir, checkpoints: place(), warmStart }).then(({ error }) => error),
  ).resolves.toMatchObject({
    kind: "config",
    message: expect.stringContaining('"r":4'),
  });
  const seeded = await runTraining({ plan: { ...plan, seed: 9 }, dir, checkpoints: place(), resume: warmStart });
  expect(seeded.error?.message).toContain("its seed is 7, but the job's is 9");
}, 60_000);

describe("failures", () => {
  test("a reward that is always equal ends the job, because nothing is learned", async () => {
    const given = { ...GRPO, max_steps: 40, max_completion_length: 2 };
    const plan = await planOf({ ...common, method: "grpo", rows: TASKS.grpo, given });
    const run = await runTraining({ plan, dir, checkpoints: place(), score: scoring(() => 1) });
    expect(run.error).toMatchObject({ kind: "no_effect", message: expect.stringContaining("same reward") });
    expect(run.steps).toHaveLength(20);
    const checkpoints = place();
    const score = scoring(() => 1);
    const endsWhen = (told: readonly FromTrainer[]) => told.some((each) => each.type === "step" && each.step === 15);
    const half = await runTraining({ plan, dir, checkpoints, score, endsWhen });
    const rest = await runTraining({ plan, dir, checkpoints, score, resume: half.checkpoints[0]!.path });
    expect([rest.error?.message, rest.steps.length]).toEqual([run.error?.message, 5]);
  }, 60_000);

  test("a rate too small for the weights' precision ends the job too", async () => {
    const given = { learning_rate: 1e-50, lr_scheduler_type: "constant" as const, max_steps: 40 };
    const plan = await planOf({ ...common, method: "sft", rows: TASKS.sft, given, lora: null });
    const run = await runTraining({ plan, dir, checkpoints: place() });
    expect(run.error).toMatchObject({ kind: "no_effect", message: expect.stringContaining("learning_rate") });
  }, 60_000);

  const failing =
    (share: number): Score =>
    async (step, samples) => {
      const answer = await loud(step, samples);
      const results = answer.results.map((result, i) =>
        i < share * samples.length ? { reward: null, sub_rewards: { it: null }, error: "ValueError: no" } : result,
      );
      return { ...answer, results, stdout: "said\nthis\n" };
    };

  test("a reward may fail for some samples; above a fifth the job ends with the sample", async () => {
    const plan = await planOf({ ...common, method: "grpo", rows: TASKS.grpo, given: { ...GRPO, max_steps: 2 } });
    const some = await runTraining({ plan, dir, checkpoints: place(), score: failing(0.1) });
    expect(some.ending).toBe("trained");
    expect(some.steps[0]!.values["errored_rollouts"]).toBe(2);
    expect(some.of("log").map(({ line }) => line)).toContain("reward: said");
    const many = await runTraining({ plan, dir, checkpoints: place(), score: failing(0.5) });
    expect(many.error).toMatchObject({
      kind: "bad_reward",
      message: expect.stringContaining("ValueError: no"),
      about: { sample: { prompt: expect.any(String), error: "ValueError: no", reward: null } },
    });
  }, 60_000);

  test("completions that no function scores count as failed: more than a fifth ends the job", async () => {
    const plan = await planOf({ ...common, method: "grpo", rows: TASKS.grpo, given: { ...GRPO, max_steps: 2 } });
    const score: Score = async (step, samples) => {
      const answer = await loud(step, samples);
      return {
        ...answer,
        results: answer.results.map((each) => ({ ...each, reward: null, sub_rewards: { it: null } })),
      };
    };
    const run = await runTraining({ plan, dir, checkpoints: place(), score });
    expect(run.error).toMatchObject({
      kind: "bad_reward",
      message: expect.stringContaining("no function returned a number"),
    });
  }, 60_000);

  test("a wrong number of results is the reward's fault", async () => {
    const plan = await planOf({ ...common, method: "grpo", rows: TASKS.grpo, given: { ...GRPO, max_steps: 2 } });
    const score: Score = async (step, samples) => loud(step, samples.slice(1));
    const run = await runTraining({ plan, dir, checkpoints: place(), score });
    expect(run.error).toMatchObject({ kind: "bad_reward", message: expect.stringContaining("16 completions") });
  }, 60_000);

  test("prompts that do not fit are counted, once, in an alarm of the first step", async () => {
    const rows = [...TASKS.grpo, { prompt: "x".repeat(200) }];
    const plan = await planOf({ ...common, method: "grpo", rows, given: { ...GRPO, max_steps: 2 } });
    const run = await runTraining({ plan, dir, checkpoints: place(), score: loud });
    expect(run.steps.map(({ alarms }) => alarms.map(({ type }) => type))).toEqual([["rows_left_out"], []]);
    expect(run.steps[0]!.alarms[0]!.message).toStartWith("1 row is not used");
  }, 60_000);
});
