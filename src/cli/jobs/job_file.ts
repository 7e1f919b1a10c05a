/**
 * A file with the settings of a job, as YAML, TOML or JSON. It has the fields of the request, or is a config of TRL with
 * all names at the top, or both: flat names are sorted into hyperparameters, lora and checkpoint.
 */

import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json/object.ts";
import { editDistance } from "../../lib/text/nearest.ts";
import { ALIASES, ELSEWHERE, FOREIGN_NAMES, LORA_ALIASES, MEANT } from "../../lib/training/foreign_names.ts";
import { isCodeName } from "../rewards/input.ts";
import { openSource } from "../transfer/source.ts";
import type { Body, JobSettings, RewardValue } from "./request.ts";
import { lineOf, parseSettings } from "./settings_file.ts";

/** Fields of the request. job_file.test.ts compares them with the schema. */
export const REQUEST_FIELDS = `
  base_model teacher_model method output_name dataset dataset_id eval_dataset reward_source reward_language reward_functions
  data_resolver data_resolver_source data_resolver_language
  hyperparameters lora gpu provider region resume_from source_job code_artifact_id command credentials secrets volumes
  resources network env
  max_runtime_minutes max_cost_usd priority checkpoint publish hub_repo hub_variant hub_private seed metadata
  tags notes group dry_run
`
  .trim()
  .split(/\s+/);

/** Other names of fields of the request. */
const RENAMED: Readonly<Record<string, string>> = {
  model: "base_model",
  model_name_or_path: "base_model",
  teacher: "teacher_model",
  teacher_model_name_or_path: "teacher_model",
  output: "output_name",
  dataset_name: "dataset",
  resume_from_checkpoint: "resume_from",
};
const CHECKPOINT: Readonly<Record<string, string>> = { save_steps: "save_steps", save_total_limit: "keep_last" };
const REWARDS = ["rewards", "reward", "reward_funcs"];

export type JobFile = JobSettings & { text: string; notes: string[] };

export async function readJobFile(path: string): Promise<JobFile> {
  const source = await openSource(path);
  try {
    const text = new TextDecoder().decode(Buffer.concat(await Array.fromAsync(source.chunks())));
    const name = path === "-" ? "standard input" : path;
    const dir = path === "-" ? "." : dirname(path);
    const values = parseSettings(name, text);
    return {
      path: name,
      text,
      dir,
      resolver: resolverIn(dir, values["resolver"]),
      ...withPaths(sortFlat(name, values), dir),
    };
  } finally {
    await source.close();
  }
}

type Sorted = Pick<JobFile, "body" | "rewards" | "notes">;

export function sortFlat(file: string, values: Body): Sorted {
  const body: Body = {};
  const bags: Record<"hyperparameters" | "lora" | "checkpoint", Body> = {
    hyperparameters: {},
    lora: {},
    checkpoint: {},
  };
  const put = (bag: Body, name: string, value: unknown) => {
    if (Object.hasOwn(bag, name)) throw new UsageError(`${file}: ${name} is there twice. Remove one of them.`);
    bag[name] = value;
  };
  for (const [name, value] of Object.entries(values)) {
    const target = RENAMED[name] ?? name;
    if (isBag(name) && isObject(value)) for (const [inner, each] of Object.entries(value)) put(bags[name], inner, each);
    else if (name === "peft_config" && isObject(value))
      for (const pair of Object.entries(value)) put(bags.lora, ...pair);
    else if (Object.hasOwn(CHECKPOINT, name)) putIfSet(bags.checkpoint, CHECKPOINT[name] ?? name, value);
    else if (REQUEST_FIELDS.includes(target)) target === name ? put(body, name, value) : putIfSet(body, target, value);
    else if (isLoraName(name)) put(bags.lora, name, value);
    else if (![...REWARDS, "reward_weights", "use_peft", "peft_config", "resolver"].includes(name))
      put(bags.hyperparameters, known(file, name), value);
  }
  const notes = withoutPeft(values, bags.lora, body);
  for (const [name, bag] of Object.entries(bags)) if (Object.keys(bag).length > 0) body[name] = bag;
  return { body, rewards: rewardsOf(file, values), notes };

  /** A dumped config has null for a name that is not set. */
  function putIfSet(bag: Body, name: string, value: unknown) {
    if (value !== null) put(bag, name, value);
  }
}

const isBag = (name: string) => name === "hyperparameters" || name === "lora" || name === "checkpoint";

const isLoraName = (name: string) =>
  Object.hasOwn(LORA_ALIASES, name) || (name !== "use_peft" && /lora: lora\./.test(ELSEWHERE[name] ?? ""));

