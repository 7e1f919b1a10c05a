/**
 * Slots for guessed tokens. A guess is decoded in a slot of its own that has the pages of the sequence, in the same step as
 * the token before it: a step writes the keys of all its rows before it attends. Keys of wrong guesses are written over
 * before a later token looks at their places.
 */
import type { Board } from "../board.ts";
import { drawingWords, RANDOM_WORD } from "../drawing.ts";
import type { Sequence } from "../sequence.ts";
import { MOST_DECODED } from "./text.ts";

export class GuessSlots {
  readonly #board: Board;
  readonly #first: number;
  readonly #tables: Int32Array; // the pages of these slots, as the board has them

  /** `first`: the first of MOST_DECODED slots of the board. */
  constructor(board: Board, first: number) {
    this.#board = board;
    this.#first = first;
    this.#tables = new Int32Array(MOST_DECODED * board.size.pagesPerSlot).fill(-1);
  }

  /** Puts the guesses behind the next token of the sequence, which has pages for them. Returns the slots of all rows. */
  put({ slot, position, lease, text, admission }: Sequence, guesses: Int32Array): number[] {
    const { layout } = this.#board;
    const words = drawingWords(admission.drawing);
    const slots = [slot];
    guesses.forEach((token, i) => {
      const slot = this.#first + i;
      this.#setPages(i, lease.table);
      this.#board.set(layout.slotTokens + slot, token);
      this.#board.set(layout.slotPositions + slot, position + 1 + i);
      words.set(text!.randomIn(1 + i), RANDOM_WORD);
      this.#board.setDrawing(slot, words);
      slots.push(slot);
    });
    return slots;
  }

  /** The slot of the sequence goes on behind its guesses. */
  accept({ slot, position, text }: Sequence, newest: number) {
    const { layout } = this.#board;
    this.#board.set(layout.slotTokens + slot, newest);
    this.#board.set(layout.slotPositions + slot, position);
    this.#board.setRandom(slot, text!.randomIn(0));
  }

  #setPages(index: number, table: readonly number[]) {
    const at = index * this.#board.size.pagesPerSlot;
    table.forEach((page, i) => {
      if (this.#tables[at + i] === page) return;
      this.#tables[at + i] = page;
      this.#board.setPage(this.#first + index, i, page);
    });
  }
}
