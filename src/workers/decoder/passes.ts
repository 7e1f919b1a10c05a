/** One pass through the model for some rows of tokens: the sequence of kernels, for a graph or for a prompt. */

import type { KvType } from "../../lib/gguf/memory.ts";
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
  keptBytes,
  MODE,
  MOST_SLICES,
  PROMPT_THREADS,
  productGrid,
  productName,
  productShared,
  productThreads,
  promptShared,
  promptShares,
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
export type PagesAt = { pool: number; layerBytes: number; table: number; tableStride: number; type: KvType };
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
  const kept = heads * model.keptLength;
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
    queries: room(rows * kept * 2),
    attended: room(rows * inner * 2),
    product: room(rows * forward * 2),
    y: room(rows * width * 2),
    /** Slices of sums. Between a norm and the next product it is free: gates and ups of wide passes lie here. */
    parts: room(rows * Math.max(MOST_SLICES * Math.max(qkv, width) * 4, forward * 4)),
    decoded: room(decodedRoom(model)),
    ready: { of: 0, ...readyRoom(room, isPacked(model) ? rows : 0, Math.max(width, forward, inner)), stride: rows },
    logits: room(Math.ceil(size.headRows / ROW_MULTIPLE) * ROW_MULTIPLE * vocabStride * 4),
    chunkSums: room(size.chunkRows * kept * 4),
    chunkTops: room(size.chunkRows * heads * 8),
    bytes: () => bytes,
    free: () => held.splice(0).forEach(device.free),
  };
}
export type Buffers = ReturnType<typeof openBuffers>;

