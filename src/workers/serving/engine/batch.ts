/** A llama_batch that is refilled for every step. Its arrays never move: their addresses are taken once. */
import { ptr } from "bun:ffi";
import type { Ptr } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";
import { injectFault } from "./thread/fault.ts";

export class Batch {
  readonly capacity: number;
  length = 0;
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #sequences: Int32Array;
  readonly #wants: Int8Array;
  readonly #counts: Int32Array;
  readonly #lists: BigUint64Array;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#tokens = new Int32Array(capacity);
    this.#positions = new Int32Array(capacity);
    this.#sequences = new Int32Array(capacity);
    this.#wants = new Int8Array(capacity);
    this.#counts = new Int32Array(capacity).fill(1);
    const first = BigInt(ptr(this.#sequences));
    this.#lists = BigUint64Array.from({ length: capacity }, (_, i) => first + BigInt(i * 4));
  }

  clear() {
    this.length = 0;
  }

  /** Returns the row, which later selects the logits. */
  add(token: number, position: number, sequence: number, wantsOutput: boolean): number {
    const row = this.length++;
    this.#tokens[row] = token;
    this.#positions[row] = position;
    this.#sequences[row] = sequence;
    this.#wants[row] = wantsOutput ? 1 : 0;
    return row;
  }

  /** 0 = done, 1 = no room in the cache for this batch, 2 = aborted, below 0 = rejected or failed. */
  decode(llama: Llama, context: Ptr): number {
    injectFault(this.length);
    return llama.llama_decode(
      context,
      this.length,
      this.#tokens,
      this.#positions,
      this.#counts,
      this.#lists,
      this.#wants,
    );
  }
}
