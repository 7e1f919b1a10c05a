/**
 * Builds the request of a new job from a job file and flags. It has only the given fields, so that the server's defaults
 * apply to the rest.
 */
import { UsageError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/time.ts";
import { wholeOf } from "../args.ts";

export type Body = Record<string, unknown>;

/** Flags of `verk jobs create` that become fields of the request. */
export type JobFlags = {
  model?: string | undefined;
  teacher?: string | undefined;
  method?: string | undefined;
  output?: string | undefined;
  set: readonly string[];
  lora: readonly string[];
  full: boolean;
  seed?: string | undefined;
  priority?: string | undefined;
  tag: readonly string[];
  notes?: string | undefined;
  group?: string | undefined;
  gpus?: string | undefined;
  region?: string | undefined;
  provider?: string | undefined;
  "hub-repo"?: string | undefined;
  "hub-variant"?: string | undefined;
  "hub-public"?: boolean | undefined;
  "max-runtime"?: string | undefined;
  "max-cost"?: string | undefined;
  "save-steps"?: string | undefined;
  "keep-last"?: string | undefined;
  "resume-from"?: string | undefined;
  clone?: string | undefined;
  code?: string | undefined;
  command?: string | undefined;
  secret: readonly string[];
  volume: readonly string[];
  memory?: string | undefined;
  cpus?: string | undefined;
  disk?: string | undefined;
  "gpu-memory"?: string | undefined;
  network?: string | undefined;
  env: readonly string[];
  publish: boolean;
};

/** Flags that name files, or things of the server: they become fields once these are read and uploaded. */
type InputFlags = {
  dataset?: string | undefined;
  "eval-dataset"?: string | undefined;
  reward: readonly string[];
  resolver?: string | undefined;
};

/** A reward as it is given: `short.ts:0.2`, or in parts. */
export type RewardValue = { text?: string; id?: string; weight?: number | undefined; params?: unknown };

/** The settings of a job file. */
export type JobSettings = {
  path: string;
  /** The folder of the file. Paths in the file begin here. */
  dir: string;
  body: Body;
  /** Undefined: the file has none, or names stored reward functions alone. */
  rewards: RewardValue[] | undefined;
  /** Path of the data resolver, or the name of a stored one. */
  resolver: string | undefined;
};

/** `from`: the flag or the file that names the input, for messages. */
export type Inputs = {
  rewards: { values: readonly RewardValue[]; from: string; dir: string };
  resolver: string | undefined;
  datasets: readonly { field: string; text: string; from: string }[];
  code: string | undefined;
};

const REWARD_FIELDS = ["reward_source", "reward_language", "reward_functions"];
const RESOLVER_FIELDS = ["data_resolver", "data_resolver_source", "data_resolver_language"];

/**
 * The fields that are known already, and the inputs that give the others. Flags override the file. An input replaces all
 * fields of its kind.
 */
export function requestOf(file: JobSettings | undefined, flags: JobFlags & InputFlags): { body: Body; inputs: Inputs } {
  const body = bodyOf(flags, file?.body);
  const resolver = flags.resolver ?? file?.resolver;
  const datasets = [
    { field: "dataset", flag: "--dataset", text: flags.dataset },
    { field: "eval_dataset", flag: "--eval-dataset", text: flags["eval-dataset"] },
  ].flatMap(({ field, flag, text }) => {
    if (text !== undefined) return [{ field, text, from: flag }];
    const named = body[field];
    return typeof named === "string" && file ? [{ field, text: named, from: `${file.path}: ${field}` }] : [];
  });
  const replaced = [
    ...(flags.reward.length > 0 ? REWARD_FIELDS : []),
    ...(resolver === undefined ? [] : RESOLVER_FIELDS),
    ...(flags.code === undefined ? [] : ["code_artifact_id"]),
    ...datasets.map(({ field }) => field),
  ];
  return {
    body: Object.fromEntries(Object.entries(body).filter(([name]) => !replaced.includes(name))),
    inputs: { rewards: rewardInputs(file, flags.reward), resolver, datasets, code: flags.code },
  };
}

const rewardInputs = (file: JobSettings | undefined, flags: readonly string[]): Inputs["rewards"] =>
  flags.length > 0 || !file?.rewards
    ? { values: flags.map((text) => ({ text })), from: "--reward", dir: "." }
    : { values: file.rewards, from: file.path, dir: file.dir };

/** The fields that flags set, so that an error about another field is one of the file. */
export const flaggedOf = (flags: JobFlags & InputFlags): Body => ({
  ...bodyOf(flags),
  dataset: flags.dataset,
  eval_dataset: flags["eval-dataset"],
  reward_functions: flags.reward[0],
});

/** `base`: the fields of --file. Flags override them. */
export function bodyOf(flags: JobFlags, base: Body = {}): Body {
  if (flags.full && flags.lora.length > 0)
    throw new UsageError("jobs create: --full and --lora exclude each other. Give one of them.");
  const fields: Body = {
    base_model: flags.model,
    teacher_model: flags.teacher,
    method: flags.method,
    output_name: flags.output,
    seed: wholeOf("seed", flags.seed),
    priority: flags.priority,
    ...(flags.tag.length > 0 ? { tags: flags.tag } : {}),
    notes: flags.notes,
    group: flags.group,
    region: flags.region,
    provider: flags.provider,
    resume_from: flags["resume-from"],
    source_job: flags.clone,
    code_artifact_id: flags.code,
    command: flags.command,
    max_runtime_minutes: minutesOf(flags["max-runtime"]),
    max_cost_usd: amountOf("max-cost", flags["max-cost"]),
    ...(flags.set.length > 0
      ? { hyperparameters: { ...bag(base["hyperparameters"]), ...pairsOf("set", flags.set) } }
      : {}),
    ...(flags.full ? { lora: null } : {}),
    ...(flags.lora.length > 0
      ? { lora: { ...bag(base["lora"]), ...pairsOf("lora", flags.lora.flatMap(splitPairs)) } }
      : {}),
    ...(flags.gpus === undefined ? {} : { gpu: { ...bag(base["gpu"]), gpu_count: wholeOf("gpus", flags.gpus) } }),
    ...checkpointOf(flags, base),
    ...(flags.secret.length > 0 ? { secrets: flags.secret } : {}),
    ...(flags.volume.length > 0 ? { volumes: flags.volume.map(mountOf) } : {}),
    ...resourcesOf(flags, base),
    network: flags.network,
    ...(flags.env.length > 0 ? { env: { ...bag(base["env"]), ...Object.fromEntries(flags.env.map(variableOf)) } } : {}),
    ...(flags.publish ? { publish: true } : {}),
    hub_repo: flags["hub-repo"],
    hub_variant: flags["hub-variant"],
    ...(flags["hub-public"] ? { hub_private: false } : {}),
  };
  return { ...base, ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) };
}