/** The result of a product, as the next kernel takes it: whole, parts, slices, slice stride. */
type Branch = readonly [whole: number, parts: number, slices: number, sliceStride: number];
/** The result of a layer's part, and what adapters add to it. */
type Result = { branch: Branch; added: Added };
const NO_RESULT: Result = { branch: [0, 0, 0, 0], added: NONE };

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
    const { layers, vocab, caps } = architecture;
    const { count } = pass.rows;
    this.#norm(count, branch, outputNorm, [head]);
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
    if (caps.logits > 0)
      this.#device.launch("cap_logits", { grid: [Math.ceil(vocab / 256), count, 1], threads: 256 }, [
        ...[logits, vocabStride, vocab, caps.logits],
      ]);
  }

  draw(rows: number, values: Draw) {
    this.#device.launch("draw_tokens", { grid: [rows, 1, 1], threads: DRAW_THREADS }, [
      this.#buffers.logits,
      ...values,
    ]);
  }

  #layers(pass: Pass, fillsOnly: boolean): Result {
    const { layers, embeddings, architecture } = this.#model;
    const { width, scales } = architecture;
    const { count, tokens } = pass.rows;
    // Later kernels read which rows there are, with their pages and adapters, before they wait.
    this.#device.launch("embed_rows", { grid: [count, 1, 1], threads: rowThreads(width), alone: true }, [
      ...[embeddings.at, FORMAT[embeddings.format] + (embeddings.packed ? IS_PACKED : 0), tokens, this.#buffers.x],
      ...[width, scales.embedding],
    ]);
    let branch: Result = NO_RESULT;
    for (const [i, layer] of layers.entries()) {
      branch = this.#attention(pass, layer, i, branch, fillsOnly && i === layers.length - 1);
      if (fillsOnly && i === layers.length - 1) break;
      branch = this.#forward(pass, layer, i, branch);
    }
    return branch;
  }

  #attention(pass: Pass, layer: LayerWeights, index: number, before: Result, keysOnly: boolean): Result {
    const { architecture, temperatures, keptLength } = this.#model;
    const { width, heads, keyHeads, headLength, ropeMode, rotated, epsilon } = architecture;
    const { h, qkv, queries, qkvWidth } = this.#buffers;
    const { slots, tokens, positions, count } = pass.rows;
    this.#norm(count, before, layer.norm1, layer.qkv);
    const added = this.#added(pass, index, "qkv", 3);
    const raw = this.#branch(layer.qkv, { x: h, depth: width, count }, { at: qkv, stride: qkvWidth }, added);
    const { pool, layerBytes, table, tableStride, type } = this.#pages;
    const pages = [pool + index * layerBytes, table, tableStride, keyHeads];
    const rows = [slots, tokens, positions, count];
    const far = ropeMode === 2 ? rotated / 2 : 0;
    const name = `turn_rows${type === "q8_0" ? "_q8" : ""}${keptLength > 128 ? "_256" : ""}` as const;
    this.#device.launch(name, { grid: [Math.ceil((count * (heads + 2 * keyHeads)) / 8), 1, 1], threads: 256 }, [
      ...[...raw, queries, ...pages, ...rows, layer.turns, temperatures, layer.bias, layer.queryNorm, layer.keyNorm],
      ...[heads, keyHeads, headLength, far, epsilon, this.#begins === null ? 0 : 1],
      ...[keptLength, keptBytes(type, keptLength), ...added.values],
    ]);
    if (keysOnly) return NO_RESULT;
    this.#attend(pass, layer, [...pages, ...rows]);
    const inner = heads * headLength;
    const from = { x: this.#buffers.attended, depth: inner, count };
    const to = { at: this.#buffers.y, stride: width };
    const output = this.#added(pass, index, "output");
    return this.#result(this.#branch([layer.output], from, to, output), output, layer.attentionNorm, count);
  }

  #attend({ rows, chunks, tiles }: Pass, { window }: LayerWeights, pagesAndRows: readonly number[]) {
    const { architecture, keptLength: length } = this.#model;
    const { heads, keyHeads, headLength, scales, caps } = architecture;
    const { queries, attended, chunkSums, chunkTops } = this.#buffers;
    const outStride = heads * headLength;
    if (this.#begins !== null) {
      const grid = [keyHeads, tiles?.count ?? rows.count, 1] as const;
      const how = { grid, threads: EXACT_THREADS, shared: exactShared(length) };
      return this.#device.launch(`attend_exact_${length as 64 | 128}`, how, [
        ...[queries, ...pagesAndRows, tiles?.at ?? 0, this.#begins, attended, heads, outStride, scales.scores, 0],
      ]);
    }
    const joined = tiles ? SPAN : 1; // chunks of a part
    const values = [
      ...[queries, ...pagesAndRows, tiles?.at ?? 0, attended, chunkSums, chunkTops],
      ...[heads, outStride, chunks, scales.scores, joined, window, headLength, caps.scores, 0],
    ];
    const { type } = this.#pages;
    const of = type === "q8_0" ? (`q8_${length}` as const) : (`${length}` as const);
    if (tiles) {
      const grid = [chunks, keyHeads * promptShares(length), tiles.count] as const;
      const how = { grid, threads: PROMPT_THREADS, shared: promptShared(type, length) };
      this.#device.launch(`attend_prompt_${of}`, how, values);
    } else {
      const grid = [chunks, keyHeads, rows.count] as const;
      this.#device.launch(`attend_${of}`, { grid, threads: ATTEND_THREADS, shared: attendShared(length) }, values);
    }
    if (chunks > 1) this.#device.launch(`join_${length}`, { grid: [rows.count, heads, 1], threads: length }, values);
  }

  #forward(pass: Pass, layer: LayerWeights, index: number, before: Result): Result {
    const { width, forward, activation } = this.#model.architecture;
    const { h, product, y, parts: both, decoded } = this.#buffers;
    const { count } = pass.rows;
    const pair = [layer.gate, layer.up] as const;
    this.#norm(count, before, layer.norm2, pair);
    const from = { x: h, depth: width, count };
    const added = this.#added(pass, index, "gateUp", pair.length);
    const wide = this.#wideFor(pair, from);
    const isFused = !pass.adapters && activation === "silu";
    if (wide) {
      besideSums(this.#device, added, from, () =>
        multiplyBoth({ device: this.#device, wide }, pair, this.#padded(from), { both, decoded }),
      );
      if (isFused) joinWide(wide, { both, to: product, forward, count });
    } else if (isFused) this.#product(pair, from, { mode: "gated", to: { at: product, stride: forward }, added });
    else this.#product(pair, from, { mode: "whole", to: { at: both, stride: 2 * forward }, added });
    if (pass.adapters) joinGates(this.#device, pass.adapters, added, { both, to: product, forward, activation });
    else if (activation === "gelu")
      this.#device.launch("join_gelu", { grid: [Math.ceil(forward / 8 / 128), count, 1], threads: 128 }, [
        ...[both, product, forward, 0],
      ]);
    const down = this.#added(pass, index, "down");
    const result = this.#branch([layer.down], { x: product, depth: forward, count }, { at: y, stride: width }, down);
    return this.#result(result, down, layer.forwardNorm, count);
  }

  /** The result of a layer's part, as the next norm adds it. */
  #result(branch: Branch, added: Added, norm: number, count: number): Result {
    if (norm === 0) return { branch, added };
    const { width, epsilon } = this.#model.architecture;
    const { h } = this.#buffers; // no product reads it any more
    this.#device.launch("norm_branch", { grid: [count, 1, 1], threads: rowThreads(width), shared: width * 4 }, [
      ...[...branch, norm, h, width, epsilon, ...added.values],
    ]);
    return { branch: [h, 0, 0, 0], added: NONE };
  }

  #added({ adapters }: Pass, layer: number, part: Exclude<keyof typeof PLACE, "layer">, matrices = 1): Added {
    return addedAt(this.#adapters, adapters, { place: layer * PLACE.layer + PLACE[part], matrices });
  }

  /** `next`: what multiplies the result. */
  #norm(count: number, { branch, added }: Result, weight: number, next: readonly Weight[]) {
    const { width, epsilon, scales } = this.#model.architecture;
    const { x, h, ready } = this.#buffers;
    const isReady = next.some(({ packed }) => packed) && this.#wideFor(next, { x: h, depth: width, count }) === null;
    ready.of = isReady ? h : 0;
    this.#device.launch("norm_rows", { grid: [count, 1, 1], threads: rowThreads(width), shared: width * 4 }, [
      ...[x, ...branch, weight, h, width, width, epsilon, scales.residual, ...added.values],
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

  #product(parts: readonly Weight[], from: From, { mode, to, added }: Target) {
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
type Target = { mode: keyof typeof MODE; to: To; added: Added };
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
