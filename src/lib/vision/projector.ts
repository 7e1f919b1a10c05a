/**
 * Describes a projector (mmproj): a vision encoder whose output is put into the prompt of a language model. It checks every
 * tensor that the encoder uses, because native code would end the worker on a wrong shape. Pure.
 */
import { array, count, float, missing, optionalTensor, string, tensor } from "../gguf/facts.ts";
import { GgufError, type Header, quoted } from "../gguf/parse.ts";

const PROJECTORS = ["mlp", "idefics3", "gemma3"] as const;
export type ProjectorKind = (typeof PROJECTORS)[number];
export type Activation = "gelu" | "gelu_quick" | "silu";

export type Projector = {
  kind: ProjectorKind;
  /** Side of the square that the encoder reads, in pixels. */
  imageSize: number;
  patchSize: number;
  width: number;
  heads: number;
  /** Layers that are computed. */
  layers: number;
  epsilon: number;
  activation: Activation;
  mean: readonly number[];
  deviation: readonly number[];
  /** This many patches in each direction become one row. */
  merge: number;
  /** A class token goes before the patches. */
  hasClass: boolean;
  /** Older files have the two matrices of a layer's network under each other's name. */
  isSwapped: boolean;
  /** Longest side of an image before it is cut into squares, or 0. */
  longestEdge: number;
  /** Rows that one square becomes, and their length: the width of the language model. */
  rows: number;
  outputs: number;
  weightBytes: number;
};

/** Every row of a square sees all others (Gemma 3), so all of them are decoded in one batch of at most this many. */
const MOST_TOGETHER = 512;
const MOST_PATCHES = 16_384;
const SIDE = { min: 1, max: 4096 };
const WIDTH = { min: 1, max: 16_384 };
const key = (name: string) => `clip.vision.${name}`;

const isProjector = (header: Header): boolean =>
  string(header, "general.architecture") === "clip" || string(header, "general.type") === "mmproj";

export function describeProjector(header: Header): Projector {
  if (!isProjector(header))
    throw new GgufError("The file is not a projector for images (mmproj): its architecture is not clip");
  const kind = kindOf(header);
  const [imageSize, patchSize] = [count(header, key("image_size"), SIDE), count(header, key("patch_size"), SIDE)];
  const width = count(header, key("embedding_length"), WIDTH);
  const heads = count(header, key("attention.head_count"), { min: 1, max: 1024 });
  const blocks = count(header, key("block_count"), { min: 1, max: 512 });
  const merge = mergeOf(header, kind);
  const side = imageSize / patchSize;
  if (!Number.isInteger(side) || side % merge !== 0 || side ** 2 > MOST_PATCHES)
    throw new GgufError(`${key("image_size")} is ${imageSize}, which does not fit patches of ${patchSize} × ${merge}`);
  if (width % heads !== 0)
    throw new GgufError(`${key("embedding_length")} is ${width}, which ${heads} heads cannot share`);
  const rows = (side / merge) ** 2;
  if (kind === "gemma3" && rows > MOST_TOGETHER)
    throw new GgufError(`An image has ${rows} rows; the maximum for gemma3 is ${MOST_TOGETHER}`);
  const isSwapped = header.tensors.get("v.blk.0.ffn_down.weight")?.dims[0] === width;
  const projector: Projector = {
    kind,
    imageSize,
    patchSize,
    width,
    heads,
    merge,
    rows,
    isSwapped,
    layers: kind === "mlp" ? blocks - 1 : blocks, // LLaVA reads the last layer but one
    epsilon:
      float(header, key("attention.layer_norm_epsilon"), { min: 0, max: 1 }) ??
      missing(key("attention.layer_norm_epsilon")),
    activation: flag(header, "clip.use_gelu") ? "gelu" : flag(header, "clip.use_silu") ? "silu" : "gelu_quick",
    mean: three(header, key("image_mean")),
    deviation: three(header, key("image_std")),
    hasClass: kind === "mlp" && header.tensors.has("v.class_embd"),
    longestEdge: count(header, key("preproc_image_size"), { min: 0, max: 4096 }, 0),
    outputs: outputsOf(header, kind),
    weightBytes: header.dataBytes,
  };
  if (projector.deviation.includes(0)) throw new GgufError(`${key("image_std")} has a zero`);
  checkTensors(header, projector);
  return projector;
}

/** The sentence names the projector, because its name is what a user can search for. */
function kindOf(header: Header): ProjectorKind {
  const name = string(header, "clip.projector_type") ?? string(header, key("projector_type"));
  const kind = PROJECTORS.find((each) => each === name);
  const wants = `Verk reads images with ${PROJECTORS.join(", ")}`;
  if (flag(header, "clip.has_vision_encoder") === false) throw new GgufError(`The projector reads no images. ${wants}`);
  if (!kind) throw new GgufError(`The projector ${quoted(name ?? "without a name")} is not supported. ${wants}`);
  if (kind === "mlp" && header.metadata.has(key("image_grid_pinpoints")))
    throw new GgufError(`The projector "mlp" with image_grid_pinpoints (LLaVA 1.6) is not supported. ${wants}`);
  if (kind === "mlp" && header.tensors.has("mm.3.weight"))
    throw new GgufError(`The projector "mlp" with norms (Yi-VL) is not supported. ${wants}`);
  return kind;
}

