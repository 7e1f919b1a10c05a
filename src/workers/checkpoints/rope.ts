/** Rotary positions in both formats. */
import { CheckpointError, type Family } from "../../lib/checkpoints/families.ts";
import { type Config, type Facts, round } from "./values.ts";

type Rope = Readonly<Record<string, unknown>>;

/** Older configs have `rope_theta` and `rope_scaling`; newer ones `rope_parameters`, for Gemma one for each kind of layer. */
function ropeParameters(config: Config): Rope {
  const parameters = (config.rope_parameters ?? config.rope_scaling ?? {}) as Rope;
  const full = (parameters.full_attention ?? parameters) as Rope;
  const local = (parameters.sliding_attention as Rope | undefined)?.rope_theta ?? config.rope_local_base_freq;
  return {
    rope_theta: config.rope_theta,
    original_max_position_embeddings: config.original_max_position_embeddings,
    partial_rotary_factor: config.partial_rotary_factor,
    ...full,
    rope_type: full.rope_type ?? full.type ?? "default",
    local,
  };
}

export function ropeOf(config: Config, family: Family, headLength: number): Facts {
  const rope = ropeParameters(config);
  const facts: Facts = new Map();
  const float = (key: string, name: string, fallback?: number) => {
    const value = numberOr(rope, name, fallback);
    if (value !== undefined) facts.set(key, { type: "float32", value });
  };
  float("rope.freq_base", "rope_theta", family.normsFromZero ? undefined : 10_000);
  if (family.architecture === "gemma3") float("rope.freq_base_swa", "local", 10_000);
  const rotated = Math.floor(headLength * (numberOr(rope, "partial_rotary_factor") ?? 1));
  if (family.rotated || family.fused) facts.set("rope.dimension_count", { type: "uint32", value: rotated });
  const original = numberOr(rope, "original_max_position_embeddings");
  const setOriginal = () => {
    if (original !== undefined) facts.set("rope.scaling.original_context_length", { type: "uint32", value: original });
  };
  if (family.fused) setOriginal();
  const type = String(rope.rope_type).toLowerCase();
  if (type === "linear" || type === "yarn") {
    facts.set("rope.scaling.type", { type: "string", value: type });
    float("rope.scaling.factor", "factor", 1);
  }
  if (type === "yarn") {
    setOriginal();
    float("rope.scaling.yarn_attn_factor", "attention_factor");
    float("rope.scaling.yarn_beta_fast", "beta_fast");
    float("rope.scaling.yarn_beta_slow", "beta_slow");
    if (family.architecture === "mistral3") {
      float("rope.scaling.yarn_log_multiplier", "mscale_all_dim");
      float("attention.temperature_scale", "llama_4_scaling_beta");
    }
  } else if (type === "longrope" || type === "su") {
    facts.set("rope.scaling.type", { type: "string", value: "longrope" });
    const context = numberOr(config, "max_position_embeddings") ?? 1;
    facts.set("rope.scaling.attn_factor", { type: "float32", value: longFactor(context, original ?? context) });
  } else if (!["default", "linear", "llama3"].includes(type))
    throw new CheckpointError(`config.json: rope scaling ${JSON.stringify(type.slice(0, 40))} is not supported`);
  return facts;
}

function longFactor(context: number, original: number): number {
  const scale = context / original;
  return scale > 1 ? Math.sqrt(1 + Math.log(scale) / Math.log(original)) : 1;
}

/** Tensors that GGUF has and Hugging Face computes from the config: the factors of llama3 and longrope. */
export function ropeTensors(config: Config, headLength: number): Map<string, number[]> {
  const rope = ropeParameters(config);
  const type = String(rope.rope_type).toLowerCase();
  if (type === "llama3") return new Map([["rope_freqs.weight", llama3Factors(rope, headLength)]]);
  if (type !== "longrope" && type !== "su") return new Map();
  const half = Math.floor(headLength * (numberOr(rope, "partial_rotary_factor") ?? 1)) / 2;
  const factors = (name: string): number[] => {
    const values = rope[name];
    if (!Array.isArray(values) || values.length !== half || values.some((value) => !Number.isFinite(value)))
      throw new CheckpointError(`config.json: ${name} of the rope scaling must be ${half} numbers`);
    return values;
  };
  return new Map([
    ["rope_factors_long.weight", factors("long_factor")],
    ["rope_factors_short.weight", factors("short_factor")],
  ]);
}

function llama3Factors(rope: Rope, headLength: number): number[] {
  const value = (name: string, fallback: number) => numberOr(rope, name, fallback) as number;
  const [base, factor] = [value("rope_theta", 10_000), value("factor", 8)];
  const [low, high] = [value("low_freq_factor", 1), value("high_freq_factor", 4)];
  const context = value("original_max_position_embeddings", 8192);
  return Array.from({ length: headLength / 2 }, (_, i) => {
    const wave = 2 * Math.PI * base ** ((2 * i) / headLength);
    if (wave < context / high) return 1;
    if (wave > context / low) return factor;
    const smooth = (context / wave - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

/** The reverse: keys of config.json from metadata. Factors that are tensors in GGUF are not restored. */
export function scalingOf(metadata: ReadonlyMap<string, unknown>, family: Family, headLength: number): Config {
  const float = (key: string) => {
    const value = metadata.get(key);
    return typeof value === "number" ? round(value) : undefined;
  };
  const config: Record<string, unknown> = {};
  const set = (into: Record<string, unknown>, name: string, value: unknown) => {
    if (value !== undefined) into[name] = value;
  };
  set(config, "rope_theta", float("rope.freq_base"));
  set(config, "rope_local_base_freq", float("rope.freq_base_swa"));
  if (family.fused) {
    const rotated = float("rope.dimension_count") ?? headLength;
    if (rotated !== headLength) config.partial_rotary_factor = rotated / headLength;
    set(config, "original_max_position_embeddings", float("rope.scaling.original_context_length"));
  }
  const type = metadata.get("rope.scaling.type");
  if (type !== "linear" && type !== "yarn") return config;
  const scaling: Record<string, unknown> = { rope_type: type };
  set(scaling, "factor", float("rope.scaling.factor"));
  set(scaling, "original_max_position_embeddings", float("rope.scaling.original_context_length"));
  set(scaling, "attention_factor", float("rope.scaling.yarn_attn_factor"));
  set(scaling, "beta_fast", float("rope.scaling.yarn_beta_fast"));
  set(scaling, "beta_slow", float("rope.scaling.yarn_beta_slow"));
  set(scaling, "mscale_all_dim", float("rope.scaling.yarn_log_multiplier"));
  set(scaling, "mscale", scaling.mscale_all_dim); // transformers divides the two; without one it scales attention
  set(scaling, "llama_4_scaling_beta", float("attention.temperature_scale"));
  if (family.architecture === "gpt-oss") scaling.truncate = false; // as every model of the family
  return { ...config, rope_scaling: scaling };
}

function numberOr(from: Rope, key: string, fallback?: number): number | undefined {
  const value = from[key] ?? fallback;
  if (value === undefined || (typeof value === "number" && Number.isFinite(value))) return value;
  throw new CheckpointError(`config.json: ${key} is ${JSON.stringify(value)?.slice(0, 60)}, not a number`);
}
