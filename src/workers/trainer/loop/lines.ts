/** Lines of a training's log for users. */
import { HEADLINE_METRIC } from "../../../lib/training/metrics.ts";
import type { TrainPlan } from "../../protocol_trainer.ts";

type Values = Readonly<Record<string, number>>;

export function stepLine(step: number, total: number, values: Values): string {
  const parts = [`step ${step}/${total}`];
  const add = (name: string, key: string) => {
    if (values[key] !== undefined) parts.push(`${name} ${say(values[key])}`);
  };
  add("loss", "loss");
  if (values["reward"] !== undefined) parts.push(`reward ${say(values["reward"])} ± ${say(values["reward_std"] ?? 0)}`);
  add("margin", "rewards/margins");
  add("accuracy", "rewards/accuracies");
  if (values["completions/mean_length"] !== undefined)
    parts.push(`len ${Math.round(values["completions/mean_length"])}`);
  add("kl", "kl");
  add("eval loss", "eval_loss");
  add("eval reward", "eval_reward");
  add("eval margin", "eval_rewards/margins");
  if (values["step_time"] !== undefined) parts.push(`${say(values["step_time"])} s`);
  return parts.join("  ");
}

export function beginLine(plan: TrainPlan, total: number, rows: string): string {
  const what = plan.lora ? `lora r ${plan.lora.r}` : "all weights";
  return `${plan.method} of ${what}, ${total} ${total === 1 ? "step" : "steps"}, ${rows}, seed ${plan.seed}`;
}

export const endLine = (method: TrainPlan["method"], step: number, values: Values) => {
  const key = HEADLINE_METRIC[method];
  return `done after ${step} ${step === 1 ? "step" : "steps"}${values[key] === undefined ? "" : `, ${key} ${say(values[key])}`}`;
};

const say = (value: number) =>
  Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(2)
    : value.toFixed(value >= 100 ? 0 : 3);
