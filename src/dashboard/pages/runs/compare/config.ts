/** The settings of runs in words, and which of them differ. Pure. */
import { isObject } from "../../../../lib/json/object.ts";
import { NONE, number, words } from "../../../data/format.ts";
import { methodName } from "../methods.ts";
import type { TrainingJob } from "../types.ts";
import { datasetText } from "../words.ts";

export type Difference = { name: string; values: string[]; differs: boolean };

/** The name of a stored reward function or evaluator by its id. */
export type NameOf = (id: string) => string;

const weightText = (weight: number) => (weight === 1 ? "" : ` × ${number(weight)}`);

/** Settings by their names: "Learning rate" → "0.0002". */
export function settingsOf(job: TrainingJob, nameOf: NameOf): Map<string, string> {
  const { dataset, eval_dataset, seed, lora, lock, tags } = job;
  const gpu = job.gpu ?? job.gpu_requested;
  const rows = new Map<string, string>([
    ["Base model", job.base_model],
    ["Method", methodName(job.method)],
    ["Dataset", dataset ? datasetText(dataset) : NONE],
    ["Held-out rows", eval_dataset ? datasetText(eval_dataset) : "none"],
    ["Rewards", rewardsText(job, nameOf)],
    ["Seed", String(seed)],
    ["Device", `${gpu.count} × ${gpu.type}`],
    ["Trains", lora ? "an adapter (LoRA)" : job.method === "custom" ? NONE : "all weights"],
  ]);
  for (const [name, value] of Object.entries(lora ?? {})) flatten(value, `LoRA ${words(name).toLowerCase()}`, rows);
  for (const [name, value] of Object.entries(job.hyperparameters)) flatten(value, words(name), rows);
  rows.set("Priority", words(job.priority));
  rows.set("Checkpoint every", job.checkpoint.save_steps === 0 ? "at the end" : `${job.checkpoint.save_steps} steps`);
  rows.set("Checkpoints kept", String(job.checkpoint.keep_last));
  rows.set("Version of Verk", lock.app_version);
  rows.set("Group", job.group ?? "none");
  rows.set("Tags", tags.length === 0 ? "none" : [...tags].sort().join(", "));
  return rows;
}

function rewardsText({ reward_functions: functions, reward_language: language }: TrainingJob, nameOf: NameOf): string {
  const own = language === null ? [] : [`own code (${language})`];
  const named = functions.map(({ id, weight }) => `${nameOf(id)}${weightText(weight)}`);
  return [...own, ...named].join(", ") || "none";
}

/** A setting with parts has one row for each of them. */
function flatten(value: unknown, name: string, rows: Map<string, string>) {
  if (!isObject(value)) return void rows.set(name, valueText(value));
  const parts = Object.entries(value);
  if (parts.length === 0) rows.set(name, "none");
  for (const [key, child] of parts) flatten(child, `${name}: ${words(key).toLowerCase()}`, rows);
}

function valueText(value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return number(value, 9);
  return Array.isArray(value) ? value.map(valueText).join(", ") || "none" : String(value);
}

/** One row for each setting of any run. A run without the setting has an empty value. */
export function compareSettings(jobs: readonly TrainingJob[], nameOf: NameOf): Difference[] {
  const all = jobs.map((job) => settingsOf(job, nameOf));
  const names = new Set(all.flatMap((rows) => [...rows.keys()]));
  return [...names].map((name) => {
    const values = all.map((rows) => rows.get(name) ?? "");
    return { name, values, differs: new Set(values).size > 1 };
  });
}

export type CodeDifference = { from: TrainingJob; to: TrainingJob; before: string; after: string };

/** The reward code of each run against that of the first run with code. Equal code is left out. */
export function codeDifferences(jobs: readonly TrainingJob[]): CodeDifference[] {
  const having = jobs.flatMap((job) => (job.reward_source === null ? [] : [{ job, code: job.reward_source }]));
  const [first, ...others] = having;
  if (!first) return [];
  return others
    .filter(({ code }) => code !== first.code)
    .map(({ job, code }) => ({ from: first.job, to: job, before: first.code, after: code }));
}
