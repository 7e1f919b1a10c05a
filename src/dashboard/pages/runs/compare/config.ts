/** The settings of runs as flat rows, and which of them differ. */
import { isObject } from "../../../../lib/json/object.ts";
import type { TrainingJob } from "../types.ts";

export type Difference = { name: string; values: string[]; differs: boolean };

/** `lora.r` → its value as text. */
export function settingsOf(job: TrainingJob): Map<string, string> {
  const { base_model, method, dataset, eval_dataset, seed, gpu, gpu_requested, reward_functions, lora, lock } = job;
  const tree = {
    base_model,
    method,
    seed,
    gpu: gpu ?? gpu_requested,
    lora,
    reward_functions,
    dataset: dataset && `${dataset.id}${dataset.snapshot_id ?? ""}`,
    eval_dataset: eval_dataset && `${eval_dataset.id}${eval_dataset.snapshot_id ?? ""}`,
    reward: job.reward_source ?? lock.reward_sha256,
    ...job.hyperparameters,
    priority: job.priority,
    checkpoint: job.checkpoint,
    app_version: lock.app_version,
  };
  const rows = new Map<string, string>();
  flatten(tree, "", rows);
  return rows;
}

function flatten(value: unknown, name: string, rows: Map<string, string>) {
  const isTree = isObject(value);
  if (!isTree) {
    rows.set(name, typeof value === "string" ? value : JSON.stringify(value ?? null));
    return;
  }
  for (const [key, child] of Object.entries(value)) flatten(child, name === "" ? key : `${name}.${key}`, rows);
}

/** One row for each setting of any run. A run without the setting has an empty value. */
export function compareSettings(jobs: readonly TrainingJob[]): Difference[] {
  const all = jobs.map(settingsOf);
  const names = new Set(all.flatMap((rows) => [...rows.keys()]));
  return [...names].map((name) => {
    const values = all.map((rows) => rows.get(name) ?? "");
    return { name, values, differs: new Set(values).size > 1 };
  });
}
