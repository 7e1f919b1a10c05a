/**
 * Describes a model from its header, or rejects it. Within these ranges native code neither divides by zero, nor
 * asserts, nor requests absurd memory. An assertion there would end the whole worker.
 */
import { MODULES } from "../training/lora.ts";
import { checkArchitecture, expertsOf, type Hyperparameters } from "./architecture.ts";
import { count, countPerLayer, float, missing, string } from "./facts.ts";
import { GgufError, type Header, quoted } from "./parse.ts";
import { encoderOf, refuseProjector } from "./pooling.ts";
import { whyNotRunnable } from "./runnable.ts";
import type { ModelShape } from "./shape.ts";
import { FILE_TYPES } from "./types.ts";
import { vocabularyOf } from "./vocabulary.ts";

const MAX_LAYERS = 512; // size of native arrays
const LENGTH = { min: 1, max: 1 << 20 };
const CONTEXT = { min: 1, max: 1 << 30 };
const HEADS = { min: 0, max: 4096 };
const HEAD_LENGTH = { min: 1, max: 8192 };
const ROPE_SCALINGS = ["none", "linear", "yarn", "longrope"];

/** Describes a model that is to be served here. Rejects one that never can be. */
export function describeServed(header: Header): ModelShape {
  const architecture = string(header, "general.architecture");
  const isModel = string(header, "general.type") !== "adapter";
  const why = architecture !== undefined && isModel ? whyNotRunnable(architecture) : undefined;
  if (why !== undefined) throw new GgufError(`The model cannot be served: ${why}`);
  return describe(header);
}

export function describe(header: Header): ModelShape {
  const architecture = string(header, "general.architecture") ?? missing("general.architecture");
  if (!/^[a-z0-9][a-z0-9._-]{0,63}$/i.test(architecture))
    throw new GgufError(`general.architecture is ${quoted(architecture)}, which is not a valid name`);
  if (Number(header.metadata.get("split.count")?.value ?? 0) > 1)
    throw new GgufError(
      "This file is one part of a split model. Import it with all parts in one folder, under their own names",
    );
  refuseProjector(header, architecture);
  if (header.tensors.size === 0) throw new GgufError("The file has no tensors: it is a vocabulary, not a model");
  const isAdapter = string(header, "general.type") === "adapter";
  return isAdapter ? describeAdapter(header, architecture) : describeModel(header, architecture);
}

function describeModel(header: Header, architecture: string): ModelShape {
  const key = (name: string) => `${architecture}.${name}`;
  const layers = count(header, key("block_count"), { min: 1, max: MAX_LAYERS });
  const embedding = count(header, key("embedding_length"), LENGTH);
  const heads = countPerLayer(header, key("attention.head_count"), layers, HEADS) ?? Array<number>(layers).fill(0);
  const kvHeads = countPerLayer(header, key("attention.head_count_kv"), layers, HEADS) ?? heads;
  const firstHeads = heads[0] || 1;
  const defaultLength = Math.max(1, Math.floor(embedding / firstHeads));
  const keyLength = count(header, key("attention.key_length"), HEAD_LENGTH, Math.min(defaultLength, HEAD_LENGTH.max));
  const valueLength = count(
    header,
    key("attention.value_length"),
    HEAD_LENGTH,
    Math.min(defaultLength, HEAD_LENGTH.max),
  );
  const vocab = vocabularyOf(header, architecture);
  const hyperparameters: Hyperparameters = {
    architecture,
    layers,
    embedding,
    heads,
    kvHeads,
    keyLength,
    valueLength,
    vocab,
  };
  checkRope(header, key);
  const experts = expertsOf(header, hyperparameters);
  checkArchitecture(header, hyperparameters);
  return {
    ...common(header, architecture),
    ...encoderOf(header, architecture),
    context_length: count(header, key("context_length"), CONTEXT),
    layers,
    embedding_length: embedding,
    heads: Math.max(1, ...heads),
    kv_heads: Math.max(1, ...kvHeads),
    key_length: keyLength,
    value_length: valueLength,
    vocab_size: vocab,
    type: "model",
    ...(experts && { experts }),
  };
}