function checkpointOf(flags: JobFlags, base: Body): Body {
  const fields = {
    save_steps: wholeOf("save-steps", flags["save-steps"]),
    keep_last: wholeOf("keep-last", flags["keep-last"]),
  };
  const set = Object.entries(fields).filter(([, value]) => value !== undefined);
  return set.length === 0 ? {} : { checkpoint: { ...bag(base["checkpoint"]), ...Object.fromEntries(set) } };
}

function resourcesOf(flags: JobFlags, base: Body): Body {
  const fields = {
    memory_mib: mibOf("memory", flags.memory),
    cpus: wholeOf("cpus", flags.cpus),
    disk_mib: mibOf("disk", flags.disk),
    gpu_memory_mib: mibOf("gpu-memory", flags["gpu-memory"]),
  };
  const set = Object.entries(fields).filter(([, value]) => value !== undefined);
  return set.length === 0 ? {} : { resources: { ...bag(base["resources"]), ...Object.fromEntries(set) } };
}

const MIB_OF = { M: 1, G: 1024, T: 1024 * 1024 };

/** Reads `512MiB`, `6GiB` or `1.5G`: powers of 1024. */
export function mibOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?) ?([MGT])(?:i?B)?$/i.exec(text.trim()) ?? [];
  const mib = Math.ceil(Number(number) * MIB_OF[unit.toUpperCase() as keyof typeof MIB_OF]);
  if (mib >= 1) return mib;
  throw new UsageError(`--${flag}: expected a size such as 512MiB or 6GiB, not ${JSON.stringify(text)}`);
}

/** Reads `EPOCHS=3`. The value is text. */
function variableOf(text: string): [name: string, value: string] {
  const [, name, value = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new UsageError(`--env: expected NAME=VALUE, not ${JSON.stringify(text)}`);
  return [name, value];
}

const bag = (value: unknown): Body => (typeof value === "object" && value !== null ? (value as Body) : {});

/** `r=16,alpha=32` → `r=16` and `alpha=32`; commas inside a list stay. */
const splitPairs = (text: string) => text.split(/,(?=[A-Za-z_]\w*=)/);

/** Reads `learning_rate=1e-4`. The value is JSON if it parses as JSON, otherwise text. */
export function pairsOf(flag: string, pairs: readonly string[]): Body {
  return Object.fromEntries(
    pairs.map((each) => {
      const [, key, value = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(each) ?? [];
      if (key === undefined) throw new UsageError(`--${flag}: expected NAME=VALUE, not ${JSON.stringify(each)}`);
      return [key, parsedOr(value)];
    }),
  );
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function minutesOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const ms = parseDuration(text);
  if (ms === undefined || ms < 60_000)
    throw new UsageError(
      `--max-runtime: expected a duration such as 30m or 2h, at least 1m, not ${JSON.stringify(text)}`,
    );
  return Math.ceil(ms / 60_000);
}

function amountOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const amount = Number(text);
  if (Number.isFinite(amount) && amount > 0) return amount;
  throw new UsageError(`--${flag}: expected an amount in USD such as 2.50, not ${JSON.stringify(text)}`);
}

/** Reads `lab:/data` or `lab:/workspace/lab:ro`. */
function mountOf(text: string) {
  const [, name, mount_path, readOnly] = /^([^:]+):(\/[^:]*?)(:ro)?$/.exec(text) ?? [];
  if (name === undefined)
    throw new UsageError(`--volume: expected NAME:/PATH or NAME:/PATH:ro, not ${JSON.stringify(text)}`);
  return { name, mount_path, ...(readOnly ? { read_only: true } : {}) };
}

/** Reads a name or an id (`rf_…`), with an optional weight: `length:0.2` or `length=0.2`. */
export function rewardOf(text: string): { id: string; weight: number } {
  const [, id = text, weight] = /^(.*)[:=](-?\d+(?:\.\d+)?)$/.exec(text) ?? [];
  return { id, weight: weight === undefined ? 1 : Number(weight) };
}
