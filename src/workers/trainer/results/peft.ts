/**
 * Writes an adapter for Hugging Face PEFT: adapter_model.safetensors and adapter_config.json in a directory. Some
 * families rotate neighbours in GGUF files but halves in Hugging Face's layout, so their rows of q and k are in another
 * order. B is put back into that order. The files of other families have it already.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { UNCOUNTED, type Written, writeFileAtomic, writeStreamAtomic } from "../../../platform/files.ts";
import { encodeSafetensorsHeader, type TensorSpec } from "../../checkpoints/safetensors.ts";
import { pairsNeighbours } from "../engine/architecture.ts";
import { type Adapter, type AdapterLayer, mustBeProducts } from "./adapter.ts";
import { toBf16 } from "./hf_weights.ts";

export type PeftOptions = {
  heads: number;
  keyHeads: number;
  /** The model's name for `from_pretrained`, or null if it is unknown. */
  baseModel: string | null;
  dropout: number;
  dtype?: "F32" | "BF16";
};

// biome-ignore format: a table should look like one
const MODULES: Readonly<Record<string, string>> = {
  attn_q: "self_attn.q_proj", attn_k: "self_attn.k_proj", attn_v: "self_attn.v_proj", attn_output: "self_attn.o_proj",
  ffn_gate: "mlp.gate_proj", ffn_up: "mlp.up_proj", ffn_down: "mlp.down_proj",
};
/** phi3 has one matrix for queries, keys and values, and one for gate and up. */
const JOINED: Readonly<Record<string, string>> = { attn_qkv: "self_attn.qkv_proj", ffn_up: "mlp.gate_up_proj" };

/** The config is written last: if it exists, the weights are complete. */
export async function writePeft(dir: string, adapter: Adapter, options: PeftOptions): Promise<Written> {
  mustBeProducts(adapter);
  await mkdir(dir, { recursive: true });
  const written = await writeStreamAtomic(join(dir, "adapter_model.safetensors"), peftChunks(adapter, options), {
    meter: UNCOUNTED,
  });
  await writeFileAtomic(join(dir, "adapter_config.json"), `${JSON.stringify(peftConfig(adapter, options), null, 2)}\n`);
  return written;
}

function peftConfig(adapter: Adapter, { baseModel, dropout }: PeftOptions) {
  const modules = new Set(adapter.layers.map(({ name }) => moduleOf(name, adapter).split(".").at(-1)));
  return {
    alpha_pattern: {},
    auto_mapping: null,
    base_model_name_or_path: baseModel,
    bias: "none",
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    layer_replication: null,
    layers_pattern: null,
    layers_to_transform: null,
    lora_alpha: adapter.alpha,
    lora_dropout: dropout,
    modules_to_save: null,
    peft_type: "LORA",
    r: adapter.rank,
    rank_pattern: {},
    revision: null,
    target_modules: [...modules],
    task_type: "CAUSAL_LM",
    use_dora: false,
    use_rslora: adapter.rslora,
  };
}

function* peftChunks(adapter: Adapter, options: PeftOptions): Generator<Uint8Array> {
  const { rank, layers } = adapter;
  const { dtype = "F32" } = options;
  const specs = layers.flatMap(({ name, inputs, outputs }): TensorSpec[] => [
    { name: tensorName(name, "A", adapter), dtype, shape: [rank, inputs] },
    { name: tensorName(name, "B", adapter), dtype, shape: [outputs, rank] },
  ]);
  yield encodeSafetensorsHeader(specs, { format: "pt" });
  for (const layer of layers) {
    yield encode(layer.a, dtype);
    yield encode(peftB(layer, adapter, options), dtype);
  }
}

const tensorName = (name: string, half: "A" | "B", of: Adapter) =>
  `base_model.model.${moduleOf(name, of)}.lora_${half}.weight`;

function moduleOf(name: string, { architecture }: Pick<Adapter, "architecture">): string {
  if (name === "output.weight") return "lm_head";
  const [, layer, part = ""] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
  const module = (architecture === "phi3" ? JOINED[part] : undefined) ?? MODULES[part];
  if (layer === undefined || module === undefined) throw new Error(`PEFT has no name for ${name}`);
  return `model.layers.${layer}.${module}`;
}

type Heads = Pick<PeftOptions, "heads" | "keyHeads">;

function peftB({ name, outputs, b }: AdapterLayer, { architecture, rank }: Adapter, { heads, keyHeads }: Heads) {
  const part = /\.attn_([qk])\.weight$/.exec(name)?.[1];
  if (!pairsNeighbours(architecture) || part === undefined) return b;
  return halvesFromNeighbours(b, outputs, rank, part === "q" ? heads : keyHeads);
}

/** Row 2j + s of a head, half s of pair j, becomes row s · length/2 + j. */
export function halvesFromNeighbours(rows: Float32Array, outputs: number, width: number, heads: number): Float32Array {
  const half = outputs / heads / 2;
  if (!Number.isInteger(half)) throw new Error(`${outputs} rows are not ${heads} heads of an even length`);
  const out = new Float32Array(rows.length);
  for (let row = 0; row < outputs; row++) {
    const within = row % (2 * half);
    const to = row - within + (within % 2) * half + Math.floor(within / 2);
    out.set(rows.subarray(row * width, (row + 1) * width), to * width);
  }
  return out;
}

function encode(values: Float32Array, dtype: "F32" | "BF16"): Uint8Array {
  if (dtype === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return new Uint8Array(Uint16Array.from(bits, toBf16).buffer);
}