function mergeOf(header: Header, kind: ProjectorKind): number {
  if (kind === "mlp") return 1;
  const scale = { min: 1, max: 64 };
  return count(header, key("projector.scale_factor"), scale, kind === "gemma3" ? 4 : undefined);
}

function outputsOf({ tensors }: Header, kind: ProjectorKind): number {
  const [name, dimension] = {
    mlp: ["mm.2.weight", 1] as const,
    idefics3: ["mm.model.fc.weight", 1] as const,
    gemma3: ["mm.input_projection.weight", 0] as const,
  }[kind];
  const outputs = tensors.get(name)?.dims[dimension] ?? missing(`Tensor ${quoted(name)}`);
  if (outputs > 1 << 20) throw new GgufError(`Tensor ${quoted(name)} has ${outputs} outputs`);
  return outputs;
}

function flag(header: Header, name: string): boolean | undefined {
  const entry = header.metadata.get(name);
  if (entry && entry.type !== "bool") throw new GgufError(`${name} must be a bool, not ${entry.type}`);
  return entry?.value as boolean | undefined;
}

function three(header: Header, name: string): readonly number[] {
  const numbers = array(header, name, ["float32"])?.numbers ?? missing(name);
  if (numbers.length < 3 || !numbers.every(Number.isFinite)) throw new GgufError(`${name} must have three numbers`);
  return numbers.slice(0, 3);
}

const FLOATS = ["F32", "F16", "BF16"];

function checkTensors(header: Header, of: Projector) {
  const { kind, width, patchSize, merge, outputs, hasClass, rows } = of;
  const pair = (name: string, dims: readonly number[]) => {
    tensor(header, `${name}.weight`, dims);
    optionalTensor(header, `${name}.bias`, dims.slice(-1));
  };
  const floats = (name: string, dims: readonly number[]) => {
    tensor(header, name, dims);
    const type = header.tensors.get(name)?.type.name ?? "";
    if (!FLOATS.includes(type))
      throw new GgufError(`Tensor ${quoted(name)} has the type ${type}, not ${FLOATS.join(", ")}`);
  };
  const patches = rows * merge * merge;
  floats("v.patch_embd.weight", [patchSize, patchSize, 3, width]);
  optionalTensor(header, "v.patch_embd.bias", [width]);
  if (hasClass) tensor(header, "v.class_embd", [width]);
  floats("v.position_embd.weight", [width, patches + (hasClass ? 1 : 0)]);
  for (const name of ["v.pre_ln", "v.post_ln"]) if (header.tensors.has(`${name}.weight`)) pair(name, [width]);
  for (let layer = 0; layer < of.layers; layer++) checkLayer(header, `v.blk.${layer}`, of, pair);
  if (kind === "mlp") {
    const hidden = header.tensors.get("mm.0.weight")?.dims[1] ?? 0;
    for (const [name, from, to] of [
      ["mm.0", width, hidden],
      ["mm.2", hidden, outputs],
    ] as const) {
      tensor(header, `${name}.weight`, [from, to]);
      tensor(header, `${name}.bias`, [to]);
    }
  } else if (kind === "idefics3") tensor(header, "mm.model.fc.weight", [width * merge * merge, outputs]);
  else {
    floats("mm.input_projection.weight", [outputs, width]);
    tensor(header, "mm.soft_emb_norm.weight", [width]);
  }
}

const OTHERS = ["attn_qkv.weight", "attn_q_norm.weight", "ffn_gate.weight", "ls1.weight", "attn_sinks"];

type Pair = (name: string, dims: readonly number[]) => void;

function checkLayer(header: Header, layer: string, { width, isSwapped }: Projector, pair: Pair) {
  for (const name of OTHERS)
    if (header.tensors.has(`${layer}.${name}`))
      throw new GgufError(`Tensor ${quoted(`${layer}.${name}`)} is not supported`);
  const [up, down] = isSwapped ? ["ffn_down", "ffn_up"] : ["ffn_up", "ffn_down"];
  const hidden = header.tensors.get(`${layer}.${up}.weight`)?.dims[1] ?? 0;
  for (const name of ["ln1", "ln2"]) pair(`${layer}.${name}`, [width]);
  for (const name of ["attn_q", "attn_k", "attn_v", "attn_out"]) pair(`${layer}.${name}`, [width, width]);
  pair(`${layer}.${up}`, [width, hidden]);
  pair(`${layer}.${down}`, [hidden, width]);
}
