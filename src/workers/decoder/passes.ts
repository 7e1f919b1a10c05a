/** One pass through the model for some rows of tokens: the sequence of kernels, for a graph or for a prompt. */
import {
  ATTEND_THREADS,
  attendShared,
  carriesSums,
  type Device,
  DRAW_THREADS,
  EXACT_THREADS,
  exactShared,
  FORMAT,
  IS_PACKED,
  MODE,
  MOST_SLICES,
  PROMPT_THREADS,
  productGrid,
  productName,
  productShared,
  productThreads,
  promptShared,
  READY_SUM_BYTES,
  readyBlocks,
  SPAN,
  slicesOf,
  type WideKernels,
} from "../../native/cuda/decode/kernels.ts";
import { rowThreads } from "../trainer/engine/fused/project.ts";
import { type AdaptersAt, type Added, addedAt, addToLogits, besideSums, joinGates, NONE } from "./adapters/added.ts";
import { PLACE } from "./adapters/plan.ts";
import type { AdapterTable } from "./adapters/store.ts";
import type { DecoderModel, LayerWeights, Weight } from "./model.ts";
import { isWide, planProduct, type Wide } from "./plan.ts";
import { decodedRoom, joinWide, multiplyBoth, multiplyWide } from "./steps/wide.ts";

/** Addresses of the rows' slots, tokens and positions. */
export type RowsAt = { slots: number; tokens: number; positions: number; count: number };
export type PagesAt = { pool: number; layerBytes: number; table: number; tableStride: number };
/**
 * `tiles`: address and number of attention's tiles of a prompt, which is attended to by spans; without them every row is one. Without `adapters`, only the model's own
 * weights are used.
 */
export type Pass = {
  rows: RowsAt;
  chunks: number;
  tiles?: { at: number; count: number };
  adapters?: AdaptersAt | undefined;
};
export type Draw = readonly number[];
/** `begins`: address of each slot's position where its answer begins. It is given if attention has the trainer's order of keys. */
export type PassOptions = {
  pages: PagesAt;
  wide: Wide | null;
  begins: number | null;
  adapters: AdapterTable | null;
  /** All products are those of cublasLt where bits of a row do not depend on the number of rows. */
  inOnePiece?: boolean;
};

const ROW_MULTIPLE = 128; // tokens of the largest tile
const PLANNED_ROWS = 64;

/** Buffers for up to `rows` rows, of which `headRows` are drawn for. `partNumbers`: room for chunks of attention. */
export function openBuffers(
  device: Device,
  model: DecoderModel,
  size: { rows: number; headRows: number; chunkRows: number },
) {
  const { width, forward, heads, keyHeads, headLength, vocab } = model.architecture;
  const rows = Math.ceil(size.rows / ROW_MULTIPLE) * ROW_MULTIPLE;
  const vocabStride = Math.ceil(vocab / 8) * 8;
  const inner = heads * headLength;
  const qkv = inner + 2 * keyHeads * headLength;
  const held: number[] = [];
  let bytes = 0;
  const room = (length: number) => {
    const at = device.allocate(length);
    held.push(at);
    bytes += length;
    return at;
  };
  return {
    rows,
    vocabStride,
    qkvWidth: qkv,
    x: room(rows * width * 4),
    h: room(rows * width * 2),
    qkv: room(rows * qkv * 2),
    queries: room(rows * inner * 2),
    attended: room(rows * inner * 2),
    product: room(rows * forward * 2),
    y: room(rows * width * 2),
    /** Slices of sums. Between a norm and the next product it is free: gates and ups of wide passes lie here. */
    parts: room(rows * Math.max(MOST_SLICES * Math.max(qkv, width) * 4, forward * 4)),
    decoded: room(decodedRoom(model)),
    ready: { of: 0, ...readyRoom(room, isPacked(model) ? rows : 0, Math.max(width, forward, inner)), stride: rows },
    logits: room(Math.ceil(size.headRows / ROW_MULTIPLE) * ROW_MULTIPLE * vocabStride * 4),
    chunkSums: room(size.chunkRows * inner * 4),
    chunkTops: room(size.chunkRows * heads * 8),
    bytes: () => bytes,
    free: () => held.splice(0).forEach(device.free),
  };
}
export type Buffers = ReturnType<typeof openBuffers>;

/** The result of a product, as the next kernel takes it: whole, parts, slices, slice stride. */
type Branch = readonly [whole: number, parts: number, slices: number, sliceStride: number];
const NOTHING: Branch = [0, 0, 0, 0];

