/** The graph of a step for each number of rows and chunks. It is recorded when it is first needed. */
import { type Device, MOST_ALTERNATIVES, RESULT_WORDS, type Recorded } from "../../../native/cuda/decode/kernels.ts";
import { type Board, NO_SLOT } from "../board.ts";
import type { Passes } from "../passes.ts";
import { bucketOf, chunksOf } from "../plan.ts";
import type { openSlotMemory } from "../slot_memory.ts";

type Parts = { board: Board; passes: Passes; memory: ReturnType<typeof openSlotMemory> };

export class StepGraphs {
  readonly #device: Device;
  readonly #parts: Parts;
  readonly #graphs = new Map<string, Recorded>();
  readonly #rowSlots: Int32Array; // the slots of the board's rows

  constructor(device: Device, parts: Parts) {
    this.#device = device;
    this.#parts = parts;
    this.#rowSlots = new Int32Array(parts.board.size.rows).fill(NO_SLOT);
  }

  /** Carries out the commands of the board without a step. */
  sendBoard() {
    this.#parts.board.send();
    this.#begin(0);
  }

  /** Queues a step of these slots. `keys`: the most that one of them attends to. */
  run(slots: readonly number[], keys: number, wantsOthers: boolean) {
    const { board, memory } = this.#parts;
    const bucket = bucketOf(slots.length);
    for (let row = 0; row < bucket; row++) {
      const slot = slots[row] ?? NO_SLOT;
      if (this.#rowSlots[row] !== slot) board.set(board.layout.rowSlots + row, slot);
      this.#rowSlots[row] = slot;
    }
    board.send();
    this.#graph(bucket, chunksOf(keys)).run();
    const { results, alternatives } = memory;
    return {
      results: this.#device.read(results, slots.length * RESULT_WORDS * 4),
      alternatives: wantsOthers ? this.#device.read(alternatives, slots.length * MOST_ALTERNATIVES * 8) : null,
    };
  }

  free() {
    for (const graph of this.#graphs.values()) graph.free();
    this.#graphs.clear();
  }

  #graph(rows: number, chunks: number): Recorded {
    const key = `${rows} ${chunks}`;
    const recorded = this.#graphs.get(key);
    if (recorded) return recorded;
    const { board, passes, memory } = this.#parts;
    const { layout } = board;
    const at = (place: number) => board.address(place);
    const of = { slots: at(layout.rowSlots), tokens: at(layout.rowTokens), positions: at(layout.rowPositions) };
    const step = () => {
      this.#begin(rows);
      passes.decode({ rows: { ...of, count: rows }, chunks });
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
