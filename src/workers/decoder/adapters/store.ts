/**
 * Adapters on the device: their memory, and the table by which kernels find their matrices. An adapter is copied in pieces,
 * so that running sequences keep their pace.
 */
import { closeSync, openSync } from "node:fs";
import type { Tensor } from "../../../lib/gguf/parse.ts";
import { MIB } from "../../../lib/units.ts";
import { type Device, MOST_RANK, PLACED, SUM_PARTS } from "../../../native/cuda/decode/kernels.ts";
import { type DecoderModel, type ReadAll, readAll } from "../model.ts";
import type { AdapterLoad } from "../types.ts";
import {
  type AdapterPlan,
  type AdapterSource,
  bytesOfA,
  bytesOfB,
  type PlannedMatrix,
  placeCount,
  planAdapter,
  strideOf,
} from "./plan.ts";

const ENTRY_BYTES = 24; // a LowRank of kernels/decode/adapters.cuh
const STAGING_BYTES = 8 * MIB; // a piece

export type StoreOptions = { most: number; read?: ReadAll | undefined };

/** Addresses that kernels need beside those of a batch. */
export type AdapterTable = { table: number; stride: number; sums: number };

type Entry = { place: number; at: number; head: boolean };

export class AdapterStore {
  readonly table: AdapterTable;
  readonly bytes: number;
  readonly #device: Device;
  readonly #model: DecoderModel;
  readonly #read: ReadAll;
  readonly #places: number[]; // free ones
  readonly #held = new Map<number, Entry>();
  #staging = 0;
  #lastId = 0;

  /** `rows`: the most of one pass. */
  constructor(device: Device, model: DecoderModel, { most, rows, read = readAll }: StoreOptions & { rows: number }) {
    const stride = placeCount(model);
    const [tableBytes, sumBytes] = [most * stride * ENTRY_BYTES, rows * SUM_PARTS * MOST_RANK * 4];
    this.#device = device;
    this.#model = model;
    this.#read = read;
    this.#places = Array.from({ length: most }, (_, i) => most - 1 - i);
    const table = device.allocate(tableBytes);
    this.table = { table, stride, sums: device.allocate(sumBytes) };
    this.bytes = tableBytes + sumBytes;
  }

  /** True if an adapter changes the head. */
  get changesHead() {
    return [...this.#held.values()].some(({ head }) => head);
  }

  /** Returns the adapter's place in the table; -1 without an adapter. */
  placeOf(id: number | undefined): number {
    if (id === undefined) return -1;
    const held = this.#held.get(id);
    if (!held) throw new Error(`There is no adapter ${id}`);
    return held.place;
  }

  /** Returns why the kernels cannot apply these files together, or a load that is over when `more` returns false. */
  attach(sources: readonly AdapterSource[]): AdapterLoad | string {
    const plan = planAdapter(sources, this.#model);
    if (typeof plan === "string") return plan;
    if (this.#places.length === 0) throw new Error("There is no room for another adapter");
    this.#staging ||= this.#device.allocate(STAGING_BYTES);
    const at = this.#device.allocate(plan.bytes);
    const place = this.#places.pop()!;
    const id = ++this.#lastId;
    this.#held.set(id, { place, at, head: plan.head });
    const steps = this.#load(plan, sources, { place, at });
    return { adapter: id, more: () => steps.next().done !== true, cancel: () => void steps.return() };
  }

  detach(id: number) {
    const held = this.#held.get(id);
    if (!held) return;
    this.#held.delete(id);
    this.#places.push(held.place);
    this.#device.free(held.at);
  }

  free() {
    for (const id of [...this.#held.keys()]) this.detach(id);
    if (this.#staging !== 0) this.#device.free(this.#staging);
    this.#device.free(this.table.table);
    this.#device.free(this.table.sums);
  }

  /** Each step queues copies of up to STAGING_BYTES. The table has the adapter after the last one. */
  *#load(plan: AdapterPlan, sources: readonly AdapterSource[], { place, at }: { place: number; at: number }) {
    const files = sources.map(({ path }) => openSync(path, "r"));
    try {
      const entries = new BigUint64Array((this.table.stride * ENTRY_BYTES) / 8);
      let next = at;
      let left = STAGING_BYTES;
      for (const matrix of plan.matrices) {
        const [a, b] = [next, next + bytesOfA(matrix)];
        next = b + bytesOfB(matrix);
        const words = [BigInt(a), BigInt(b), (BigInt(strideOf(matrix.rows)) << 32n) | BigInt(matrix.rank)];
        entries.set(words, (matrix.place * ENTRY_BYTES) / 8);
        for (const piece of piecesOf(matrix, a, b)) {
          const of = sources[piece.source] as AdapterSource;
          const from = of.header.dataStart + piece.tensor.offset + piece.done;
          if (piece.bytes > left) {
            yield;
            left = STAGING_BYTES;
          }
          left -= piece.bytes;
          this.#copy(piece, files[piece.source] as number, from);
        }
      }
      this.#device.put(this.table.table + place * this.table.stride * ENTRY_BYTES, entries);
    } finally {
      files.forEach(closeSync);
    }
  }

  #copy({ tensor, bytes, rows, columns, rowStep, columnStep, to, by }: Piece, file: number, from: number) {
    this.#device.fill(this.#staging, bytes, (into, done) => this.#read(file, into, from + done));
    const kind = PLACED[tensor.type.name as keyof typeof PLACED];
    const grid = [Math.min(1024, Math.ceil((rows * columns) / 256)), 1, 1] as const;
    this.#device.launch("place_rows", { grid, threads: 256 }, [
      ...[this.#staging, to, kind, columns, rowStep, columnStep, rows, by],
    ]);
  }
}

/** Rows of a tensor of the file `source`, of which `done` bytes come before. */
type Piece = {
  source: number;
  tensor: Tensor;
  done: number;
  bytes: number;
  rows: number;
  columns: number;
  rowStep: number;
  columnStep: number;
  to: number;
  by: number;
};

/** A and turned B of all parts, the ranks of a part behind those of the one before. */
function* piecesOf({ columns, rows, parts }: PlannedMatrix, a: number, b: number): Generator<Piece> {
  const stride = strideOf(rows);
  let before = 0; // ranks
  for (const part of parts) {
    const { source, rank, scale: by, first } = part;
    const [toA, toB] = [a + before * columns * 2, b + before * stride * 2];
    yield* cut({
      source,
      tensor: part.a,
      rows: rank,
      columns,
      rowStep: columns,
      columnStep: 1,
      to: toA,
      by: 1,
      first: 0,
    });
    yield* cut({ source, tensor: part.b, rows, columns: rank, rowStep: 1, columnStep: stride, to: toB, by, first });
    before += rank;
  }
}

/** `first`: the row of the tensor where the rows begin. */
function* cut({ first: begin, ...all }: Omit<Piece, "done" | "bytes"> & { first: number }): Generator<Piece> {
  const rowBytes = all.tensor.bytes / (all.tensor.dims[1] ?? 1);
  const most = Math.floor(STAGING_BYTES / rowBytes);
  for (let first = 0; first < all.rows; first += most) {
    const rows = Math.min(most, all.rows - first);
    const to = all.to + first * all.rowStep * 2;
    yield { ...all, rows, to, done: (begin + first) * rowBytes, bytes: rows * rowBytes };
  }
}
