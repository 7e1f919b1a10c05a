/** Reads the hyperparameters and LoRA settings of a request strictly, then resolves them for the model and the rows. */

import type { ModelShape } from "../../../../lib/gguf/shape.ts";
import { jsonPointer } from "../../../../lib/json/pointer.ts";
import type { Format } from "../../../../lib/rows/format.ts";
import { issueText } from "../../../../lib/text/issue.ts";
import type { HyperparameterInput, Method } from "../../../../lib/training/fields.ts";
import { IGNORED_LORA, ignoredText, LORA_ALIASES } from "../../../../lib/training/foreign_names.ts";
import { loraRefusalOf, refusalOf, withOwnValues } from "../../../../lib/training/foreign_values.ts";
import { MOST_PROBLEMS, type Problem, readHyperparameters } from "../../../../lib/training/hyperparameters.ts";
import { LoraSettings, loraFor } from "../../../../lib/training/lora.ts";
import { shortened, sortNames, suggestion } from "../../../../lib/training/names.ts";
import { stepsOf } from "../../../../lib/training/plan.ts";
import { type Resolved, resolveHyperparameters } from "../../../../lib/training/resolve.ts";
import type { JobRequest } from "./clone.ts";
import type { Faults } from "./faults.ts";

const refuseAll = (faults: Faults, problems: readonly Problem[]) => {
  for (const { path, message } of problems) faults.refuse(jsonPointer(["hyperparameters", ...path]), message);
};

export function readGiven<M extends Method>(
  method: M,
  request: JobRequest,
  faults: Faults,
): HyperparameterInput<M> | undefined {
  const raw = withOwnValues(request.hyperparameters) as Values;
  const read = readHyperparameters(method, raw);
  if (read.ok) {
    const refused = refusalsOf(read.ignored, raw, (name, value) => refusalOf(method, name, value));
    refuseAll(faults, refused);
    if (refused.length > 0) return undefined;
    if (read.ignored.length > 0) faults.warn("/hyperparameters", ignoredText(method, read.ignored));
    return read.given;
  }
  refuseAll(faults, read.problems);
  return undefined;
}

type Values = Record<string, unknown> | undefined;

/** Ignored names with a value that would change the training. */
const refusalsOf = (ignored: readonly string[], raw: Values, refusal: typeof loraRefusalOf): Problem[] =>
  ignored.flatMap((name) => {
    const message = refusal(name, raw?.[name]);
    return message === undefined ? [] : [{ path: [name], message }];
  });

/** Undefined if the settings are wrong; null trains all weights. */
export function readLora({ lora }: JobRequest, faults: Faults): LoraSettings | null | undefined {
  if (lora === null) return null;
  const names = Object.keys(LoraSettings.unwrap().shape);
  const raw = (withOwnValues(lora) ?? {}) as Record<string, unknown>;
  const sorted = sortNames(raw, { known: names, aliases: LORA_ALIASES, ignored: IGNORED_LORA });
  const refuse = (name: string, message: string) => faults.refuse(jsonPointer(["lora", shortened(name)]), message);
  for (const { from, name } of sorted.twice) refuse(from, `is another name of ${name}: give one of them`);
  for (const name of sorted.unknown.slice(0, MOST_PROBLEMS))
    refuse(name, `is not a setting of lora${suggestion(name, names)}`);
  const read = LoraSettings.safeParse(Object.fromEntries(sorted.given.map(({ name, value }) => [name, value])));
  for (const issue of read.error?.issues.slice(0, MOST_PROBLEMS) ?? []) {
    const [name, ...rest] = issue.path;
    const from = sorted.given.find((each) => each.name === name)?.from ?? String(name);
    faults.refuse(jsonPointer(["lora", from, ...rest]), issueText(issue));
  }
  const refused = refusalsOf(sorted.ignored, raw, loraRefusalOf);
  for (const { path, message } of refused) refuse(String(path[0]), message);
  if (sorted.twice.length + sorted.unknown.length + refused.length > 0 || !read.success) return undefined;
  if (sorted.ignored.length > 0) faults.warn("/lora", ignoredText("lora", sorted.ignored));
  return read.data;
}

/** The settings for the family of the model. Undefined if they do not fit it. */
export function fitLora(lora: LoraSettings | null, architecture: string, faults: Faults) {
  const fitted = loraFor(lora, architecture);
  if ("ok" in fitted) return fitted.ok;
  return void faults.refuse(fitted.field === "lora" ? "/lora" : "/lora/target_modules", fitted.why);
}

type Facts = { method: Method; lora: LoraSettings | null; shape: ModelShape; rows: number; format: Format };
type Resolution = { values: Resolved<Method>; totalSteps: number };

export function resolve(input: HyperparameterInput<Method>, facts: Facts, faults: Faults): Resolution | undefined {
  const { method, shape, rows } = facts;
  const resolution = resolveHyperparameters(method, input, {
    lora: facts.lora !== null,
    rows,
    parameters: shape.parameters,
    contextLength: shape.context_length,
    hasCompletions: facts.format === "completion",
  });
  if (resolution.ok) return { values: resolution.values, totalSteps: stepsOf(method, resolution.values, rows) };
  refuseAll(faults, resolution.problems);
  return undefined;
}
