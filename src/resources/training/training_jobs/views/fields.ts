/** Chosen fields of listed jobs: `status,hyperparameters.learning_rate,latest_metrics.rewards/margins`. */
import { AppError } from "../../../../lib/errors.ts";
import { isObject } from "../../../../lib/json/object.ts";
import { nearest } from "../../../../lib/text/nearest.ts";
import { TrainingJob } from "../schema.ts";

/** `key`: one entry of the field, whose name may have dots and slashes. */
export type Field = { name: string; key: string | undefined };

const MOST_FIELDS = 100;

export function fieldsOf(text: string): Field[] {
  const known = Object.keys(TrainingJob.unwrap().shape);
  const names = text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  if (names.length > MOST_FIELDS)
    throw new AppError("schema", `fields takes at most ${MOST_FIELDS} names`, { param: "fields" });
  return names.map((full) => {
    const dot = full.indexOf(".");
    const name = dot < 0 ? full : full.slice(0, dot);
    if (!known.includes(name)) throw unknown(name, known);
    return { name, key: dot < 0 ? undefined : full.slice(dot + 1) };
  });
}

function unknown(name: string, known: readonly string[]): AppError {
  const near = nearest(name, known);
  const hint = near === undefined ? "" : `; did you mean ${near}?`;
  return new AppError("schema", `fields: a training job has no field ${JSON.stringify(name.slice(0, 80))}${hint}`, {
    param: "fields",
  });
}

/** Has only `id`, `object` and the fields. An entry that the job lacks is left out. */
export function picked(job: TrainingJob, fields: readonly Field[]): { id: string; object: string } {
  const whole: Record<string, unknown> = job;
  const result: Record<string, unknown> & { id: string; object: string } = { id: job.id, object: job.object };
  for (const { name, key } of fields) {
    const value = whole[name];
    if (key === undefined) result[name] = value;
    else if (isObject(value)) {
      const entries = isObject(result[name]) ? result[name] : {};
      result[name] = Object.hasOwn(value, key) ? { ...entries, [key]: value[key] } : entries;
    } else result[name] = null;
  }
  return result;
}
