/** Weights of a model on the device, in the formats that the kernels multiply by. */
import { closeSync, openSync } from "node:fs";
import type { Header, Tensor } from "../../lib/gguf/parse.ts";
import { MIB } from "../../lib/units.ts";
import {
  type Device,
  FORMAT,
  type Format,
  type HeadLength,
  keptLength,
  PACKED,
  PACKED_ROWS,
} from "../../native/cuda/decode/kernels.ts";
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
  /** Norms of the results of attention and of the feed-forward part. */
  attentionNorm: number;
  forwardNorm: number;
  /** Cosine and sine of each position and pair; 0: no rotation. */
  turns: number;
  /** A token sees so many keys; 0: all. */
  window: number;
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
  /** Factors of queries by position; 0 if there are none. */
  readonly temperatures: number;
  /** The length in which the kernels keep a head. */
  readonly keptLength: HeadLength;
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
  const { headLength, width, forward, heads, keyHeads, experts } = architectureOf(header);
  if (experts) return "a mixture of experts";
  if (keptLength(headLength) === null || headLength % 2 !== 0) return `heads of ${headLength} numbers`;
  if (heads / keyHeads > 16) return `${heads / keyHeads} query heads for each key head`;
  if ((heads * headLength) % 64 !== 0 || (keyHeads * headLength) % 64 !== 0)
    return `${heads} and ${keyHeads} heads of ${headLength} numbers`;
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
  const { matrix, has, held } = loader;
  const { heads, keyHeads, headLength, scales, joins } = architecture;
  const vector = (names: readonly string[], by = 1) =>
    loader.keep(Float32Array.from(names.flatMap((name) => [...loader.floats(name)]).map((value) => value * by)));
  try {
    const rotation = rotationsOf(architecture, contextLength, loader);
    const layers = Array.from({ length: architecture.layers }, (_, i): LayerWeights => {
      const name = (part: string) => `blk.${i}.${part}`;
      const optional = (part: string) => (has(name(part)) ? vector([name(part)]) : 0);
      const biases = ["attn_q.bias", "attn_k.bias", "attn_v.bias"].map(name);
      const [keys, queries] = [keyHeads * headLength, heads * headLength];
      const both = joins.forward ? rowsOf(matrix(name("ffn_up.weight")), [0, architecture.forward]) : null;
      const isWindow = architecture.window?.layers[i] ?? false;
      return {
        norm1: vector([name("attn_norm.weight")]),
        norm2: vector([name("ffn_norm.weight")]),
        bias: biases.every(has) ? vector(biases) : optional("attn_qkv.bias"),
        queryNorm: optional("attn_q_norm.weight"),
        keyNorm: optional("attn_k_norm.weight"),
        attentionNorm: architecture.postNorms ? vector([name("post_attention_norm.weight")]) : 0,
        forwardNorm: architecture.postNorms ? vector([name("post_ffw_norm.weight")]) : 0,
        turns: architecture.rotates[i] === false ? 0 : isWindow ? rotation.windowTurns : rotation.turns,
        window: isWindow ? architecture.window!.size : 0,
        qkv: joins.attention
          ? rowsOf(matrix(name("attn_qkv.weight")), [0, queries, queries + keys])
          : loader.neighbours(["attn_q.weight", "attn_k.weight", "attn_v.weight"].map(name)),
        output: matrix(name("attn_output.weight")),
        gate: both?.[0] ?? matrix(name("ffn_gate.weight")),
        up: both?.[1] ?? matrix(name("ffn_up.weight")),
        down: matrix(name("ffn_down.weight")),
      };
    });
    const embeddings = matrix("token_embd.weight");
    const head = architecture.tied ? embeddings : matrix("output.weight");
    return {
      architecture,
      layers,
      embeddings,
      head,
      outputNorm: vector(["output_norm.weight"], scales.logits),
      temperatures: rotation.temperatures,
      keptLength: keptLength(headLength)!,
      matrices: loader.matrices,
      bytes: loader.bytes(),
      free: () => held.splice(0).forEach(device.free),
    };
  } catch (error) {
    held.splice(0).forEach(device.free);
    throw error;
  } finally {
    loader.close();
  }
}

type Loader = ReturnType<typeof openLoader>;

/** Tables by position: rotations, and by how much queries grow. */
function rotationsOf(architecture: Architecture, contextLength: number, { has, floats, keep }: Loader) {
  const { window, yarn, temperature, rotates } = architecture;
  const isLong = contextLength > yarn.originalContext;
  const names = ["rope_freqs.weight", isLong ? "rope_factors_long.weight" : "rope_factors_short.weight"];
  const name = names.find(has);
  const factors = name === undefined ? null : floats(name);
  const ofWindow = window && { ...architecture, ropeBase: window.ropeBase, ropeScale: window.ropeScale };
  const grown = ({ scale, length }: NonNullable<Architecture["temperature"]>) =>
    Float32Array.from({ length: contextLength }, (_, i) => 1 + scale * Math.log(1 + Math.floor(i / length)));
  return {
    turns: rotates.includes(true) ? keep(turnsOf(architecture, contextLength, factors)) : 0,
    windowTurns: ofWindow ? keep(turnsOf(ofWindow, contextLength, factors)) : 0,
    temperatures: temperature ? keep(grown(temperature)) : 0,
  };
}

/** Parts of a joined matrix, which begin at these rows: multiples of 64. */
function rowsOf({ decoded: _, ...joined }: Weight, begins: readonly number[]): Weight[] {
  const { at, format, rows, columns, packed } = joined;
  if (format !== "bf16" && !packed) throw new Error("A joined matrix lies as in the file");
  const rowBytes =
    format === "bf16" ? columns * 2 : ((columns / PACKED[format].numbers) * PACKED[format].tile) / PACKED_ROWS;
  return begins.map((begin, i) => ({ ...joined, at: at + begin * rowBytes, rows: (begins[i + 1] ?? rows) - begin }));
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
    close() {
      closeSync(fd);
      device.wait();
      if (staging !== 0) device.free(staging);
    },
  };
}
