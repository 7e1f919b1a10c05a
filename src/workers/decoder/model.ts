/** Weights of a model on the device, in the formats that the kernels multiply by. */
import { closeSync, openSync } from "node:fs";
import type { Header, Tensor } from "../../lib/gguf/parse.ts";
import { MIB } from "../../lib/units.ts";
import { type Device, FORMAT, type Format, PACKED, PACKED_ROWS } from "../../native/cuda/decode/kernels.ts";
import { TYPE } from "../../native/ggml/ggml.ts";
import type { WeightPlaces } from "../../native/llama/weights.ts";
import { readExactlySync } from "../../platform/files.ts";
import { type Architecture, architectureOf } from "../trainer/engine/architecture.ts";
import { turnsOf } from "../trainer/engine/fused/turns.ts";

/**
 * `packed`: the matrix lies in tiles, in an order that products read; otherwise as in the file. `decoded`: address of the same
 * weights in BF16, for passes of many rows; 0 if they are decoded piece by piece.
 */
export type Weight = {
  at: number;
  format: Format;
  rows: number;
  columns: number;
  packed: boolean;
  decoded?: number;
};
/** Vectors are addresses of F32 numbers; 0 if the model has none. */
export type LayerWeights = {
  norm1: number;
  norm2: number;
  /** The biases of queries, keys and values, one behind the other. */
  bias: number;
  queryNorm: number;
  keyNorm: number;
  qkv: readonly Weight[];
  output: Weight;
  gate: Weight;
  up: Weight;
  down: Weight;
};
export type DecoderModel = {
  readonly architecture: Architecture;
  readonly layers: readonly LayerWeights[];
  readonly embeddings: Weight;
  readonly head: Weight;
  readonly outputNorm: number;
  /** Cosine and sine of each position and pair. */
  readonly turns: number;
  /** All matrices by their names in the file. */
  readonly matrices: ReadonlyMap<string, Weight>;
  /** Bytes that this model holds, without shared matrices. */
  readonly bytes: number;
  free: () => void;
};

const FORMATS: Readonly<Record<string, Format>> = {
  BF16: "bf16",
  F16: "bf16",
  F32: "bf16",
  Q8_0: "q8",
  Q4_K: "q4",
  Q6_K: "q6",
};
type PackedFormat = Exclude<Format, "bf16">;
const STAGING_BYTES = 16 * MIB;
const BLOCK_BYTES = 32 * MIB;
const ALIGN = 256;
const CONVERTED = { F16: 0, F32: 1 } as const; // kinds of the kernel to_bf16

/** Why this model cannot be decoded by our kernels, or null. Another engine then serves it. Pure. */
export function reasonAgainst(header: Header): string | null {
  const architecture = architectureOf(header);
  const { headLength, width, forward, heads, keyHeads, yarn } = architecture;
  const [feature] = unsupported(architecture);
  if (feature) return feature;
  if (headLength !== 64 && headLength !== 128) return `heads of ${headLength} numbers`;
  if (heads / keyHeads > 16) return `${heads / keyHeads} query heads for each key head`;
  if (yarn.mix !== 0 || yarn.attentionFactor !== 1) return "YaRN scaling";
  if (width % 64 !== 0 || forward % 64 !== 0 || width > 12_288) return `rows of ${width} and ${forward} numbers`;
  for (const { name, type, dims } of header.tensors.values())
    if (dims.length > 1 && !(type.name in FORMATS)) return `${name} in ${type.name}`;
  for (const { name, type } of header.tensors.values())
    if (name.endsWith("ffn_gate.weight") && header.tensors.get(name.replace("gate", "up"))?.type !== type)
      return `${name} in another type than ffn_up`;
  return null;
}

/** `read` reads all bytes that it is given room for, and throws if the file ends before. */
export type ModelSource = { path: string; header: Header; read?: ReadAll };
export type ReadAll = (fd: number, into: Uint8Array, position: number) => void;

