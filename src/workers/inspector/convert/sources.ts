/** Finds the tensors of a GGUF file in the shards of a Hugging Face folder. */

import { CheckpointError, type Family } from "../../../lib/checkpoints/families.ts";
import { type MixedModel, mixedType, type Quantization, type StoredType } from "../../../lib/checkpoints/mix.ts";
import { WEIGHT_BYTES } from "../../../lib/checkpoints/numbers.ts";
import type { TensorSource } from "../../../lib/gguf/write.ts";
import { type Config, count, headLength } from "../../checkpoints/config.ts";
import { ropeTensors } from "../../checkpoints/rope.ts";
import { type TensorName, tensorNames } from "../../checkpoints/tensors.ts";
import type { Encode } from "./encode.ts";
import { type StoredTensor, shown } from "./folder.ts";
import { columnsOf, mxfp4Rows, rowsOf, scaleOf, strided, transposedRows } from "./rows.ts";

export type Quantize = Quantization | null;
/** The types of the new file, and how to make them. */
export type Target = { quantize: Quantize; encode: Encode };
type Tensors = ReadonlyMap<string, StoredTensor>;

export const MAX_LAYERS = 512;
const MAX_EXPERTS = 1024;
/** Parts of models with images that the language model does not need. */
const IGNORED = /(^|\.)(vision_tower|vision_model|multi_modal_projector|audio_tower|embed_audio|embed_vision)\./;

export function sourcesOf(family: Family, config: Config, stored: Tensors, target: Target): TensorSource[] {
  const tensors = languageTensors(stored);
  const layers = count(config, "num_hidden_layers");
  const experts = family.experts ? count(config, family.experts === "packed" ? "num_local_experts" : "num_experts") : 0;
  if (layers < 1 || layers > MAX_LAYERS || experts > MAX_EXPERTS)
    throw new CheckpointError(`config.json has ${layers} layers and ${experts} experts, which is out of range`);
  const used = new Set<string>();
  const sources: TensorSource[] = [];
  const heads = count(config, "num_attention_heads");
  const kvHeads = config.num_key_value_heads === undefined ? heads : count(config, "num_key_value_heads");
  const model = {
    architecture: family.architecture,
    layers,
    experts,
    heads,
    kvHeads,
    hasOutput: hasOutput(config, tensors),
  };
  for (const name of tensorNames(family, { layers, experts })) {
    const source = sourceOf({ name, tensors, config, used, model, ...target });
    if (source) sources.push(source);
    if (name.gguf !== "output_norm.weight") continue;
    for (const [gguf, values] of ropeTensors(config, headLength(config))) sources.push(constant(gguf, values));
  }
  for (const [name, { file }] of tensors) {
    if (used.has(name) || isExtra(name, tensors)) continue;
    throw new CheckpointError(`${file} has the tensor ${shown(name)}, which a ${family.classes[0]} does not have`);
  }
  return sources;
}

/** Names without the prefixes of models that also have images. */
function languageTensors(stored: Tensors): Tensors {
  const tensors = new Map<string, StoredTensor>();
  for (const [name, tensor] of stored) {
    if (IGNORED.test(name)) continue;
    const plain = name.replace(/^(language_model\.|model\.language_model\.)/, (prefix) =>
      prefix.startsWith("model.") ? "model." : "",
    );
    if (tensors.has(plain)) throw new CheckpointError(`The folder has the tensor ${shown(plain)} under two names`);
    tensors.set(plain, tensor);
  }
  return tensors;
}

/** The output matrix of a model with tied embeddings, factors of other tensors, and tables that are computed. */
const isExtra = (name: string, tensors: Tensors) =>
  name === "lm_head.weight" ||
  /\.rotary_emb\.inv_freq$/.test(name) ||
  (/_(scale|scale_inv)$/.test(name) && tensors.has(name.replace(/_(scale|scale_inv)$/, ""))) ||
  (/\.(input_scale|activation_scale)$/.test(name) && tensors.has(name.replace(/\.[a-z_]+$/, ".weight")));

const hasOutput = ({ tie_word_embeddings: tied }: Config, tensors: Tensors) =>
  tied === undefined ? tensors.has("lm_head.weight") : tied !== true;

type Typing = Target & { model: MixedModel };
type Search = Typing & { name: TensorName; tensors: Tensors; config: Config; used: Set<string> };

