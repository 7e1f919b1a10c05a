/**
 * Chooses the tokens of one sample: a llama.cpp sampler chain in llama.cpp's order, and an optional grammar. Grammars
 * are slow on a whole vocabulary. A token is drawn first; only if the grammar rejects it are all rejected tokens
 * removed and a second one drawn.
 */
import { type Pointer, ptr, toArrayBuffer } from "bun:ffi";
import { cstr, must, type Ptr } from "../../../../native/ffi.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import { CONTROL, END, type TokenKinds } from "../kinds.ts";
import type { Sampling } from "../types.ts";
import type { GrammarState } from "./grammar.ts";

export type Choice = {
  sampling: Sampling;
  seed: number;
  grammar: string | null;
  ignoreEos: boolean;
};

export type SamplerNative = {
  llama: Llama;
  vocab: Ptr;
  vocabSize: number;
  contextLength: number;
  kinds: TokenKinds;
};

/** Below this only the likeliest token remains, and logits divided by it overflow. */
export const GREEDY_BELOW = 1e-5;

/** The grammar allows no further token: the text is complete. */
export const NOTHING_LEFT = -1;

/** Chooses the tokens of one sample. */
export type Drawer = {
  draw: (context: Ptr, row: number, candidates: Candidates) => number;
  /** Log-probability of the last drawn token, if it is known without its logits; otherwise NaN. */
  readonly logp: number;
  free: () => void;
};

export class Sampler implements Drawer {
  readonly logp = Number.NaN;
  readonly chain: Ptr;
  readonly #grammar: GrammarState | null;
  readonly #counts: boolean; // true if the chain remembers tokens: it may then see only the tokens that were taken
  readonly #owned: boolean;
  readonly #native: SamplerNative;

  /** `attached`: a chain that the context owns and frees. */
  constructor(native: SamplerNative, choice: Choice, attached: Ptr | null, grammar: GrammarState | null = null) {
    const { frequencyPenalty, presencePenalty } = choice.sampling;
    this.#native = native;
    this.#counts = frequencyPenalty !== 0 || presencePenalty !== 0;
    this.#grammar = grammar;
    this.#owned = attached === null;
    this.chain = attached ?? openChain(native, choice);
  }