/** `shared`: BF16 matrices that are on the device already and outlive this model are used in place. */
export function loadModel(
  device: Device,
  file: ModelSource,
  contextLength: number,
  shared: WeightPlaces = () => null,
): DecoderModel {
  const architecture = architectureOf(file.header);
  const loader = openLoader(device, file, shared);
  const { matrix, vector, has, held } = loader;
  try {
    const layers = Array.from({ length: architecture.layers }, (_, i): LayerWeights => {
      const name = (part: string) => `blk.${i}.${part}`;
      const optional = (part: string) => (has(name(part)) ? vector([name(part)]) : 0);
      const biases = ["attn_q.bias", "attn_k.bias", "attn_v.bias"].map(name);
      return {
        norm1: vector([name("attn_norm.weight")]),
        norm2: vector([name("ffn_norm.weight")]),
        bias: biases.every(has) ? vector(biases) : 0,
        queryNorm: optional("attn_q_norm.weight"),
        keyNorm: optional("attn_k_norm.weight"),
        qkv: loader.neighbours(["attn_q.weight", "attn_k.weight", "attn_v.weight"].map(name)),
        output: matrix(name("attn_output.weight")),
        gate: matrix(name("ffn_gate.weight")),
        up: matrix(name("ffn_up.weight")),
        down: matrix(name("ffn_down.weight")),
      };
    });
    const embeddings = matrix("token_embd.weight");
    const head = architecture.tied ? embeddings : matrix("output.weight");
    const factors = has("rope_freqs.weight") ? loader.floats("rope_freqs.weight") : null;
    const turns = loader.keep(turnsOf(architecture, contextLength, factors));
    const outputNorm = vector(["output_norm.weight"]);
    const free = () => held.splice(0).forEach(device.free);
    const { matrices } = loader;
    return { architecture, layers, embeddings, head, outputNorm, turns, matrices, bytes: loader.bytes(), free };
  } catch (error) {
    held.splice(0).forEach(device.free);
    throw error;
  } finally {
    loader.close();
  }
}

export const readAll: ReadAll = (fd, into, position) =>
  void readExactlySync(fd, into, position, () => new Error("The model file was truncated while it was read"));

const aligned = (bytes: number) => Math.ceil(bytes / ALIGN) * ALIGN;
const isSmall = (bytes: number) => bytes < BLOCK_BYTES / 4;
/** At most: a last tile of rows may be padded. */
const roomOf = ({ type, bytes, elements }: Tensor) => aligned(type.name in CONVERTED ? elements * 2 : bytes);

