/**
 * Makes the small picture that the network for whole images sees, exactly as in training
 * (`models/detector/networks/whole_view.py`). Both must satisfy the cases in `models/detector/cases/whole_view.json`.
 *
 * The picture is the image averaged over 128 × 128 equal areas; the aspect ratio is not kept. On an axis of length L,
 * cell i covers [i·L, (i+1)·L) and pixel j covers [128·j, 128·(j+1)). Overlaps are the weights. All numbers are
 * integers below 2^53, so every machine has the same bytes.
 */
import { ClientLeft } from "../../../lib/net/client_left.ts";
import type { Pixels } from "./decode.ts";

export const WHOLE_SIDE = 128;
const CHANNELS = 3;
const STRIP_PIXELS = 4e6; // about 15 ms of work
const MOST_ROWS = 256; // so many bytes can be added up in 16 bits

/** Reads a large image in strips, so that other requests are answered in between. */
export async function smallPicture(image: Pixels, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const { width, height } = image;
  const small = new Uint8Array(WHOLE_SIDE * WHOLE_SIDE * CHANNELS);
  const [rows, columns] = [cellsOf(height), cellsOf(width)];
  const reader = new RowReader(image);
  let pixels = 0;
  for (const [i, row] of rows.entries()) {
    shrinkRow(reader.sum(row), columns, width * height, small, i * WHOLE_SIDE * CHANNELS);
    pixels += (row.next - row.first) * width;
    if (pixels < STRIP_PIXELS) continue;
    pixels = 0;
    await new Promise((resolve) => setImmediate(resolve));
    if (signal.aborted) throw new ClientLeft(); // its pixels do not count as held any more
  }
  return small;
}

/**
 * A cell is all pixels from `first` up to `next`, less the part of `first` before the cell, plus the part of `next` in
 * the cell. A pixel has 128 parts. Behind the last pixel `behind` is 0.
 */
type Cell = { first: number; next: number; before: number; behind: number };

const cellsOf = (length: number): Cell[] =>
  Array.from({ length: WHOLE_SIDE }, (_, i) => ({
    first: Math.floor((i * length) / WHOLE_SIDE),
    next: Math.floor(((i + 1) * length) / WHOLE_SIDE),
    before: (i * length) % WHOLE_SIDE,
    behind: ((i + 1) * length) % WHOLE_SIDE,
  }));

/** Adds up rows of an image, four bytes at a time: two in the halves of one number, two in those of another. */
class RowReader {
  readonly #pixels: Buffer;
  readonly #bytes: number; // of a row
  readonly #last: number;
  readonly #row: Buffer; // a row at an address that can be read by words
  readonly #words: Int32Array;
  readonly #even: Int32Array; // bytes 0 and 2 of each word
  readonly #odd: Int32Array; // bytes 1 and 3
  readonly #sums: Int32Array;

  constructor({ pixels, width, height }: Pixels) {
    const words = Math.ceil((width * CHANNELS) / 4);
    this.#pixels = Buffer.from(pixels.buffer, pixels.byteOffset, pixels.length);
    this.#bytes = width * CHANNELS;
    this.#last = height - 1;
    this.#words = new Int32Array(words);
    this.#row = Buffer.from(this.#words.buffer);
    this.#even = new Int32Array(words);
    this.#odd = new Int32Array(words);
    this.#sums = new Int32Array(words * 4);
  }

  /** The sums of the columns of a cell of rows, by weight. Below 2^31: an image has 65,535 rows at most. */
  sum({ first, next, before, behind }: Cell): Int32Array {
    const sums = this.#sums.fill(0);
    for (let from = first; from < next; from += MOST_ROWS) this.#addRows(from, Math.min(from + MOST_ROWS, next));
    const pixels = this.#pixels;
    const [begin, end] = [first * this.#bytes, Math.min(next, this.#last) * this.#bytes];
    const count = this.#bytes;
    for (let i = 0; i < count; i++) {
      // `imul` does not check for overflow, and no array is made here: each would double the time
      const less = Math.imul(before, pixels[begin + i]!);
      const more = Math.imul(behind, pixels[end + i]!);
      sums[i] = Math.imul(WHOLE_SIDE, sums[i]!) - less + more;
    }
    return sums;
  }

  #addRows(from: number, to: number) {
    const [words, even, odd, sums, bytes] = [this.#words, this.#even, this.#odd, this.#sums, this.#bytes];
    even.fill(0);
    odd.fill(0);
    for (let y = from; y < to; y++) {
      this.#pixels.copy(this.#row, 0, y * bytes, (y + 1) * bytes);
      for (let i = 0; i < words.length; i++) {
        const word = words[i]!;
        even[i] = (even[i]! + (word & 0xff00ff)) | 0;
        odd[i] = (odd[i]! + ((word >>> 8) & 0xff00ff)) | 0;
      }
    }
    for (let i = 0; i < words.length; i++) {
      const at = i * 4;
      sums[at] = sums[at]! + (even[i]! & 0xffff);
      sums[at + 1] = sums[at + 1]! + (odd[i]! & 0xffff);
      sums[at + 2] = sums[at + 2]! + (even[i]! >>> 16);
      sums[at + 3] = sums[at + 3]! + (odd[i]! >>> 16);
    }
  }
}

/** Writes one row of the small picture. */
function shrinkRow(sums: Int32Array, columns: readonly Cell[], area: number, small: Uint8Array, to: number) {
  let at = to;
  for (const { first, next, before, behind } of columns) {
    for (let c = 0; c < CHANNELS; c++) {
      const begin = first * CHANNELS + c;
      const end = next * CHANNELS + c;
      let sum = 0;
      for (let i = begin; i < end; i += CHANNELS) sum += sums[i]!;
      sum = WHOLE_SIDE * sum - before * sums[begin]!;
      if (behind > 0) sum += behind * sums[end]!;
      small[at++] = Math.floor((2 * sum + area) / (2 * area));
    }
  }
}
