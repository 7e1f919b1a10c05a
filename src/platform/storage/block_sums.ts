/** Sums of the blocks of a content. With them a part of a large content can be verified without the rest. */
import { KIB } from "../../lib/units.ts";

export const BLOCK_BYTES = 64 * KIB;
const FIRST_SUMS = 64;

/**
 * XXH3 finds accidental damage at a tenth of the time of SHA-256. It is no defence against intent: the hash that names
 * the content is.
 */
const sumOf = (block: Uint8Array): bigint => Bun.hash.xxHash3(block as Uint8Array<ArrayBuffer>);

export const blocksIn = (bytes: number) => Math.ceil(bytes / BLOCK_BYTES);

/** Takes a content in chunks of any size. */
export class BlockSums {
  #sums = new BigUint64Array(FIRST_SUMS);
  #count = 0;
  #partial: Uint8Array | undefined;
  #filled = 0;

  add(chunk: Uint8Array) {
    for (let at = 0; at < chunk.byteLength; ) {
      const piece = chunk.subarray(at, at + BLOCK_BYTES - this.#filled);
      at += piece.byteLength;
      if (piece.byteLength === BLOCK_BYTES) this.#push(piece);
      else this.#join(piece);
    }
  }

  #join(piece: Uint8Array) {
    this.#partial ??= new Uint8Array(BLOCK_BYTES);
    this.#partial.set(piece, this.#filled);
    this.#filled += piece.byteLength;
    if (this.#filled === BLOCK_BYTES) this.#endBlock(this.#partial);
  }

  #endBlock(partial: Uint8Array) {
    this.#push(partial.subarray(0, this.#filled));
    this.#filled = 0;
  }

  #push(block: Uint8Array) {
    if (this.#count === this.#sums.length) {
      const larger = new BigUint64Array(2 * this.#count);
      larger.set(this.#sums);
      this.#sums = larger;
    }
    this.#sums[this.#count++] = sumOf(block);
  }

  finish(): BigUint64Array {
    if (this.#partial && this.#filled > 0) this.#endBlock(this.#partial);
    return this.#sums.subarray(0, this.#count);
  }
}

/** The number of the first block of `bytes` that does not have its sum; -1 if all have. `bytes` begins with a block. */
export function firstWrong(sums: BigUint64Array, bytes: Uint8Array): number {
  for (let i = 0; i * BLOCK_BYTES < bytes.byteLength; i++)
    if (sumOf(bytes.subarray(i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES)) !== sums[i]) return i;
  return -1;
}