function openLoader(device: Device, { path, header, read = readAll }: ModelSource, shared: WeightPlaces) {
  const fd = openSync(path, "r");
  const held: number[] = [];
  const matrices = new Map<string, Weight>();
  let bytes = 0;
  let [next, end] = [0, 0]; // of the last block; an allocation takes as long as the copy of a small tensor
  const reserved = { next: 0, end: 0 }; // for matrices that are to be neighbours
  let rest = [...header.tensors.values()].map(roomOf).reduce((sum, size) => sum + (isSmall(size) ? size : 0), 0);
  const taken = (size: number) => {
    const at = device.allocate(size);
    held.push(at);
    return at;
  };
  const room = (exact: number) => {
    const size = aligned(exact);
    bytes += size;
    if (isSmall(size)) rest -= size;
    if (reserved.next + size <= reserved.end) {
      reserved.next += size;
      return reserved.next - size;
    }
    if (!isSmall(size)) return taken(size);
    if (next + size > end) {
      const block = Math.max(size, Math.min(BLOCK_BYTES, rest + size));
      next = taken(block);
      end = next + block;
    }
    next += size;
    return next - size;
  };
  /** A table of embeddings alone is read row by row. */
  const isMultiplied = (name: string) => name !== "token_embd.weight" || !header.tensors.has("output.weight");
  const sizeOf = ({ dims: [columns = 1, rows = 1] }: Tensor) => [columns, rows] as const;
  const must = (name: string): Tensor => {
    const tensor = header.tensors.get(name);
    if (!tensor) throw new Error(`The model file has no tensor ${name}`);
    return tensor;
  };
  const into = (bytes: Uint8Array, tensor: Tensor, done: number) =>
    read(fd, bytes, header.dataStart + tensor.offset + done);
  const floats = (name: string) => {
    const values = new Float32Array(must(name).bytes / 4);
    into(new Uint8Array(values.buffer), must(name), 0);
    return values;
  };
  const keep = (values: NodeJS.TypedArray) => {
    const at = room(values.byteLength);
    device.put(at, values);
    return at;
  };
  const sharedOf = (name: string, columns: number, rows: number): Weight | null => {
    const place = shared(name);
    if (!place?.onDevice || place.type !== TYPE.BF16 || place.columns !== columns || place.rows !== rows) return null;
    return { at: place.address, format: "bf16", rows, columns, packed: false };
  };
  let staging = 0;
  function copied(tensor: Tensor): Weight {
    const { name } = tensor;
    const [columns = 1, rows = 1] = tensor.dims;
    const format = FORMATS[tensor.type.name];
    if (!format) throw new Error(`The tensor ${name} is in ${tensor.type.name}, which these kernels do not read`);
    const kind = CONVERTED[tensor.type.name as keyof typeof CONVERTED];
    if (format !== "bf16" && isMultiplied(tensor.name)) return copiedInTiles(tensor, format);
    const at = room(roomOf(tensor));
    if (kind === undefined) {
      device.fill(at, tensor.bytes, (some, done) => into(some, tensor, done));
      return { at, format, rows, columns, packed: false };
    }
    const size = kind === CONVERTED.F16 ? 2 : 4;
    staging ||= device.allocate(STAGING_BYTES);
    for (let done = 0; done < tensor.bytes; done += STAGING_BYTES) {
      const length = Math.min(STAGING_BYTES, tensor.bytes - done);
      device.fill(staging, length, (some, from) => into(some, tensor, done + from));
      const count = length / size;
      device.launch("to_bf16", { grid: [Math.min(1024, Math.ceil(count / 256)), 1, 1], threads: 256 }, [
        ...[staging, at + (done / size) * 2, kind, count],
      ]);
    }
    return { at, format, rows, columns, packed: false };
  }
  /** The staging memory holds whole tiles of rows as they are in the file. */
  function copiedInTiles(tensor: Tensor, format: PackedFormat): Weight {
    const [columns = 1, rows = 1] = tensor.dims;
    const { numbers, tile } = PACKED[format];
    const bytes = (columns / numbers) * tile; // of PACKED_ROWS rows, here and in the file
    const at = room(Math.ceil(rows / PACKED_ROWS) * bytes);
    const most = Math.max(1, Math.floor(STAGING_BYTES / bytes)) * PACKED_ROWS;
    if (bytes > STAGING_BYTES) throw new Error(`The rows of ${tensor.name} are too long`);
    staging ||= device.allocate(STAGING_BYTES);
    for (let first = 0; first < rows; first += most) {
      const count = Math.min(most, rows - first);
      const begin = (first / PACKED_ROWS) * bytes;
      device.fill(staging, (count / PACKED_ROWS) * bytes, (some, from) => into(some, tensor, begin + from));
      const warps = 8;
      const grid = [Math.ceil(count / PACKED_ROWS), Math.ceil(columns / numbers / warps), 1] as const;
      device.launch("pack_tiles", { grid, threads: 32 * warps }, [
        ...[staging, at + begin, FORMAT[format], columns, count, 0],
      ]);
    }
    return { at, format, rows, columns, packed: true };
  }
  function matrix(name: string): Weight {
    const tensor = must(name);
    const [columns = 1, rows = 1] = tensor.dims;
    const matrix = sharedOf(name, columns, rows) ?? copied(tensor);
    matrices.set(name, matrix);
    return matrix;
  }
  return {
    held,
    matrices,
    matrix,
    /** Matrices that lie one behind the other, if they have one type. */
    neighbours(names: readonly string[]): Weight[] {
      const sizes = names.map((name) => roomOf(must(name)));
      const size = sizes.reduce((sum, each) => sum + each, 0);
      const isShared = names.some((name) => sharedOf(name, ...sizeOf(must(name))) !== null);
      if (!isShared && !sizes.every(isSmall)) {
        reserved.next = taken(size);
        reserved.end = reserved.next + size;
      }
      return names.map(matrix);
    },
    floats,
    keep,
    bytes: () => bytes,
    has: (name: string) => header.tensors.has(name),
    /** F32 vectors, one behind the other. */
    vector: (names: readonly string[]) => keep(Float32Array.from(names.flatMap((name) => [...floats(name)]))),
    close() {
      closeSync(fd);
      device.wait();
      if (staging !== 0) device.free(staging);
    },
  };
}

/**
 * Features of a model that the kernels of decoding do not compute. Those of training compute more: a model can be trained by
 * our kernels and decoded by the library.
 */
function unsupported(of: Architecture): string[] {
  const { scales, caps, joins } = of;
  const features: Record<string, boolean> = {
    "a rotated part of a head": of.rotated !== of.headLength,
    "a window of positions": of.window !== null,
    "norms after a layer's parts": of.postNorms,
    "a mixture of experts": of.experts !== null,
    "joined matrices": joins.attention || joins.forward,
    GeGLU: of.activation !== "silu",
    "scaled embeddings, layers or logits": [scales.embedding, scales.residual, scales.logits].some((by) => by !== 1),
    "scaled attention scores": scales.scores !== 1 / Math.sqrt(of.headLength),
    "limited scores or logits": caps.scores !== 0 || caps.logits !== 0,
    "queries that grow with the position": of.temperature !== null,
    "layers without rotation": of.rotates.includes(false),
  };
  return Object.keys(features).filter((feature) => features[feature]);
}
