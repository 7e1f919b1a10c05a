/** The state of one sample's grammar: which tokens may follow, for a backend that draws on a device. */
import type { Ptr } from "../../../../native/ffi.ts";
import { CONTROL, END } from "../kinds.ts";
import { type Candidates, openGrammar, type SamplerNative } from "./sampler.ts";

export class GrammarState {
  readonly #native: SamplerNative;
  readonly #candidates: Candidates;
  readonly #grammar: Ptr;

  /** Throws the parser's message if the grammar does not parse. */
  constructor(native: SamplerNative, candidates: Candidates, grammar: string) {
    this.#native = native;
    this.#candidates = candidates;
    this.#grammar = openGrammar(native.llama, native.vocab, grammar);
  }

  allows(token: number): boolean {
    const { llama, kinds } = this.#native;
    return kinds.of(token) !== CONTROL && this.#candidates.allows(llama, this.#grammar, token);
  }

  /** A bit for each token that may follow. It takes milliseconds for a large vocabulary. */
  mask(): Uint32Array {
    return this.#candidates.mask(this.#native.llama, { grammar: this.#grammar, kinds: this.#native.kinds });
  }

  accept(token: number) {
    const { llama, kinds } = this.#native;
    if (kinds.of(token) !== END) llama.llama_sampler_accept(this.#grammar, token);
  }

  free() {
    this.#native.llama.llama_sampler_free(this.#grammar);
  }
}
