/**
 * Builds the body of a new job from flags. It has only the given fields, so that the server's defaults apply to the
 * rest.
 */
import { UsageError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/time.ts";
import { wholeOf } from "../args.ts";

export type Body = Record<string, unknown>;

/** Flags of `verk jobs create` that become fields of the request. */
export type JobFlags = {
  model?: string | undefined;
  method?: string | undefined;
  output?: string | undefined;
  set: readonly string[];
  lora: readonly string[];
  full: boolean;
  seed?: string | undefined;
  priority?: string | undefined;
  gpus?: string | undefined;
  region?: string | undefined;
  provider?: string | undefined;
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
  publish: boolean;
};

/** `base`: the fields of --file. Flags override them. */
export function bodyOf(flags: JobFlags, base: Body = {}): Body {
  if (flags.full && flags.lora.length > 0)
    throw new UsageError("jobs create: --full and --lora exclude each other. Give one of them.");
  const fields: Body = {
    base_model: flags.model,
    method: flags.method,
    output_name: flags.output,
    seed: wholeOf("seed", flags.seed),
    priority: flags.priority,
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
    ...(flags.publish ? { publish: true } : {}),
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

/** Reads `lab:/data`. */
function mountOf(text: string) {
  const [, name, mount_path] = /^([^:]+):(\/[^:]*)$/.exec(text) ?? [];
  if (name === undefined) throw new UsageError(`--volume: expected NAME:/PATH, not ${JSON.stringify(text)}`);
  return { name, mount_path };
}

/** Reads a name or an id (`rf_…`), with an optional weight: `length:0.2` or `length=0.2`. */
export function rewardOf(text: string): { id: string; weight: number } {
  const [, id = text, weight] = /^(.*)[:=](-?\d+(?:\.\d+)?)$/.exec(text) ?? [];
  return { id, weight: weight === undefined ? 1 : Number(weight) };
}
