/**
 * Moves what a sequence has on the device to the host and back, bit by bit: it goes on with the same tokens as if it had
 * never paused. Its pages stay on the device until another sequence needs them.
 */
import { type Device, PAGE } from "../../native/cuda/decode/kernels.ts";
import type { Board } from "./board.ts";
import type { PoolAt } from "./page_blocks.ts";
import type { Lease, PageTable } from "./pages.ts";
import type { Sequence } from "./sequence.ts";
import type { openSlotMemory } from "./slot_memory.ts";

const MOST_BYTES = 4 * 2 ** 30; // of pages in the memory of the host

export type PausingParts = {
  device: Device;
  board: Board;
  memory: ReturnType<typeof openSlotMemory>;
  pages: PageTable;
  pool: PoolAt;
};

export class Pausing {
  readonly #parts: PausingParts;
  #bytes = 0;

  constructor(parts: PausingParts) {
    this.#parts = parts;
  }

  /** Copies what the slot has. All commands of the board were carried out. */
  save(slot: number): Uint8Array {
    const { device, board, memory } = this.#parts;
    const words = board.wordsOf(slot).map((place) => ({ at: board.address(place), bytes: 4 }));
    return device.gather([...words, ...memory.partsOf(slot)]);
  }

  restore(slot: number, saved: Uint8Array) {
    const { device, board, memory } = this.#parts;
    const words = board.wordsOf(slot);
    const values = new Int32Array(saved.slice(0, words.length * 4).buffer);
    for (const [i, word] of words.entries()) board.set(word, values[i]!);
    let from = words.length * 4;
    for (const { at, bytes } of memory.partsOf(slot)) {
      device.put(at, saved.subarray(from, from + bytes));
      from += bytes;
    }
  }

  /** Moves the pages of a paused sequence to the host, if there is room. `isLast`: nothing else can go on. */
  giveAway({ paused, lease, position }: Sequence, isLast: boolean) {
    if (paused === null || paused.pages !== null) return;
    const { device, pages, pool } = this.#parts;
    const table = lease.table.slice(0, Math.ceil(position / PAGE));
    const bytes = table.length * pool.layers * pool.pageBytes;
    if (this.#bytes + bytes > MOST_BYTES && !isLast) return;
    paused.pages = device.gather(rangesOf(pool, table));
    this.#bytes += bytes;
    pages.release(lease);
  }

  /** Returns the pages with their content, and room for the `total` tokens of the sequence. Null: there is not enough. */
  takeBack({ paused, lease }: Sequence, total: number): Lease | null {
    const { device, pages, pool } = this.#parts;
    const content = paused?.pages;
    if (!content) return pages.reserve(lease, total) ? lease : null;
    const own = pages.admit(new Int32Array(0), total);
    if (!own) return null;
    const count = content.length / (pool.layers * pool.pageBytes);
    for (let i = 0; i < count; i++) pages.grow(own, i * PAGE);
    let from = 0;
    for (const { at, bytes } of rangesOf(pool, own.table)) {
      device.put(at, content.subarray(from, from + bytes));
      from += bytes;
    }
    this.forget(paused);
    return own;
  }

  forget(paused: Sequence["paused"]) {
    this.#bytes -= paused?.pages?.length ?? 0;
  }
}

const rangesOf = ({ pool, layers, layerBytes, pageBytes }: PoolAt, table: readonly number[]) =>
  Array.from({ length: layers }, (_, layer) =>
    table.map((page) => ({ at: pool + layer * layerBytes + page * pageBytes, bytes: pageBytes })),
  ).flat();
