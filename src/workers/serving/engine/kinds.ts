import { type Ptr, text } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";
import { SPOKEN } from "../tokens/spoken.ts";

export const TEXT = 0;
/** A control token that does not end a text and is not shown. */
export const CONTROL = 1;
export const END = 2;
const UNKNOWN = 255;

/** Token kinds of a vocabulary, read on demand: reading a large vocabulary would add 20 ms to a load. */
export class TokenKinds {
  readonly #llama: Llama;
  readonly #vocab: Ptr;
  readonly #known: Uint8Array;

  constructor(llama: Llama, vocab: Ptr) {
    this.#llama = llama;
    this.#vocab = vocab;
    this.#known = new Uint8Array(llama.llama_vocab_n_tokens(vocab)).fill(UNKNOWN);
  }

  of(token: number): number {
    if (this.#known[token] === UNKNOWN) this.#known[token] = this.#ask(token);
    return this.#known[token]!;
  }

  all(kind: number): number[] {
    const tokens: number[] = [];
    for (let token = 0; token < this.#known.length; token++) if (this.of(token) === kind) tokens.push(token);
    return tokens;
  }

  #ask(token: number): number {
    if (this.#llama.llama_vocab_is_eog(this.#vocab, token)) return END;
    if (!this.#llama.llama_vocab_is_control(this.#vocab, token)) return TEXT;
    return SPOKEN.has(text(this.#llama.llama_vocab_get_text(this.#vocab, token))) ? TEXT : CONTROL;
  }
}