  /** Draws from the logits of `row` of the last decode and records the token for the next draw. */
  draw(context: Ptr, row: number, candidates: Candidates): number {
    const { llama } = this.#native;
    if (this.#grammar === null) return llama.llama_sampler_sample(this.chain, context, row);
    let token = this.#counts
      ? candidates.choose(llama, this.chain, this.#logits(context, row))
      : llama.llama_sampler_sample(this.chain, context, row);
    if (!this.#grammar.allows(token)) {
      token = candidates.choose(llama, this.chain, this.#logits(context, row), this.#grammar.mask());
      if (token === NOTHING_LEFT) return NOTHING_LEFT;
    }
    if (this.#counts) llama.llama_sampler_accept(this.chain, token);
    this.#grammar.accept(token);
    return token;
  }

  #logits(context: Ptr, row: number): Ptr {
    return must(this.#native.llama.llama_get_logits_ith(context, row), "llama_get_logits_ith");
  }

  free() {
    if (this.#owned) this.#native.llama.llama_sampler_free(this.chain);
    this.#grammar?.free();
  }
}

/** Throws the parser's message if the grammar does not parse. */
export function openGrammar(llama: Llama, vocab: Ptr, grammar: string): Ptr {
  llama.forgetError();
  const source = cstr(grammar);
  const root = cstr("root");
  const sampler = llama.llama_sampler_init_grammar(vocab, ptr(source), ptr(root));
  if (sampler === null) throw new Error(llama.firstError() || "the grammar does not parse");
  return must(sampler, "grammar");
}

export function openChain({ llama, vocabSize, contextLength, kinds }: SamplerNative, choice: Choice): Ptr {
  const { sampling, seed, grammar } = choice;
  const chain = must(llama.llama_sampler_chain_init(1), "llama_sampler_chain_init");
  const add = (sampler: Pointer | bigint | null) => llama.llama_sampler_chain_add(chain, must(sampler, "sampler"));
  const never = [...(choice.ignoreEos ? kinds.all(END) : []), ...(grammar !== null ? kinds.all(CONTROL) : [])];
  const biases = [...sampling.logitBias, ...never.map((token) => [token, Number.NEGATIVE_INFINITY] as const)];
  if (biases.length > 0) {
    const words = new Int32Array(biases.length * 2); // token, bias
    const floats = new Float32Array(words.buffer);
    biases.forEach(([token, bias], i) => {
      words[2 * i] = token;
      floats[2 * i + 1] = bias;
    });
    add(llama.llama_sampler_init_logit_bias(vocabSize, biases.length, ptr(words)));
  }
  const { frequencyPenalty, presencePenalty, temperature } = sampling;
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    add(llama.llama_sampler_init_penalties(vocabSize, contextLength, 1, frequencyPenalty, presencePenalty));
  }
  if (temperature < GREEDY_BELOW) {
    add(llama.llama_sampler_init_greedy());
    return chain;
  }
  if (sampling.topK > 0) add(llama.llama_sampler_init_top_k(sampling.topK));
  if (sampling.topP < 1) add(llama.llama_sampler_init_top_p(sampling.topP, 1));
  if (sampling.minP > 0) add(llama.llama_sampler_init_min_p(sampling.minP, 1));
  if (temperature !== 1) add(llama.llama_sampler_init_temp(temperature));
  add(llama.llama_sampler_init_dist(seed));
  return chain;
}

const ENTRY_WORDS = 3; // token, logit, probability

/** A llama_token_data_array over the whole vocabulary; shared by all samplers of a thread. */
export class Candidates {
  readonly #words: Int32Array;
  readonly #floats: Float32Array;
  readonly #list = new BigUint64Array(4); // address, count, selected, sorted
  readonly #one = new Int32Array(ENTRY_WORDS);
  readonly #oneList = new BigUint64Array(4);
  readonly #count: number;
  #zeros: Float32Array | undefined;

  constructor(count: number) {
    this.#count = count;
    this.#words = new Int32Array(count * ENTRY_WORDS);
    this.#floats = new Float32Array(this.#words.buffer);
  }

  /** Returns the token that `chain` chooses, among those with a bit in the mask. */
  choose(llama: Llama, chain: Ptr, logits: Ptr, mask?: Uint32Array): number {
    const all = new Float32Array(toArrayBuffer(logits, 0, this.#count * 4));
    if (mask === undefined) this.#fill(all);
    else if (!this.#fillMasked(all, mask)) return NOTHING_LEFT;
    llama.llama_sampler_apply(chain, ptr(this.#list));
    return this.#selected();
  }

  /** Returns a bit for each token that the grammar allows and that is not a control token. */
  mask(llama: Llama, { grammar, kinds }: { grammar: Ptr; kinds: TokenKinds }): Uint32Array {
    this.#zeros ??= new Float32Array(this.#count);
    this.#fill(this.#zeros);
    llama.llama_sampler_apply(grammar, ptr(this.#list));
    const bits = new Uint32Array(Math.ceil(this.#count / 32));
    for (let token = 0; token < this.#count; token++) {
      const possible = this.#floats[token * ENTRY_WORDS + 1] !== Number.NEGATIVE_INFINITY;
      if (possible && kinds.of(token) !== CONTROL) bits[token >> 5]! |= 1 << (token & 31);
    }
    return bits;
  }

  #fill(source: Float32Array) {
    for (let token = 0, at = 0; token < this.#count; token++, at += ENTRY_WORDS) {
      this.#words[at] = token;
      this.#floats[at + 1] = source[token]!;
      this.#floats[at + 2] = 0;
    }
    this.#reset(this.#count);
  }

  /** Samplers sort, shorten and even move the list. Their selection is an index into it. */
  #selected(): number {
    const size = Number(this.#list[1]);
    const entries = new Int32Array(toArrayBuffer(Number(this.#list[0]) as Pointer, 0, size * ENTRY_WORDS * 4));
    return entries[Number(this.#list[2]) * ENTRY_WORDS]!;
  }

  allows(llama: Llama, grammar: Ptr, token: number): boolean {
    const floats = new Float32Array(this.#one.buffer);
    this.#one[0] = token;
    floats[1] = 1;
    this.#oneList.set([BigInt(ptr(this.#one)), 1n, BigInt.asUintN(64, -1n), 0n]);
    llama.llama_sampler_apply(grammar, ptr(this.#oneList));
    return floats[1] !== Number.NEGATIVE_INFINITY;
  }

  /** Leaves impossible tokens out, so that no later step can choose them. Returns false when nothing is left. */
  #fillMasked(source: Float32Array, mask: Uint32Array): boolean {
    let kept = 0;
    for (let word = 0; word < mask.length; word++) {
      for (let bits = mask[word]!; bits !== 0; bits &= bits - 1) {
        const token = word * 32 + 31 - Math.clz32(bits & -bits);
        if (source[token] === Number.NEGATIVE_INFINITY) continue;
        this.#words[kept] = token;
        this.#floats[kept + 1] = source[token]!;
        this.#floats[kept + 2] = 0;
        kept += ENTRY_WORDS;
      }
    }
    this.#reset(kept / ENTRY_WORDS);
    return kept > 0;
  }

  #reset(count: number) {
    this.#list.set([BigInt(ptr(this.#words)), BigInt(count), BigInt.asUintN(64, -1n), 0n]);
  }
}