export function sourceOf({ name, tensors, config, used, ...typing }: Search): TensorSource | undefined {
  const { gguf, hf, change, optional } = name;
  if (gguf === "output.weight" && !typing.model.hasOutput) return undefined;
  const [first = ""] = hf;
  if (tensors.has(`${first}_blocks`)) return mxfp4(name, tensors, used);
  if (optional && gguf !== "output.weight" && hf.every((each) => !tensors.has(each))) return undefined;
  const parts = hf.map((each) => take(each, tensors, used));
  const [one] = parts;
  if (!one) throw new CheckpointError(`config.json has no experts for ${gguf}`);
  const different = parts.find(({ shape, dtype }) => shape.join() !== one.shape.join() || dtype !== one.dtype);
  if (different)
    throw new CheckpointError(`Tensor ${shown(different.name)} has another shape or type than ${shown(one.name)}`);
  if (one.shape.some((size) => size < 1))
    throw new CheckpointError(`Tensor ${shown(one.name)} is empty: its shape is [${one.shape.join(", ")}]`);
  if (change === "even_rows" || change === "odd_rows" || change === "transpose") return packed(name, one, typing);
  const dims = [...one.shape].reverse();
  if (change === "stack") dims.push(parts.length);
  const type = typeFor(gguf, dims, one.dtype, typing);
  const head = change === "rotate_q" || change === "rotate_k" ? headLength(config) : 1;
  if (head > 1 && (head % 2 !== 0 || (one.shape[0] ?? 0) % head !== 0))
    throw new CheckpointError(
      `Tensor ${shown(one.name)} has ${one.shape[0]} rows, which is not a multiple of the head length ${head}`,
    );
  return {
    name: gguf,
    type,
    dims,
    async *content() {
      for (const part of parts) {
        const factor = WEIGHT_BYTES[part.dtype] === 1 ? factorFor(part, tensors) : undefined;
        const scale = factor && (await scaleOf(part, factor));
        // A bias is a column: each of its values is a row.
        const rows = head > 1 && part.shape.length === 1 ? { ...part, shape: [...part.shape, 1] } : part;
        yield* rowsOf(rows, { type, encode: typing.encode, headLength: head, addOne: change === "add_one", scale });
      }
    },
  };
}

function take(name: string, tensors: Tensors, used: Set<string>): StoredTensor {
  const tensor = tensors.get(name);
  if (!tensor) throw new CheckpointError(`Tensor ${shown(name)} is missing: the folder is incomplete`);
  if (WEIGHT_BYTES[tensor.dtype] === undefined)
    throw new CheckpointError(
      `Tensor ${shown(name)} has the type ${tensor.dtype}: quantized weights are not supported, use the original model`,
    );
  if (tensor.shape.length < 1 || tensor.shape.length > 4)
    throw new CheckpointError(`Tensor ${shown(name)} has ${tensor.shape.length} dimensions. Expected 1 to 4`);
  used.add(name);
  return tensor;
}

/** FP8 weights have a factor under one of two names. */
function factorFor({ name }: StoredTensor, tensors: Tensors): StoredTensor {
  const plain = name.replace(/^(language_model\.|model\.language_model\.)/, (prefix) =>
    prefix.startsWith("model.") ? "model." : "",
  );
  const scale = tensors.get(`${plain}_scale_inv`) ?? tensors.get(`${plain}_scale`);
  if (!scale)
    throw new CheckpointError(`Tensor ${shown(name)} is FP8, but the folder has no ${shown(`${plain}_scale`)}`);
  return scale;
}

const EXACT = /ffn_gate_inp|^token_types\.|^position_embd\./;

/** Vectors, biases, the router and the tables of an encoder stay exact. Matrices keep their type, or become the wanted one. */
function typeFor(gguf: string, dims: readonly number[], dtype: string, { quantize, model }: Typing): StoredType {
  if (dims.length === 1 || gguf.endsWith(".bias") || EXACT.test(gguf)) return "F32";
  const plain = dtype === "F32" || dtype === "F16" ? dtype : "BF16";
  return quantize === null ? plain : (mixedType(quantize, { name: gguf, columns: dims[0] ?? 0 }, model) ?? plain);
}

function packed({ gguf, change }: TensorName, tensor: StoredTensor, typing: Typing): TensorSource {
  const [first, step] = change === "transpose" ? [0, 1] : [change === "odd_rows" ? 1 : 0, 2];
  const { shape } = tensor;
  if (columnsOf(tensor) % step !== 0 || shape.length !== (gguf.endsWith(".bias") ? 2 : 3))
    throw new CheckpointError(
      `Tensor ${shown(tensor.name)} has the shape [${shape.join(", ")}], which is not supported`,
    );
  const [experts = 0, columns = 0, rows = 0] = shape;
  if (shape.length === 2)
    return { name: gguf, type: "F32", dims: [columns / step, experts], content: () => strided(tensor, first, step) };
  const dims = [columns, rows / step, experts];
  const wanted = { type: typeFor(gguf, dims, tensor.dtype, typing), encode: typing.encode };
  return { name: gguf, type: wanted.type, dims, content: () => transposedRows(tensor, wanted, first, step) };
}

function mxfp4({ gguf, hf, change }: TensorName, tensors: Tensors, used: Set<string>): TensorSource {
  const [blocks, scales] = ["_blocks", "_scales"].map((end) => tensors.get(`${hf[0]}${end}`));
  const fits =
    blocks?.dtype === "U8" &&
    scales?.dtype === "U8" &&
    blocks.shape.length === 4 &&
    blocks.shape[3] === 16 &&
    scales.shape.join() === blocks.shape.slice(0, 3).join();
  const [experts = 0, rows = 0, perRow = 0] = blocks?.shape ?? [];
  const [first, step] = change === "transpose" ? [0, 1] : [change === "odd_rows" ? 1 : 0, 2];
  if (!blocks || !scales || !fits || rows % step !== 0)
    throw new CheckpointError(`Tensors ${shown(`${hf[0]}_blocks`)} and _scales are not MXFP4 weights`);
  for (const { name } of [blocks, scales]) used.add(name);
  return {
    name: gguf,
    type: "MXFP4",
    dims: [perRow * 32, rows / step, experts],
    content: () => mxfp4Rows(blocks, scales, first, step),
  };
}

const constant = (name: string, values: readonly number[]): TensorSource => ({
  name,
  type: "F32",
  dims: [values.length],
  content: () => [new Uint8Array(Float32Array.from(values).buffer)],
});