export class Passes {
  readonly #device: Device;
  readonly #model: DecoderModel;
  readonly #buffers: Buffers;
  readonly #pages: PagesAt;
  readonly #wide: Wide | null;
  readonly #begins: number | null;
  readonly #adapters: AdapterTable | null;
  readonly #inOnePiece: boolean;

  constructor(device: Device, model: DecoderModel, buffers: Buffers, options: PassOptions) {
    const { pages, wide, begins, adapters, inOnePiece = false } = options;
    this.#device = device;
    this.#model = model;
    this.#buffers = buffers;
    this.#pages = pages;
    this.#wide = wide;
    this.#begins = begins;
    this.#adapters = adapters;
    this.#inOnePiece = inOnePiece;
  }

  /** True if some products of a pass may be those of cuBLAS. */
  areWide(count: number) {
    if (this.#begins !== null) return this.#device.exact() !== null;
    return this.#wide !== null && count >= this.#wide.rows;
  }

  /** Fills the pages of rows that nothing is drawn for: the last layer ends with its keys and values. */
  fill(pass: Pass) {
    this.#layers(pass, true);
  }

  /** Computes the logits of all rows. */
  decode(pass: Pass) {
    const branch = this.#layers(pass, false);
    const { outputNorm, head, architecture } = this.#model;
    const { layers, vocab } = architecture;
    const { count } = pass.rows;
    this.#norm(count, branch, outputNorm, { added: this.#added(pass, layers - 1, "down"), next: [head] });
    const { h, logits, vocabStride, decoded } = this.#buffers;
    const from = { x: h, depth: architecture.width, count };
    const added = pass.adapters?.head ? this.#added(pass, layers, "qkv", 1) : NONE;
    const wide = this.#wideFor([head], from);
    const to = { at: logits, stride: vocabStride };
    if (wide)
      besideSums(this.#device, added, from, () =>
        multiplyWide({ device: this.#device, wide }, [head], from, { to: { ...to, f32: true }, decoded }),
      );
    else this.#product([head], from, { mode: "logits", to, added });
    if (added.blocks > 0) addToLogits(this.#device, added, { ...to, vocab, count });
  }

  draw(rows: number, values: Draw) {
    this.#device.launch("draw_tokens", { grid: [rows, 1, 1], threads: DRAW_THREADS }, [
      this.#buffers.logits,
      ...values,
    ]);
  }

  #layers(pass: Pass, fillsOnly: boolean): Branch {
    const { layers, embeddings, architecture } = this.#model;
    const { width } = architecture;
    const { count, tokens } = pass.rows;
    // Later kernels read which rows there are, with their pages and adapters, before they wait.
    this.#device.launch("embed_rows", { grid: [count, 1, 1], threads: rowThreads(width), alone: true }, [
      ...[
        embeddings.at,
        FORMAT[embeddings.format] + (embeddings.packed ? IS_PACKED : 0),
        tokens,
        this.#buffers.x,
        width,
      ],
    ]);
    let branch = NOTHING;
    for (const [i, layer] of layers.entries()) {
      branch = this.#attention(pass, layer, i, branch, fillsOnly && i === layers.length - 1);
      if (fillsOnly && i === layers.length - 1) break;
      branch = this.#forward(pass, layer, i, branch);
    }
    return branch;
  }

  #attention(pass: Pass, layer: LayerWeights, index: number, before: Branch, keysOnly: boolean): Branch {
    const { width, heads, keyHeads, headLength, ropeMode, epsilon } = this.#model.architecture;
    const { h, qkv, queries, qkvWidth } = this.#buffers;
    const { slots, tokens, positions, count } = pass.rows;
    const lastAdded = index === 0 ? NONE : this.#added(pass, index - 1, "down");
    this.#norm(count, before, layer.norm1, { added: lastAdded, next: layer.qkv });
    const added = this.#added(pass, index, "qkv", layer.qkv.length);
    const raw = this.#branch(layer.qkv, { x: h, depth: width, count }, { at: qkv, stride: qkvWidth }, added);
    const { pool, layerBytes, table, tableStride } = this.#pages;
    const pages = [pool + index * layerBytes, table, tableStride, keyHeads];
    const rows = [slots, tokens, positions, count];
    this.#device.launch("turn_rows", { grid: [Math.ceil((count * (heads + 2 * keyHeads)) / 8), 1, 1], threads: 256 }, [
      ...[...raw, queries, ...pages, ...rows, this.#model.turns, layer.bias, layer.queryNorm, layer.keyNorm],
      ...[heads, keyHeads, headLength, ropeMode === 2 ? 1 : 0, epsilon, this.#begins === null ? 0 : 1],
      ...added.values,
    ]);
    if (keysOnly) return NOTHING;
    this.#attend(pass, [...pages, ...rows]);
    const inner = heads * headLength;
    const from = { x: this.#buffers.attended, depth: inner, count };
    const to = { at: this.#buffers.y, stride: width };
    return this.#branch([layer.output], from, to, this.#added(pass, index, "output"));
  }

  #attend({ rows, chunks, tiles }: Pass, pagesAndRows: readonly number[]) {
    const { heads, keyHeads, headLength } = this.#model.architecture;
    const { queries, attended, chunkSums, chunkTops } = this.#buffers;
    const length = headLength as 64 | 128;
    const scale = 1 / Math.sqrt(length);
    if (this.#begins !== null) {
      const grid = [keyHeads, tiles?.count ?? rows.count, 1] as const;
      const how = { grid, threads: EXACT_THREADS, shared: exactShared(length) };
      return this.#device.launch(`attend_exact_${length}`, how, [
        ...[queries, ...pagesAndRows, tiles?.at ?? 0, this.#begins, attended, heads, heads * length, scale, 0],
      ]);
    }
    const joined = tiles ? SPAN : 1; // chunks of a part
    const values = [
      ...[queries, ...pagesAndRows, tiles?.at ?? 0, attended, chunkSums, chunkTops],
      ...[heads, heads * length, chunks, scale, joined, 0],
    ];
    const grid = [chunks, keyHeads, tiles?.count ?? rows.count] as const;
    if (tiles) {
      const how = { grid, threads: PROMPT_THREADS, shared: promptShared(length) };
      this.#device.launch(`attend_prompt_${length}`, how, values);
    } else {
      const how = { grid, threads: ATTEND_THREADS, shared: attendShared(length) };
      this.#device.launch(`attend_${length}`, how, values);
    }
    if (chunks > 1) this.#device.launch(`join_${length}`, { grid: [rows.count, heads, 1], threads: length }, values);
  }

  #forward(pass: Pass, layer: LayerWeights, index: number, before: Branch): Branch {
    const { width, forward } = this.#model.architecture;
    const { h, product, y, parts: both, decoded } = this.#buffers;
    const { count } = pass.rows;
    const pair = [layer.gate, layer.up] as const;
    this.#norm(count, before, layer.norm2, { added: this.#added(pass, index, "output"), next: pair });
    const from = { x: h, depth: width, count };
    const added = this.#added(pass, index, "gateUp", pair.length);
    const wide = this.#wideFor(pair, from);
    if (wide) {
      besideSums(this.#device, added, from, () =>
        multiplyBoth({ device: this.#device, wide }, pair, this.#padded(from), { both, decoded }),
      );
      if (!pass.adapters) joinWide(wide, { both, to: product, forward, count });
    } else if (!pass.adapters)
      this.#product(pair, from, { mode: "gated", to: { at: product, stride: forward }, added });
    else this.#product(pair, from, { mode: "whole", to: { at: both, stride: 2 * forward }, added });
    if (pass.adapters) joinGates(this.#device, pass.adapters, added, { both, to: product, forward });
    const down = this.#added(pass, index, "down");
    return this.#branch([layer.down], { x: product, depth: forward, count }, { at: y, stride: width }, down);
  }

  #added({ adapters }: Pass, layer: number, part: Exclude<keyof typeof PLACE, "layer">, matrices = 1): Added {
    return addedAt(this.#adapters, adapters, { place: layer * PLACE.layer + PLACE[part], matrices });
  }

  /** `next`: what multiplies the result. */
  #norm(count: number, branch: Branch, weight: number, { added, next }: { added: Added; next: readonly Weight[] }) {
    const { width, epsilon } = this.#model.architecture;
    const { x, h, ready } = this.#buffers;
    const isReady = next.some(({ packed }) => packed) && this.#wideFor(next, { x: h, depth: width, count }) === null;
    ready.of = isReady ? h : 0;
    this.#device.launch("norm_rows", { grid: [count, 1, 1], threads: rowThreads(width), shared: width * 4 }, [
      ...[x, ...branch, weight, h, width, width, epsilon, ...added.values],
      ...(isReady ? readyValues(ready) : NOT_READY),
    ]);
  }

  /**
   * A product whose slices the next kernel may add, and what adapters add. Weights of different formats are separate
   * products.
   */
  #branch(parts: readonly Weight[], from: From, to: To, added: Added): Branch {
    const wide = this.#wideFor(parts, from);
    if (wide) {
      const { decoded } = this.#buffers;
      besideSums(this.#device, added, from, () =>
        multiplyWide({ device: this.#device, wide }, parts, this.#padded(from), { to, decoded }),
      );
      return [to.at, 0, 0, 0];
    }
    const rows = rowsOf(parts);
    const { multiprocessors } = this.#device;
    const { count } = from;
    const inParts = parts.every(({ format }) => planProduct({ format, rows, count }, multiprocessors).parts);
    const [mode, at, size] = inParts ? (["parts", this.#buffers.parts, 4] as const) : (["whole", to.at, 2] as const);
    const stride = inParts ? rows : to.stride;
    let column = 0;
    for (const some of alike(parts)) {
      const own = { at: at + column * size, stride };
      this.#product(some, from, { mode, to: own, added: column === 0 ? added : NONE });
      column += rowsOf(some);
    }
    return inParts ? [0, at, slicesOf(from.depth), count * rows] : [at, 0, 0, 0];
  }

  /** cublasLt plans for each number of rows. So that there are few, unused rows of the buffers are multiplied too. */
  #padded(from: From): From {
    return this.#inOnePiece ? { ...from, count: Math.ceil(from.count / PLANNED_ROWS) * PLANNED_ROWS } : from;
  }

  #wideFor(parts: readonly Weight[], { depth, count }: From): WideKernels | null {
    if (this.#begins !== null || this.#inOnePiece) return this.#device.exact();
    if (!this.#wide || !isWide({ rows: rowsOf(parts), depth, count }, this.#wide)) return null;
    return this.#device.wide();
  }

  #product(parts: readonly Weight[], from: From, { mode, to, added }: Result) {
    const [first, second, third] = parts as [Weight, Weight?, Weight?];
    const { x, depth, count } = from;
    const { format } = first;
    const rows = rowsOf(parts);
    const { tile } = planProduct({ format, rows, count }, this.#device.multiprocessors);
    const slices = slicesOf(depth);
    const of = { format, tile, slices, rows, count, parts: mode === "parts" };
    const carries = carriesSums({ format, tile });
    const [blocks, ...others] = productGrid(of);
    const grid = [blocks + (carries ? added.blocks : 0), ...others] as const;
    const secondAt = second ? first.rows : rows;
    if (format !== "bf16") this.#makeReady(from);
    const how = { grid, threads: productThreads({ tile, slices }), shared: productShared({ format, tile, slices }) };
    besideSums(this.#device, carries ? NONE : added, from, () =>
      this.#device.launch(productName({ format, tile }), how, [
        ...[first.at, second?.at ?? 0, third?.at ?? 0, x, to.at],
        ...[secondAt, third ? secondAt + second!.rows : rows, rows, depth, first.columns],
        ...[count, depth, to.stride, MODE[mode], slices, count * to.stride, 0],
        ...(format === "bf16" ? [] : readyValues(this.#buffers.ready)),
        ...(carries ? added.values : []),
      ]),
    );
  }

  /** Makes rows ready for packed weights, unless the kernel that made them has done so. */
  #makeReady({ x, depth, count }: From) {
    const { ready } = this.#buffers;
    if (ready.of === x) return;
    ready.of = x;
    const grid = [Math.ceil(readyBlocks(depth) / READY_WARPS), count, 1] as const;
    this.#device.launch("ready_rows", { grid, threads: 32 * READY_WARPS }, [x, depth, depth, ...readyValues(ready)]);
  }
}

const READY_WARPS = 8;
const NOT_READY = [0, 0, 0, 0, 0] as const;
const readyValues = ({ halves, sums, scales, stride }: Buffers["ready"]) => [halves, sums, scales, stride, 0] as const;

/** `x`: address of `count` rows of `depth` numbers. */
export type From = { x: number; depth: number; count: number };
type To = { at: number; stride: number };
type Result = { mode: keyof typeof MODE; to: To; added: Added };
const rowsOf = (parts: readonly Weight[]) => parts.reduce((sum, { rows }) => sum + rows, 0);

/** Neighbouring weights of one format. */
function alike(parts: readonly Weight[]): readonly Weight[][] {
  const runs: Weight[][] = [];
  for (const part of parts) {
    if (runs.at(-1)?.[0]?.format === part.format) runs.at(-1)!.push(part);
    else runs.push([part]);
  }
  return runs;
}
const isPacked = ({ matrices }: DecoderModel) => [...matrices.values()].some(({ packed }) => packed);

/** Room for rows that are ready for packed weights. */
function readyRoom(room: (bytes: number) => number, rows: number, depth: number) {
  const blocks = readyBlocks(depth);
  return {
    halves: room(rows * depth * 2),
    sums: room(rows * blocks * READY_SUM_BYTES),
    scales: room(rows * blocks * 4),
  };
}
