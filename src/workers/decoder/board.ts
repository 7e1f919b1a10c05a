/**
 * The board is one array of integers on the device: what each row decodes, and for each slot its token, its position, its
 * pages and how it draws. The host changes it by commands that the next step carries out first. Graphs hold only its
 * address, so no change of a slot needs another graph.
 */
import { type Device, DRAWING_WORDS, TILE_WORDS } from "../../native/cuda/decode/kernels.ts";
import { RANDOM_WORD } from "./drawing.ts";

export type BoardSize = { rows: number; slots: number; pagesPerSlot: number };

/** Returns the first word of each part. Pure. */
function boardLayout({ rows, slots, pagesPerSlot }: BoardSize) {
  let at = 0;
  const next = (count: number) => {
    const begin = at;
    at += Math.ceil(count / 4) * 4;
    return begin;
  };
  return {
    rowSlots: next(rows),
    rowTokens: next(rows),
    rowPositions: next(rows),
    slotTokens: next(slots),
    slotPositions: next(slots),
    slotBegins: next(slots), // positions where answers begin
    rowAdapters: next(rows),
    tiles: next(rows * TILE_WORDS), // rows with the same adapter
    tables: next(slots * pagesPerSlot),
    drawings: next(slots * DRAWING_WORDS),
    words: at,
  };
}
export type BoardLayout = ReturnType<typeof boardLayout>;

export const NO_SLOT = -1;

export class Board {
  readonly layout: BoardLayout;
  readonly size: BoardSize;
  readonly at: number;
  readonly commandsAt: number;
  readonly #device: Device;
  readonly #pending = new Map<number, number>();

  constructor(device: Device, size: BoardSize) {
    this.size = size;
    this.layout = boardLayout(size);
    this.#device = device;
    this.at = device.allocate(this.layout.words * 4);
    this.commandsAt = device.allocate((1 + 2 * this.layout.words) * 4); // every word once
    for (let row = 0; row < size.rows; row++) this.set(this.layout.rowSlots + row, NO_SLOT);
  }

  /** Sets a word before the next step. A later call for the same word replaces an earlier one. */
  set(place: number, value: number) {
    this.#pending.set(place, value);
  }

  setPage(slot: number, index: number, page: number) {
    this.set(this.layout.tables + slot * this.size.pagesPerSlot + index, page);
  }

  setDrawing(slot: number, words: Int32Array) {
    words.forEach((word, i) => {
      this.set(this.layout.drawings + slot * DRAWING_WORDS + i, word);
    });
  }

  setRandom(slot: number, state: Int32Array) {
    state.forEach((word, i) => {
      this.set(this.layout.drawings + slot * DRAWING_WORDS + RANDOM_WORD + i, word);
    });
  }

  /** Queues the commands for the next `begin_step`. */
  send() {
    const list = new Int32Array(1 + 2 * this.#pending.size);
    let at = 1;
    list[0] = this.#pending.size;
    for (const [place, value] of this.#pending) {
      list[at++] = place;
      list[at++] = value;
    }
    this.#pending.clear();
    this.#device.put(this.commandsAt, list);
  }

  /** The words with the token, the position and the drawing of a slot. */
  wordsOf(slot: number): number[] {
    const { slotTokens, slotPositions, drawings } = this.layout;
    const words = Array.from({ length: DRAWING_WORDS }, (_, i) => drawings + slot * DRAWING_WORDS + i);
    return [slotTokens + slot, slotPositions + slot, ...words];
  }

  address(place: number) {
    return this.at + place * 4;
  }

  free() {
    this.#device.free(this.at);
    this.#device.free(this.commandsAt);
  }
}
