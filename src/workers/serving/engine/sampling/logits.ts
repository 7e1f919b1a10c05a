import { toArrayBuffer } from "bun:ffi";
import { must, type Ptr } from "../../../../native/ffi.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";

type LogitsOptions = { llama: Llama; context: Ptr; vocabSize: number };

/** Views of the library's own array, valid until the next decode. Rows keep their addresses from step to step. */
export class Logits {
  readonly #options: LogitsOptions;
  readonly #most: number;
  readonly #views = new Map<Ptr, Float32Array>();

  constructor(options: LogitsOptions, most: number) {
    this.#options = options;
    this.#most = most;
  }

  row(row: number): Float32Array {
    const { llama, context, vocabSize } = this.#options;
    const at = must(llama.llama_get_logits_ith(context, row), "llama_get_logits_ith");
    const found = this.#views.get(at);
    if (found) return found;
    if (this.#views.size > this.#most) this.#views.clear(); // the array has moved
    const view = new Float32Array(toArrayBuffer(at, 0, vocabSize * 4));
    this.#views.set(at, view);
    return view;
  }
}
