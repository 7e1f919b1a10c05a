/**
 * The grammars of one thread: which tokens may follow. To ask the library about a whole vocabulary takes milliseconds, so
 * its answer is kept for each state of a grammar, for all sequences with the same grammar.
 */

import { MIB } from "../../../../lib/units.ts";
import type { Ptr } from "../../../../native/ffi.ts";
import { GrammarPlace, GrammarStates } from "../../grammar/states.ts";
import { CONTROL, END } from "../kinds.ts";
import { tokenize } from "../vocab.ts";
import { type Candidates, openGrammar, type SamplerNative } from "./sampler.ts";

const MOST_GRAMMARS = 32;
const MOST_FORCED = 4096; // texts of a grammar
const NONE = new Int32Array(0);
const MOST_BYTES = 64 * MIB; // masks of all grammars

/** `states` null: this program cannot read the grammar, so nothing is kept. `first`: a sequence at its beginning, to copy. */
type ReadGrammar = {
  states: GrammarStates | null;
  masks: Map<string, Uint32Array>;
  forced: Map<string, Int32Array>;
  first: Ptr;
};

export class Grammars {
  readonly #native: SamplerNative;
  readonly #candidates: Candidates;
  readonly #known = new Map<string, ReadGrammar>();
  readonly #pieces = new Map<number, Uint8Array>();
  #bytes = 0;

  constructor(native: SamplerNative, candidates: Candidates) {
    this.#native = native;
    this.#candidates = candidates;
  }

  /** Throws the parser's message if the grammar does not parse. */
  open(grammar: string): GrammarState {
    const known = this.#known.get(grammar) ?? this.#read(grammar);
    this.#known.delete(grammar);
    this.#known.set(grammar, known); // the newest is the last
    return new GrammarState(this, this.#native, known);
  }

  /** Returns a bit for each token that may follow. */
  mask(grammar: Ptr, masks: Map<string, Uint32Array>, key: string | null): Uint32Array {
    const kept = key === null ? undefined : masks.get(key);
    if (kept) return kept;
    const { llama, kinds } = this.#native;
    const mask = this.#candidates.mask(llama, { grammar, kinds });
    if (key !== null) {
      masks.set(key, mask);
      this.#bytes += mask.byteLength;
      if (this.#bytes > MOST_BYTES) this.#forgetMasks();
    }
    return mask;
  }

  allows(grammar: Ptr, token: number): boolean {
    const { llama, kinds } = this.#native;
    return kinds.of(token) !== CONTROL && this.#candidates.allows(llama, grammar, token);
  }

  /** Tokens of a text that must follow in a state of this name. */
  forced(forced: Map<string, Int32Array>, key: string, text: string): Int32Array {
    const kept = forced.get(key);
    if (kept) return kept;
    const { llama, vocab } = this.#native;
    const tokens = tokenize(llama, vocab, text, { addBos: false, special: false });
    if (forced.size >= MOST_FORCED) forced.clear();
    forced.set(key, tokens);
    return tokens;
  }

  isText(token: number): boolean {
    const kind = this.#native.kinds.of(token);
    return token >= 0 && kind !== CONTROL && kind !== END;
  }

  piece(token: number): Uint8Array {
    const known = this.#pieces.get(token);
    if (known) return known;
    const { llama, vocab } = this.#native;
    let room = new Uint8Array(256);
    const read = () => llama.llama_token_to_piece(vocab, token, room, room.length, 0, true);
    let length = read();
    if (length < 0) {
      room = new Uint8Array(-length);
      length = read();
    }
    const piece = room.slice(0, length);
    this.#pieces.set(token, piece);
    return piece;
  }

  free() {
    for (const { first } of this.#known.values()) this.#native.llama.llama_sampler_free(first);
    this.#known.clear();
  }

  #read(grammar: string): ReadGrammar {
    const { llama, vocab } = this.#native;
    const first = openGrammar(llama, vocab, grammar);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size >= MOST_GRAMMARS) this.#forget(oldest);
    return { states: statesOf(grammar), masks: new Map(), forced: new Map(), first };
  }

  /** Running sequences have copies of their own. */
  #forget(grammar: string) {
    const { first, masks } = this.#known.get(grammar)!;
    for (const mask of masks.values()) this.#bytes -= mask.byteLength;
    masks.clear();
    this.#native.llama.llama_sampler_free(first);
    this.#known.delete(grammar);
  }

  #forgetMasks() {
    for (const { masks } of this.#known.values()) masks.clear();
    this.#bytes = 0;
  }
}

function statesOf(grammar: string): GrammarStates | null {
  try {
    return new GrammarStates(grammar);
  } catch {
    return null;
  }
}

/** The grammar of one sample, after the tokens that it accepted. */
export class GrammarState {
  readonly #grammars: Grammars;
  readonly #native: SamplerNative;
  readonly #grammar: Ptr;
  readonly #masks: Map<string, Uint32Array>;
  readonly #forced: Map<string, Int32Array>;
  #place: GrammarPlace | null;

  constructor(grammars: Grammars, native: SamplerNative, { states, masks, forced, first }: ReadGrammar) {
    this.#grammars = grammars;
    this.#native = native;
    this.#grammar = native.llama.llama_sampler_clone(first) as Ptr;
    this.#masks = masks;
    this.#forced = forced;
    this.#place = states && new GrammarPlace(states);
  }

  allows(token: number): boolean {
    const mask = this.#place === null ? undefined : this.#masks.get(this.#place.key);
    if (mask) return (mask[token >> 5]! & (1 << (token & 31))) !== 0;
    return this.#grammars.allows(this.#grammar, token);
  }

  /** A bit for each token that may follow. The caller must not change it. */
  mask(): Uint32Array {
    return this.#grammars.mask(this.#grammar, this.#masks, this.#place?.key ?? null);
  }

  accept(token: number) {
    const { llama, kinds } = this.#native;
    if (kinds.of(token) === END) return;
    llama.llama_sampler_accept(this.#grammar, token);
    try {
      this.#place?.take(this.#grammars.piece(token));
    } catch {
      this.#place = null; // from here on the library is asked each time
    }
  }

  /**
   * Returns tokens that may follow, at most `most`: those of a text that must follow, else those of `others` that the grammar
   * allows.
   */
  guess(others: Int32Array, most: number): Int32Array {
    if (this.#place === null) return NONE;
    try {
      const text = this.#place.forced();
      const forced = text === "" ? NONE : this.#grammars.forced(this.#forced, `${this.#place.key} ${text}`, text);
      const allowed = this.#allowed(this.#place, forced.subarray(0, most));
      return allowed.length > 0 ? allowed : this.#allowed(this.#place, others.subarray(0, most));
    } catch {
      return NONE; // too many states
    }
  }

  #allowed(from: GrammarPlace, tokens: Int32Array): Int32Array {
    const place = from.copy();
    let count = 0;
    try {
      for (; count < tokens.length && this.#grammars.isText(tokens[count]!); count++)
        place.take(this.#grammars.piece(tokens[count]!));
    } catch {
      // the token at `count` is not allowed
    }
    return tokens.subarray(0, count);
  }

  free() {
    this.#native.llama.llama_sampler_free(this.#grammar);
  }
}
