/** State of the guards and of the best evaluation, kept between steps and across a restart. */

import { type BestSettings, type BestState, noteEvaluation } from "../../../lib/training/best.ts";
import type { LoopState } from "../checkpoint.ts";
import type { Trainee } from "../trainee/trainee.ts";
import { type AlarmCode, newAlarms, type StepMetrics } from "./alarms.ts";
import { IDLE_STEPS, judgeEffect, type StepEffect, taught } from "./guards.ts";

const WATCHED = [
  ...["reward", "kl", "completions/clipped_ratio", "entropy", "frac_reward_zero_std"],
  "sampling/replay_unchanged",
];
/** Steps at learning rate 0 are ignored, so a few more are kept. */
const KEPT_EFFECTS = IDLE_STEPS + 8;

type Remembered = Pick<LoopState, "history" | "raised" | "effects" | "learned">;

export function openWatch(from: Remembered | null) {
  const history: StepMetrics[] = [...(from?.history ?? [])];
  let raised: AlarmCode[] = from?.raised ?? [];
  let learned = from?.learned ?? false;
  let effects: StepEffect[] = (from?.effects ?? []).map((each) => ({
    step: each.step,
    learningRate: each.learning_rate,
    maxAdvantage: each.max_advantage,
    gradNorm: each.grad_norm ?? Number.NaN,
    changed: each.changed,
  }));
  return {
    /** Returns the new alarms of this step. */
    check(step: number, values: Readonly<Record<string, number>>) {
      const watched = WATCHED.flatMap((key) => (values[key] === undefined ? [] : [[key, values[key]] as const]));
      if (watched.length === 0) return [];
      history.push({ step, values: Object.fromEntries(watched) });
      const judged = newAlarms(history, raised);
      raised = judged.raised;
      return judged.alarms.map(({ code, message }) => ({ type: code as string, message }));
    },
    judge(effect: StepEffect) {
      effects = [...effects, effect].slice(-KEPT_EFFECTS);
      learned ||= taught(effect);
      return judgeEffect(effects, { hasLearned: learned });
    },
    state: (): Remembered => ({
      history: history.map(({ step, values }) => ({ step, values: { ...values } })),
      raised,
      learned,
      effects: effects.map(({ step, learningRate, maxAdvantage, gradNorm, changed }) => ({
        step,
        learning_rate: learningRate,
        max_advantage: maxAdvantage,
        grad_norm: Number.isFinite(gradNorm) ? gradNorm : null,
        changed,
      })),
    }),
  };
}

/** Follows the held-out metric, if the job has settings about it. */
export function openBest(settings: BestSettings, from: BestState | null) {
  const metric = settings.metric_for_best_model;
  let state = from;
  return {
    state: () => state,
    stopped: () => state?.stopped ?? null,
    /**
     * Returns true if the step is the best so far and the job's result is made from the best. `isSound`: its loss is
     * finite.
     */
    note(step: number, values: Readonly<Record<string, number>>, isSound: boolean): boolean {
      const value = metric === null ? undefined : values[metric];
      if (value === undefined) return false;
      const noted = noteEvaluation(state, { step, value: isSound ? value : Number.NaN }, settings);
      state = noted.state;
      return noted.improved && settings.load_best_model_at_end;
    },
  };
}

/** Below this rate a step may be lost in the weights' precision, so the weights are compared. */
const SMALL_RATE = 1e-8;

/** Tells if a step changed any weight. It reads the weights only in case of doubt, because that takes time. */
export function createProbe(trainee: Trainee, lora: boolean) {
  const print = () => {
    const hasher = new Bun.CryptoHasher("sha256");
    if (lora) for (const { a, b } of trainee.adapter().layers) hasher.update(a).update(b);
    else {
      const read = trainee.rows();
      for (const name of trainee.file.header.tensors.keys()) {
        const first = read(name, 0, 1);
        if (first) hasher.update(first);
      }
    }
    return hasher.digest("hex");
  };
  return (rate: number, step: () => number): { norm: number; changed: boolean } => {
    if (rate >= SMALL_RATE) {
      const norm = step();
      return { norm, changed: norm > 0 };
    }
    const before = rate > 0 ? print() : "";
    const norm = step();
    return { norm, changed: rate > 0 && print() !== before };
  };
}
