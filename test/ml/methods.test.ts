// tier: all (trains models)
import { afterAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { planOf, runTraining, stream } from "../trainer_kit.ts";
import { GRPO, HELD_OUT, LORA, loud, mean, series, TASKS } from "./tasks.ts";

const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32", width: 32, ff: 64, context: 128 });
afterAll(() => rmSync(dir, { recursive: true, force: true }));

let runs = 0;
const place = () => join(dir, `run-${runs++}`);
const common = { dir, model, lora: LORA, context: 128 };

const PREFERRING = [
  { method: "orpo", key: "eval_rewards/margins", start: null },
  { method: "kto", key: "eval_rewards/margins", start: 0 },
] as const;

test.each(PREFERRING)(
  "$method prefers the better of answers to questions that it never saw",
  async (each) => {
    const { method, key, start } = each;
    const given = { learning_rate: 0.02, max_steps: 20, per_device_train_batch_size: 4 };
    const plan = await planOf({ ...common, method, rows: TASKS[method], heldOut: HELD_OUT[method], given });
    const { steps, ending } = await runTraining({ plan, dir, checkpoints: place() });
    expect(ending).toBe("trained");
    if (start !== null) expect(steps[0]!.values["rewards/margins"]).toBeCloseTo(start, 5); // nothing has changed yet
    const margins = series(steps, key);
    expect(margins.at(-1)!).toBeGreaterThan(margins[0]! + 0.05);
    const losses = series(steps, "eval_loss");
    expect(losses.at(-1)!).toBeLessThan(losses[0]!);
    if (method === "orpo")
      expect(series(steps, "eval_nll_loss").at(-1)!).toBeLessThan(series(steps, "eval_nll_loss")[0]!);
  },
  60_000,
);

test("rloo raises a reward, and its penalty keeps the model near its start", async () => {
  const run = async (beta: number) => {
    const given = { ...GRPO, learning_rate: 0.02, max_steps: 25, beta };
    const plan = await planOf({ ...common, method: "rloo", rows: TASKS.rloo, heldOut: HELD_OUT.rloo, given });
    const { steps, ending } = await runTraining({ plan, dir, checkpoints: place(), score: loud });
    expect(ending).toBe("trained");
    return steps;
  };
  const free = await run(0);
  const rewards = series(free, "reward");
  expect(mean(rewards.slice(-3))).toBeGreaterThan(mean(rewards.slice(0, 3)) + 0.1);
  expect(series(free, "eval_reward").length).toBeGreaterThan(5);
  expect(series(free, "ratio/mean").every((ratio) => Math.abs(ratio - 1) < 1e-6)).toBe(true);
  const held = await run(5);
  expect(held[0]!.values["kl"]).toBeCloseTo(0, 5);
  expect(mean(series(held, "reward").slice(-3))).toBeLessThan(mean(rewards.slice(-3)) - 0.1);
}, 60_000);

test("all weights learn with moments of 8 bits, and a CPU has no NF4", async () => {
  const given = { learning_rate: 0.01, max_steps: 10, per_device_train_batch_size: 4 };
  const losses = async (more: object, lora: object | null = null) => {
    const plan = await planOf({ ...common, lora, method: "sft", rows: TASKS.sft, given: { ...given, ...more } });
    const { steps, ending } = await runTraining({ plan, dir, checkpoints: place() });
    expect(ending).toBe("trained");
    return series(steps, "loss");
  };
  const [exact, bytes] = [await losses({}), await losses({ optim: "paged_adamw_8bit" })];
  expect(bytes[0]).toBe(exact[0]!);
  expect(bytes.at(-1)!).toBeLessThan(0.9 * bytes[0]!);
  expect(bytes).not.toEqual(exact);
  await expect(losses({ load_in_4bit: true }, LORA)).rejects.toThrow(
    "load_in_4bit: the matrices of this llama model cannot be NF4",
  );
}, 60_000);

describe("the best evaluation", () => {
  // A rate that is far too high: held-out loss falls once, then rises.
  const given = {
    learning_rate: 0.3,
    max_steps: 40,
    per_device_train_batch_size: 4,
    lr_scheduler_type: "constant",
  } as const;
  const open = (more: object, lora: object | null = LORA) =>
    planOf({ ...common, lora, method: "sft", rows: TASKS.sft, heldOut: HELD_OUT.sft, given: { ...given, ...more } });

  test("early stopping ends the run, and a killed run decides the same from any checkpoint", async () => {
    const plan = await open({ early_stopping_patience: 2 });
    const whole = await runTraining({ plan, dir, checkpoints: place(), saveSteps: 2 });
    expect(whole.ending).toBe("trained");
    const losses = series(whole.steps, "eval_loss");
    const best = Math.min(...losses);
    expect(losses.indexOf(best)).toBe(losses.length - 3); // two evaluations without improvement
    const reason = whole.of("trained")[0]!.stopped_early;
    expect(reason).toContain("eval_loss did not improve in 2 evaluations. It was best after step");
    expect(whole.of("log").map(({ line }) => line)).toContain(`stopped early: ${reason}`);
    const last = whole.checkpoints.at(-1)!;
    expect([last.step, whole.steps.length < 40]).toEqual([whole.steps.length, true]);
    for (const { step, path } of whole.checkpoints) {
      const rest = await runTraining({ plan, dir, checkpoints: place(), saveSteps: 2, resume: path });
      expect(stream(rest.steps)).toEqual(stream(whole.steps).slice(step));
      expect(rest.of("trained")).toEqual([{ type: "trained", stopped_early: reason }]);
    }
  }, 60_000);

  test("every best step has a checkpoint with files to serve, also if all weights are trained", async () => {
    const plan = await open({ learning_rate: 0.01, max_steps: 10, load_best_model_at_end: true }, null);
    const { steps, checkpoints, ending } = await runTraining({ plan, dir, checkpoints: place() });
    expect(ending).toBe("trained");
    let best = Number.POSITIVE_INFINITY;
    const bests = steps.flatMap(({ step, values }) => {
      const loss = values["eval_loss"] ?? Number.POSITIVE_INFINITY;
      if (loss >= best) return [];
      best = loss;
      return [step];
    });
    const saved = checkpoints.map(({ step }) => step);
    expect(saved).toEqual([...new Set([...bests, 10])]);
    for (const { path } of checkpoints) expect(readdirSync(path)).toContain("model.gguf");
  }, 60_000);

  test.each(["sft", "dpo"] as const)(
    "%s: a model that gives no numbers has no loss and is never the best",
    async (method) => {
      const settings = { ...given, learning_rate: 0.01, max_steps: 10 };
      const more = { early_stopping_patience: 3, load_best_model_at_end: true, metric_for_best_model: "eval_loss" };
      const rows = { rows: TASKS[method], heldOut: HELD_OUT[method] };
      const plan = await planOf({ ...common, method, ...rows, given: { ...settings, ...more } });
      const sound = await runTraining({ plan, dir, checkpoints: place(), saveSteps: 1, endsWhen: hasSteps(2) });
      const second = sound.checkpoints.at(-1)?.path;
      fillWithNaN(join(second!, "weights.safetensors"));
      const broken = await runTraining({ plan, dir, checkpoints: place(), saveSteps: 1, resume: second! });
      const best = sound.steps.reduce((a, b) => (b.values["eval_loss"]! < a.values["eval_loss"]! ? b : a));
      const waited = 2 - best.step;
      expect(broken.steps).toHaveLength(3 - waited);
      for (const { values } of broken.steps)
        expect(Object.keys(values).filter((key) => key.includes("loss") || key.includes("rewards"))).toEqual([]);
      for (const { metrics } of broken.checkpoints) expect(metrics).toEqual({});
      expect(broken.of("trained")[0]!.stopped_early).toContain(
        `eval_loss did not improve in 3 evaluations. It was best after step ${best.step}`,
      );
    },
    60_000,
  );
});

const hasSteps = (count: number) => (messages: readonly { type: string }[]) =>
  messages.filter(({ type }) => type === "step").length >= count;

/** Writes NaN over every F32 of a safetensors file. */
function fillWithNaN(path: string) {
  const bytes = readFileSync(path);
  bytes.fill(0xff, 8 + Number(bytes.readBigUInt64LE(0)));
  writeFileSync(path, bytes);
}
