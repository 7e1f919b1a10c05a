/** The body of a creation from flags: only what was asked for, so that the server's defaults hold for the rest. */
import { UsageError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/time.ts";
import { wholeOf } from "../args.ts";

export type Body = Record<string, unknown>;

/** Flags of `verk jobs create` that become fields as they are. */
export type Wish = {
  model?: string | undefined;
  method?: string | undefined;
  output?: string | undefined;
  set: readonly string[];
  lora: readonly string[];
  full: boolean;
  seed?: string | undefined;
  priority?: string | undefined;
  gpus?: string | undefined;
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

/** `given`: the fields of --file; a flag stands over them. */
export function bodyOf(wish: Wish, given: Body = {}): Body {
  if (wish.full && wish.lora.length > 0) throw new UsageError("jobs create: --full and --lora exclude each other");
  const fields: Body = {
    base_model: wish.model,
    method: wish.method,
    output_name: wish.output,
    seed: wholeOf("seed", wish.seed),
    priority: wish.priority,
    resume_from: wish["resume-from"],
    source_job: wish.clone,
    code_artifact_id: wish.code,
    command: wish.command,
    max_runtime_minutes: minutesOf(wish["max-runtime"]),
    max_cost_usd: amountOf("max-cost", wish["max-cost"]),
    ...(wish.set.length > 0
      ? { hyperparameters: { ...bag(given["hyperparameters"]), ...pairsOf("set", wish.set) } }
      : {}),
    ...(wish.full ? { lora: null } : {}),
    ...(wish.lora.length > 0
      ? { lora: { ...bag(given["lora"]), ...pairsOf("lora", wish.lora.flatMap(splitPairs)) } }
      : {}),
    ...(wish.gpus === undefined ? {} : { gpu: { ...bag(given["gpu"]), gpu_count: wholeOf("gpus", wish.gpus) } }),
    ...checkpointOf(wish, given),
    ...(wish.secret.length > 0 ? { secrets: wish.secret } : {}),
    ...(wish.volume.length > 0 ? { volumes: wish.volume.map(mountOf) } : {}),
    ...(wish.publish ? { publish: true } : {}),
  };
  return { ...given, ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) };
}

function checkpointOf(wish: Wish, given: Body): Body {
  const asked = {
    save_steps: wholeOf("save-steps", wish["save-steps"]),
    keep_last: wholeOf("keep-last", wish["keep-last"]),
  };
  const set = Object.entries(asked).filter(([, value]) => value !== undefined);
  return set.length === 0 ? {} : { checkpoint: { ...bag(given["checkpoint"]), ...Object.fromEntries(set) } };
}

const bag = (value: unknown): Body => (typeof value === "object" && value !== null ? (value as Body) : {});

/** `r=16,alpha=32` → `r=16` and `alpha=32`; commas inside a list stay. */
const splitPairs = (text: string) => text.split(/,(?=[A-Za-z_]\w*=)/);

/** `learning_rate=1e-4`: JSON where the value is that, else text. */
export function pairsOf(flag: string, given: readonly string[]): Body {
  return Object.fromEntries(
    given.map((each) => {
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
    throw new UsageError(`--max-runtime: expected 30m or 2h, at least 1m, not ${JSON.stringify(text)}`);
  return Math.ceil(ms / 60_000);
}

function amountOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const amount = Number(text);
  if (Number.isFinite(amount) && amount > 0) return amount;
  throw new UsageError(`--${flag}: expected an amount such as 2.50, not ${JSON.stringify(text)}`);
}

/** `lab:/data` */
function mountOf(text: string) {
  const [, name, mount_path] = /^([^:]+):(\/[^:]*)$/.exec(text) ?? [];
  if (name === undefined) throw new UsageError(`--volume: expected NAME:/PATH, not ${JSON.stringify(text)}`);
  return { name, mount_path };
}

/** `exact_match`, `rf_…` or either with its weight behind a colon, `length:0.2`. */
export function rewardOf(text: string): { id: string; weight: number } {
  const [, id = text, weight] = /^(.*):(-?\d+(?:\.\d+)?)$/.exec(text) ?? [];
  return { id, weight: weight === undefined ? 1 : Number(weight) };
}