/** A LoRA file has no hyperparameters of its own; its model has them. */
function describeAdapter(header: Header, architecture: string): ModelShape {
  const kind = string(header, "adapter.type") ?? missing("adapter.type");
  if (kind !== "lora") throw new GgufError(`adapter.type is ${quoted(kind)}, but only lora is supported`);
  const alpha = float(header, "adapter.lora.alpha", { min: 0, max: 1e6 }) ?? missing("adapter.lora.alpha");
  for (const { name, dims } of header.tensors.values()) {
    const base = /^(.*)\.lora_([ab])$/.exec(name);
    if (!base) continue;
    const other = header.tensors.get(`${base[1]}.lora_${base[2] === "a" ? "b" : "a"}`);
    if (!other) throw new GgufError(`Tensor ${quoted(name)} has no matching second matrix`);
    const [a, b] = base[2] === "a" ? [dims, other.dims] : [other.dims, dims];
    if (a.length !== 2 || b.length !== 2 || a[1] !== b[0])
      throw new GgufError(`Tensors ${quoted(base[1] ?? "")}.lora_a and .lora_b have different ranks`);
  }
  const blocks = [...header.tensors.keys()].map((name) => Number(/^blk\.(\d{1,4})\./.exec(name)?.[1] ?? 0));
  const one = { context_length: 1, heads: 1, kv_heads: 1, key_length: 1, value_length: 1 };
  const layers = Math.max(0, ...blocks) + 1;
  return {
    ...common(header, architecture),
    ...one,
    embedding_length: widthOf(header),
    layers,
    vocab_size: 1,
    type: "adapter",
    ...loraOf(header, alpha),
  };
}

/** Nothing for an adapter whose matrices have different ranks, or which changes other matrices than LoRA trains here. */
function loraOf({ tensors }: Header, alpha: number): Pick<ModelShape, "lora"> {
  const names = Object.entries(MODULES);
  const [ranks, targets] = [new Set<number>(), new Set<string>()];
  for (const { name, dims } of tensors.values()) {
    const part = /^blk\.\d+\.(\w+)\.weight\.lora_([ab])$/.exec(name);
    const module = names.find(([, gguf]) => gguf === part?.[1])?.[0];
    if (module === undefined) return {};
    targets.add(module);
    if (part?.[2] === "a") ranks.add(dims[1] ?? 0);
  }
  const [r] = ranks;
  if (!r || ranks.size > 1) return {};
  return { lora: { r, alpha: alpha || r, target_modules: [...targets] } }; // llama.cpp: alpha 0 is a scale of 1
}

/** The model's width: the inputs of a matrix that reads the residual stream. 1: the adapter has no such matrix. */
function widthOf(header: Header): number {
  for (const { name, dims } of header.tensors.values())
    if (/\.(attn_q|attn_k|attn_v|attn_qkv|ffn_gate|ffn_up)\.weight\.lora_a$/.test(name)) return dims[0] ?? 1;
  return 1;
}

function common(header: Header, architecture: string) {
  let parameters = 0;
  for (const { elements } of header.tensors.values()) parameters += elements;
  if (!Number.isSafeInteger(parameters)) throw new GgufError("The tensors have more elements than any model has");
  const name = string(header, "general.name");
  return {
    architecture,
    parameters,
    quantization: quantizationOf(header),
    weight_bytes: header.dataBytes,
    name: name === undefined ? null : name.replaceAll(/\p{Cc}/gu, " ").slice(0, 200),
    has_chat_template: (string(header, "tokenizer.chat_template") ?? "") !== "",
  };
}

/** Returns the quantization that the file names, or the type of most bytes. */
function quantizationOf(header: Header): string {
  const said = header.metadata.get("general.file_type");
  const name = said?.type === "uint32" ? FILE_TYPES.get(said.value as number) : undefined;
  if (name) return name;
  const bytes = new Map<string, number>();
  for (const { type, bytes: more } of header.tensors.values()) bytes.set(type.name, (bytes.get(type.name) ?? 0) + more);
  return [...bytes].reduce((most, next) => (next[1] > most[1] ? next : most))[0];
}

function checkRope(header: Header, key: (name: string) => string) {
  const scaling = string(header, key("rope.scaling.type"));
  if (scaling !== undefined && !ROPE_SCALINGS.includes(scaling))
    throw new GgufError(
      `${key("rope.scaling.type")} is ${quoted(scaling)}. Expected one of ${ROPE_SCALINGS.join(", ")}`,
    );
  float(header, key("rope.freq_base"), { min: 1e-3, max: 1e12 });
  float(header, key("rope.scaling.factor"), { min: 0, max: 1e6 });
  float(header, key("rope.scale_linear"), { min: 0, max: 1e6 });
}