/** Rejects a typing mistake of a field. The server judges all other names as hyperparameters. */
function known(file: string, name: string): string {
  if (FOREIGN_NAMES.has(name) || Object.hasOwn(ALIASES, name) || Object.hasOwn(MEANT, name)) return name;
  const close = REQUEST_FIELDS.find((each) => each.length > 4 && editDistance(name, each) <= 2);
  if (close) throw new UsageError(`${file}: there is no field ${name}. Did you mean ${close}?`);
  return name;
}

/** TRL trains all weights unless use_peft is true, and then the names of LoRA do nothing. */
function withoutPeft({ use_peft: usePeft }: Body, lora: Body, body: Body): string[] {
  if (usePeft !== false) return [];
  const ignored = Object.keys(lora);
  for (const name of ignored) delete lora[name];
  body["lora"] = null;
  return [
    `use_peft is false: all weights are trained.${ignored.length === 0 ? "" : ` Ignored: ${ignored.join(", ")}.`}`,
  ];
}

/** `rewards: [right.py, short.ts:0.2]`, or TRL's reward_funcs with reward_weights. */
function rewardsOf(file: string, values: Body): RewardValue[] | undefined {
  const name = REWARDS.find((each) => values[each] !== undefined && values[each] !== null);
  if (name === undefined) return undefined;
  const list = (Array.isArray(values[name]) ? values[name] : [values[name]]) as unknown[];
  const rewards = list.map((each): RewardValue => {
    if (typeof each === "string") return { text: each };
    const { file: path, id = path, name: label = id, weight, params } = isObject(each) ? each : {};
    if (typeof label === "string") return { id: label, weight: weight as number | undefined, params };
    throw new UsageError(`${file}: ${name} must be names or files, such as [exact_match, short.py:0.2]`);
  });
  const weights = values["reward_weights"];
  if (!Array.isArray(weights)) return rewards;
  if (weights.length !== rewards.length)
    throw new UsageError(
      `${file}: reward_weights has ${weights.length} values, but there are ${rewards.length} rewards`,
    );
  return rewards.map((each, i) => ({ ...each, weight: weights[i] as number }));
}

/** Paths that begin at the folder of the file. A reward function whose id is a file there is read as a reward file. */
function withPaths({ body, rewards, notes }: Sorted, dir: string): Sorted {
  const fields = { ...body };
  for (const name of ["dataset", "eval_dataset"])
    if (isFileIn(dir, body[name])) fields[name] = resolve(dir, body[name]);
  const { base_model: model, reward_functions: functions } = body;
  if (typeof model === "string" && /^\.{1,2}\/|\.gguf$/i.test(model)) fields["base_model"] = resolve(dir, model);
  const hasFiles = Array.isArray(functions) && functions.some((each) => isObject(each) && isFileIn(dir, each["id"]));
  if (rewards !== undefined || !hasFiles) return { body: fields, rewards, notes };
  delete fields["reward_functions"];
  return { body: fields, rewards: functions as RewardValue[], notes };
}

function resolverIn(dir: string, value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  return isFileIn(dir, value) || isCodeName(value) ? resolve(dir, value) : value;
}

const isFileIn = (dir: string, value: unknown): value is string =>
  typeof value === "string" && statSync(resolve(dir, value), { throwIfNoEntry: false })?.isFile() === true;

/** An error about a field of the request. `place`: the file, the line and the key that set the field. */
export type Fault = { message: string; param?: string | null | undefined; place?: string | undefined };

/** Adds the place in the file to an error about a field that the file sets. `flagged`: the fields that flags set. */
export function located<E extends Fault>(file: JobFile, flagged: Body, fault: E): E {
  const path = fault.param?.split("/").slice(1) ?? [];
  if (isSetBy(flagged, path)) return fault;
  for (const [i, name] of [...path.entries()].toReversed())
    for (const key of [name, ...otherNamesOf(name)]) {
      const line = /^\d*$/.test(key) ? undefined : lineOf(file.text, key);
      if (line !== undefined)
        return { ...fault, place: `${file.path}:${line}: ${[key, ...path.slice(i + 1)].join(".")}` };
    }
  const [bag = ""] = path;
  return path.length === 1 && isBag(bag) && Object.hasOwn(file.body, bag) ? { ...fault, place: file.path } : fault;
}

/** True for a field whose whole value a flag gives. `--set` gives single names of a bag. */
const isSetBy = (flagged: Body, [name = "", inner]: readonly string[]): boolean => {
  const value = flagged[name];
  return value !== undefined && (!isBag(name) || !isObject(value) || Object.hasOwn(value, inner ?? ""));
};

const otherNamesOf = (field: string) => [
  ...Object.entries({ ...RENAMED, ...CHECKPOINT }).flatMap(([name, target]) => (target === field ? [name] : [])),
  ...(field === "reward_functions" ? REWARDS : []),
];
