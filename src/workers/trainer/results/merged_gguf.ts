/**
 * Writes a complete model: the base's weights with the learned change, in one file. It works tensor by tensor and some
 * rows at a time: neither the base nor the result is ever in memory. Everything else of the base (tokenizer, chat
 * template) is copied byte by byte.
 */
import { type FileHandle, open } from "node:fs/promises";
import type { Header, Span, Tensor } from "../../../lib/gguf/parse.ts";
import { readHeader } from "../../../lib/gguf/read.ts";
import {
  ggufChunks,
  type Metadata,
  type NewValue,
  type TensorSource,
  textValue,
  uint32Value,
} from "../../../lib/gguf/write.ts";
import type { Backend } from "../../../native/ggml/ggml.ts";
import { readExactly, readInto, UNCOUNTED, type Written, writeStreamAtomic } from "../../../platform/files.ts";
import { loraScale } from "../engine/weights.ts";
import type { Adapter, ReadRows } from "./adapter.ts";
import { type Delta, openRowMerger } from "./merge_rows.ts";

export type MergedType = "F32" | "F16" | "BF16" | "Q8_0";
export type Learned = { adapter: Adapter } | { weights: ReadRows };
export type MergeOptions = {
  base: string;
  path: string;
  type: MergedType;
  learned: Learned;
  /** Value of `general.name`; default: the base's. */
  name?: string;
  onProgress?: (fraction: number) => void;
  /** Number of weights processed at once; each takes a few times 4 bytes of memory. */
  pieceElements?: number;
};

const FILE_TYPE = { F32: 0, F16: 1, Q8_0: 7, BF16: 32 } as const;
const QUANTIZATION_VERSION = 2;
const PIECE_ELEMENTS = 1 << 20; // larger pieces do not fit the processor's caches and are half as fast
const BLOCK = 32; // block size of Q8_0

/** `backend` must be the CPU: a GPU cannot decode every type. */
export const writeMergedGguf = (backend: Backend, options: MergeOptions): Promise<Written> =>
  writeStreamAtomic(options.path, mergedChunks(backend, options), { meter: UNCOUNTED });

/** Yields the bytes of the file, for a target without rename. A chunk is valid until the next one is requested. */
export async function* mergedChunks(backend: Backend, options: Omit<MergeOptions, "path">): AsyncGenerator<Uint8Array> {
  const file = await open(options.base, "r");
  try {
    const { size } = await file.stat();
    const header = await readHeader((into, at) => readInto(file, into, at), size);
    const merge = createMerge(backend, file, header, options);
    yield* ggufChunks(await metadataOf(file, header, options), merge);
  } finally {
    await file.close();
  }
}

export type RowRange = { first: number; count: number };

export type MergedTensors = {
  header: Header;
  /**
   * Rows of the tensor in the file's order, with the learned change, in this type; without `rows` all of them. A chunk is
   * valid until the next one.
   */
  content: (stored: Tensor, to: string, rows?: RowRange) => AsyncGenerator<Uint8Array>;
  readSpan: (span: Span) => Promise<Uint8Array>;
  close: () => Promise<void>;
};

