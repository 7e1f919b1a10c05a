/** Projectors for images (mmproj) with random weights. The same options give the same bytes. */
import { join } from "node:path";
import {
  bool,
  f32,
  f32s,
  type GgufTensor,
  type GgufValue,
  str,
  type TensorType,
  u32,
  writeGguf,
} from "./gguf_writer.ts";
import { gaussian } from "./models.ts";

export type ProjectorOptions = {
  /** The name in the file, also of one that is not supported. */
  kind: string;
  /** Width of the language model. */
  outputs: number;
  type?: TensorType;
  seed?: number;
  imageSize?: number;
  patchSize?: number;
  width?: number;
  heads?: number;
  layers?: number;
  merge?: number;
  hasClass?: boolean;
  longestEdge?: number;
  /** The two matrices of a layer's network have each other's name, as in older files. */
  isSwapped?: boolean;
  metadata?: Record<string, GgufValue>;
};

const MEAN = [0.48, 0.46, 0.41];
const DEVIATION = [0.27, 0.26, 0.28];

/** The settings of a projector, with the defaults filled in. */
export function projectorShape(options: ProjectorOptions) {
  const { kind, imageSize = 32, patchSize = 8, width = 32, heads = 2, layers = 3, longestEdge = 0 } = options;
  const merge = kind === "mlp" ? 1 : (options.merge ?? 2);
  const patches = (imageSize / patchSize) ** 2;
  const base = { ...options, imageSize, patchSize, width, heads, layers, longestEdge, merge, patches, ff: 2 * width };
  return { ...base, hasClass: options.hasClass === true, mean: MEAN, deviation: DEVIATION, epsilon: 1e-5 };
}
export type TestProjector = ReturnType<typeof projectorShape>;

/** Every tensor of the projector, before it is rounded to its type in the file. */
export function projectorTensors(options: ProjectorOptions): GgufTensor[] {
  const of = projectorShape(options);
  const { width, patchSize, patches, ff, outputs, merge, kind, type = "F32" } = of;
  const random = gaussian(options.seed ?? 1);
  const tensors: GgufTensor[] = [];
  const tensor = (name: string, shape: readonly number[], deviation: number, as: TensorType = "F32", plus = 0) => {
    const values = random(
      shape.reduce((a, b) => a * b, 1),
      deviation,
    );
    tensors.push({ name, shape, type: as, values: plus === 0 ? values : values.map((value) => value + plus) });
  };
  const matrix = (name: string, inputs: number, to: number) => {
    tensor(`${name}.weight`, [inputs, to], 1 / Math.sqrt(inputs), type);
    tensor(`${name}.bias`, [to], 0.1);
  };
  const norm = (name: string) => {
    tensor(`${name}.weight`, [width], 0.1, "F32", 1);
    tensor(`${name}.bias`, [width], 0.1);
  };
  tensor("v.patch_embd.weight", [patchSize, patchSize, 3, width], 1 / (patchSize * Math.sqrt(3)));
  if (of.hasClass) tensor("v.class_embd", [width], 1);
  else tensor("v.patch_embd.bias", [width], 0.1);
  tensor("v.position_embd.weight", [width, patches + (of.hasClass ? 1 : 0)], 0.5);
  norm(kind === "mlp" ? "v.pre_ln" : "v.post_ln");
  for (let layer = 0; layer < of.layers; layer++) {
    const name = (part: string) => `v.blk.${layer}.${part}`;
    for (const part of ["attn_q", "attn_k", "attn_v", "attn_out"]) matrix(name(part), width, width);
    matrix(name("ffn_up"), width, ff);
    matrix(name("ffn_down"), ff, width);
    for (const part of ["ln1", "ln2"]) norm(name(part));
  }
  if (kind === "idefics3")
    tensor("mm.model.fc.weight", [width * merge * merge, outputs], 1 / (merge * Math.sqrt(width)), type);
  else if (kind === "gemma3") {
    tensor("mm.input_projection.weight", [outputs, width], 1 / Math.sqrt(width));
    tensor("mm.soft_emb_norm.weight", [width], 0.1, "F32", 1);
  } else {
    matrix("mm.0", width, outputs);
    matrix("mm.2", outputs, outputs);
  }
  return tensors;
}

/** Writes the projector into `dir` and returns its path. */
export function makeProjector(dir: string, options: ProjectorOptions): string {
  const of = projectorShape(options);
  const name = Bun.hash(JSON.stringify(Object.entries(options).sort())).toString(36);
  const path = join(dir, `mmproj-${options.kind}-${name}.gguf`);
  const vision = (key: string) => `clip.vision.${key}`;
  const metadata: Record<string, GgufValue> = {
    "general.architecture": str("clip"),
    "general.type": str("mmproj"),
    "clip.has_vision_encoder": bool(true),
    "clip.projector_type": str(of.kind),
    "clip.use_gelu": bool(of.kind !== "mlp"),
    [vision("image_size")]: u32(of.imageSize),
    [vision("patch_size")]: u32(of.patchSize),
    [vision("embedding_length")]: u32(of.width),
    [vision("feed_forward_length")]: u32(of.ff),
    [vision("block_count")]: u32(of.layers),
    [vision("projection_dim")]: u32(of.outputs),
    [vision("attention.head_count")]: u32(of.heads),
    [vision("attention.layer_norm_epsilon")]: f32(of.epsilon),
    [vision("image_mean")]: f32s(of.mean),
    [vision("image_std")]: f32s(of.deviation),
    ...(of.merge > 1 ? { [vision("projector.scale_factor")]: u32(of.merge) } : {}),
    ...(of.longestEdge > 0 ? { [vision("preproc_image_size")]: u32(of.longestEdge) } : {}),
    ...options.metadata,
  };
  const tensors = projectorTensors(options);
  const other = (name: string) => name.replace(/ffn_(up|down)/, (_, part) => (part === "up" ? "ffn_down" : "ffn_up"));
  const named = options.isSwapped ? tensors.map((tensor) => ({ ...tensor, name: other(tensor.name) })) : tensors;
  writeGguf(path, metadata, named);
  return path;
}

/** A picture of random colours, in patches so that its size matters. */
export function makePicture(width: number, height: number, seed = 1) {
  const noise = gaussian(seed)(width * height * 3, 40);
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++) {
        const at = (y * width + x) * 3 + c;
        const wave = 128 + 80 * Math.sin((x * (c + 1)) / 7 + y / 11);
        pixels[at] = Math.max(0, Math.min(255, Math.round(wave + noise[at]!)));
      }
  return { pixels, width, height };
}
