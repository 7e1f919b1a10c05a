/**
 * The graph of a step for each number of rows, chunks and tiles of adapters. It is recorded when it is first needed. Steps
 * without adapters have graphs without them.
 */
import {
  type Device,
  MOST_ALTERNATIVES,
  RESULT_WORDS,
  type Recorded,
  TILE_WORDS,
} from "../../../native/cuda/decode/kernels.ts";
import { paddedTiles } from "../adapters/added.ts";
import { adapterTiles, tilesOf } from "../adapters/plan.ts";
import { type Board, NO_SLOT } from "../board.ts";
import type { Passes } from "../passes.ts";
import { bucketOf, chunksOf } from "../plan.ts";
import type { openSlotMemory } from "../slot_memory.ts";

/** `adapters`: the place of each row's adapter in the table. */
export type StepRows = { slots: readonly number[]; adapters: readonly number[] };
type GraphOf = { rows: number; chunks: number; tiles: number; head: boolean };
const keyOf = ({ rows, chunks, tiles, head }: GraphOf) => `${rows} ${chunks} ${tiles} ${head}`;
type Parts = { board: Board; passes: Passes; memory: ReturnType<typeof openSlotMemory> };

export class StepGraphs {
  readonly #device: Device;
  readonly #parts: Parts;
  readonly #graphs = new Map<string, Recorded>();
  readonly #rowSlots: Int32Array; // the slots of the board's rows
  readonly #rowAdapters: Int32Array;
  readonly #tiles: Int32Array;

  constructor(device: Device, parts: Parts) {
    this.#device = device;
    this.#parts = parts;
    this.#rowSlots = new Int32Array(parts.board.size.rows).fill(NO_SLOT);
    const { rows } = parts.board.size;
    [this.#rowAdapters, this.#tiles] = [new Int32Array(rows), new Int32Array(rows * TILE_WORDS)]; // as the board begins
  }

  /** Carries out the commands of the board without a step. */
  sendBoard() {
    this.#parts.board.send();
    this.#begin(0);
  }

  /** Queues a step of these slots. `keys`: the most that one of them attends to. `head`: an adapter may change the head. */
  run(
    { slots, adapters }: StepRows,
    { keys, wantsOthers, head }: { keys: number; wantsOthers: boolean; head: boolean },
  ) {
    const { board, memory } = this.#parts;
    const bucket = bucketOf(slots.length);
    for (let row = 0; row < bucket; row++) {
      const slot = slots[row] ?? NO_SLOT;
      if (this.#rowSlots[row] !== slot) board.set(board.layout.rowSlots + row, slot);
      this.#rowSlots[row] = slot;
    }
    const tiles = adapters.some((adapter) => adapter >= 0) ? this.#setAdapters(adapters, bucket) : 0;
    board.send();
    this.#graph({ rows: bucket, chunks: chunksOf(keys), tiles, head: head && tiles > 0 }).run();
    const { results, alternatives } = memory;
    return {
      results: this.#device.read(results, slots.length * RESULT_WORDS * 4),
      alternatives: wantsOthers ? this.#device.read(alternatives, slots.length * MOST_ALTERNATIVES * 8) : null,
    };
  }

  /** Records the graph of a lone row's step without adapters. Returns false if there was nothing to do. */
  prepare(keys: number): boolean {
    const of = { rows: bucketOf(1), chunks: chunksOf(keys), tiles: 0, head: false };
    if (this.#parts.passes.areWide(of.rows) || this.#graphs.has(keyOf(of))) return false;
    this.#graph(of);
    return true;
  }

  free() {
    for (const graph of this.#graphs.values()) graph.free();
    this.#graphs.clear();
  }

  /** Returns the number of tiles in the grid. */
  #setAdapters(adapters: readonly number[], bucket: number): number {
    const { board } = this.#parts;
    const words = adapterTiles(adapters);
    const count = Math.min(bucket, tilesOf(words));
    const set = (to: Int32Array, begin: number, values: readonly number[]) => {
      for (const [i, value] of values.entries()) {
        if (to[i] !== value) board.set(begin + i, value);
        to[i] = value;
      }
    };
    set(this.#rowAdapters, board.layout.rowAdapters, [
      ...adapters,
      ...new Array<number>(bucket - adapters.length).fill(-1),
    ]);
    set(this.#tiles, board.layout.tiles, paddedTiles(words, count));
    return count;
  }

  #graph({ rows, chunks, tiles, head }: GraphOf): Recorded {
    const key = keyOf({ rows, chunks, tiles, head });
    const recorded = this.#graphs.get(key);
    if (recorded) return recorded;
    const { board, passes, memory } = this.#parts;
    const { layout } = board;
    const address = (place: number) => board.address(place);
    const [slots, tokens] = [address(layout.rowSlots), address(layout.rowTokens)];
    const of = { slots, tokens, positions: address(layout.rowPositions) };
    const at = { rows: address(layout.rowAdapters), tiles: address(layout.tiles), tileCount: tiles, head };
    const step = () => {
      this.#begin(rows);
      passes.decode({ rows: { ...of, count: rows }, chunks, adapters: tiles > 0 ? at : undefined });
    };
    // cuBLAS loads its kernels when they are first used, which a recording does not allow. Until something is drawn, a
    // step can be repeated.
    if (passes.areWide(rows)) step();
    const graph = this.#device.record(() => {
      step();
      passes.draw(rows, memory.drawValues(board));
    });
    this.#graphs.set(key, graph);
    return graph;
  }

  #begin(count: number) {
    const { at, commandsAt, layout } = this.#parts.board;
    this.#device.launch("begin_step", { grid: [1, 1, 1], threads: 256 }, [
      ...[at, commandsAt, layout.rowSlots, layout.rowTokens, layout.rowPositions],
      ...[layout.slotTokens, layout.slotPositions, count],
    ]);
  }
}