/** Opens the base to read it tensor by tensor. */
export async function openMerged(
  backend: Backend,
  { base, learned, pieceElements: most = PIECE_ELEMENTS }: Pick<MergeOptions, "base" | "learned" | "pieceElements">,
): Promise<MergedTensors> {
  const file = await open(base, "r");
  try {
    const { size } = await file.stat();
    const header = await readHeader((into, at) => readInto(file, into, at), size);
    const deltas = "adapter" in learned ? deltasOf(learned.adapter, header) : new Map<string, Delta>();
    const weights = "weights" in learned ? learned.weights : undefined;
    return {
      header,
      content(stored, to, rows = allRows(stored)) {
        const start = header.dataStart + stored.offset;
        const work: Work = { backend, file, stored, start, to, rows, delta: deltas.get(stored.name), weights, most };
        return isCopied(work) ? copied(work) : merged(work);
      },
      readSpan: ({ start, end }) => readBytes(file, new Uint8Array(end - start), start),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function metadataOf(
  file: FileHandle,
  header: Header,
  { type, name }: Omit<MergeOptions, "path">,
): Promise<Metadata> {
  const metadata = new Map<string, NewValue | Uint8Array>();
  for (const [key, { start, end }] of header.spans) {
    if (isOfTheOldFile(key)) continue;
    metadata.set(key, await readBytes(file, new Uint8Array(end - start), start));
  }
  metadata.set("general.file_type", uint32Value(FILE_TYPE[type]));
  if (type === "Q8_0") metadata.set("general.quantization_version", uint32Value(QUANTIZATION_VERSION));
  if (name !== undefined) metadata.set("general.name", textValue(name));
  return metadata;
}

/** Keys about the base file itself: its padding and its quantization. */
const isOfTheOldFile = (key: string) => key === "general.alignment" || key.startsWith("quantize.imatrix.");

function createMerge(
  backend: Backend,
  file: FileHandle,
  header: Header,
  options: Omit<MergeOptions, "path">,
): TensorSource[] {
  const deltas = "adapter" in options.learned ? deltasOf(options.learned.adapter, header) : new Map<string, Delta>();
  const weights = "weights" in options.learned ? options.learned.weights : undefined;
  const most = options.pieceElements ?? PIECE_ELEMENTS;
  let done = 0;
  return [...header.tensors.values()].map((stored) => {
    const to = typeFor(stored, options.type);
    const start = header.dataStart + stored.offset;
    const [rows, delta] = [allRows(stored), deltas.get(stored.name)];
    const work: Work = { backend, file, stored, start, to, rows, delta, weights, most };
    async function* content() {
      yield* isCopied(work) ? copied(work) : merged(work);
      done += stored.bytes;
      options.onProgress?.(done / header.dataBytes);
    }
    return { name: stored.name, type: to, dims: stored.dims, content };
  });
}

/** Vectors (norms, biases, rotation factors) keep their type, as llama.cpp requires; so do routers of experts. */
function typeFor({ name, dims, type }: Tensor, wanted: MergedType): string {
  if (dims.length < 2 || name.endsWith(".bias") || name.endsWith(".ffn_gate_inp.weight")) return type.name;
  return wanted === "Q8_0" && (dims[0] ?? 0) % BLOCK !== 0 ? "F16" : wanted;
}

function deltasOf(adapter: Adapter, { tensors }: Header): Map<string, Delta> {
  const scale = loraScale({ ...adapter, targets: [] });
  const { rank } = adapter;
  return new Map(
    adapter.layers.map((layer) => {
      const dims = tensors.get(layer.name)?.dims;
      const fits = layer.a.length === layer.inputs * rank && layer.b.length === layer.outputs * rank;
      if (dims?.length !== 2 || dims[0] !== layer.inputs || dims[1] !== layer.outputs || !fits)
        throw new Error(`The adapter of ${layer.name} does not fit the model: it belongs to another model`);
      return [layer.name, { ...layer, rank, scale }];
    }),
  );
}

type Work = {
  backend: Backend;
  file: FileHandle;
  stored: Tensor;
  start: number;
  to: string;
  rows: RowRange;
  delta: Delta | undefined;
  weights: ReadRows | undefined;
  most: number;
};

const rowsOf = ({ dims, elements }: Tensor) => elements / (dims[0] ?? 1);
const allRows = (stored: Tensor): RowRange => ({ first: 0, count: rowsOf(stored) });

const isCopied = ({ stored, to, delta, weights }: Work) =>
  to === stored.type.name && !delta && weights?.(stored.name, 0, 1) === undefined;

async function* copied({ file, stored, start, rows, most }: Work): AsyncGenerator<Uint8Array> {
  const rowBytes = stored.bytes / rowsOf(stored);
  const [from, size] = [start + rows.first * rowBytes, rows.count * rowBytes];
  const buffer = new Uint8Array(Math.min(size, most * 4));
  for (let at = 0; at < size; at += buffer.length)
    yield readBytes(file, buffer.subarray(0, Math.min(buffer.length, size - at)), from + at);
}

async function* merged(work: Work): AsyncGenerator<Uint8Array> {
  const { backend, file, stored, start, to, delta, weights } = work;
  const inputs = stored.dims[0] ?? 1;
  const end = work.rows.first + work.rows.count;
  const rowBytes = stored.bytes / rowsOf(stored);
  const usual = Math.min(work.rows.count, Math.max(1, Math.floor(work.most / inputs)));
  const from = weights?.(stored.name, 0, 1) ? "F32" : stored.type.name;
  const buffer = new Uint8Array(usual * rowBytes);
  for (let { first } = work.rows; first < end; ) {
    const rows = Math.min(usual, end - first); // equal for all pieces but the last
    const merger = openRowMerger(backend, { from, to, inputs, rows, delta });
    try {
      for (; first + rows <= end; first += rows) {
        const piece = () => readBytes(file, buffer.subarray(0, rows * rowBytes), start + first * rowBytes);
        yield merger.merge(weights?.(stored.name, first, rows) ?? (await piece()), first);
      }
    } finally {
      merger.free();
    }
  }
}

const readBytes = (file: FileHandle, into: Uint8Array, position: number): Promise<Uint8Array> =>
  readExactly(file, into, position, () => new Error("The model file was truncated while it was read"));
