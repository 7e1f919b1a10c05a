/** Text ⇄ tokens, on the calling thread: all threads may read a vocabulary at once. */
import { ptr } from "bun:ffi";
import { must, type Ptr, text } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";
import { SPOKEN } from "../tokens/spoken.ts";

const NOTHING = new Uint8Array(0);

export type Piece = { bytes: Uint8Array /** Null if the bytes are not whole characters. */; text: string | null };

type Tokenizing = { addBos: boolean; special: boolean };

export function tokenize(llama: Llama, vocab: Ptr, source: string, { addBos, special }: Tokenizing): Int32Array {
  const bytes = Buffer.from(source);
  let tokens = new Int32Array(bytes.length + 4);
  const call = () => {
    const at = bytes.length > 0 ? ptr(bytes) : ptr(NUL);
    return llama.llama_tokenize(vocab, at, bytes.length, tokens, tokens.length, addBos, special);
  };
  let count = call();
  if (count < 0) {
    tokens = new Int32Array(-count);
    count = call();
  }
  return tokens.slice(0, count);
}

export class Vocab {
  readonly size: number;
  readonly #llama: Llama;
  readonly #vocab: Ptr;
  readonly #pieces: (Piece | undefined)[] = [];
  #room = new Uint8Array(256);

  constructor(llama: Llama, model: Ptr) {
    this.#llama = llama;
    this.#vocab = must(llama.llama_model_get_vocab(model), "llama_model_get_vocab");
    this.size = llama.llama_vocab_n_tokens(this.#vocab);
  }

  get address() {
    return this.#vocab;
  }
  get addsBos() {
    return this.#llama.llama_vocab_get_add_bos(this.#vocab);
  }
  get bosToken() {
    return this.#name(this.#llama.llama_vocab_bos(this.#vocab));
  }
  get eosToken() {
    return this.#name(this.#llama.llama_vocab_eos(this.#vocab));
  }
  get hasBos() {
    return this.#llama.llama_vocab_bos(this.#vocab) >= 0;
  }

  tokenize(source: string, how: Tokenizing): Int32Array {
    return tokenize(this.#llama, this.#vocab, source, how);
  }

  detokenize(tokens: Int32Array): string {
    return lenient.decode(Buffer.concat(Array.from(tokens, (token) => this.piece(token).bytes)));
  }

  /** The text with the names of control tokens. */
  spell(tokens: Int32Array): string {
    return lenient.decode(Buffer.concat(Array.from(tokens, (token) => this.bytes(token))));
  }

  /** The text that a user sees of a token; control tokens are empty. */
  piece(token: number): Piece {
    const cached = this.#pieces[token];
    if (cached) return cached;
    const control = this.#llama.llama_vocab_is_control(this.#vocab, token) && !SPOKEN.has(this.#name(token));
    const bytes = control ? NOTHING : this.bytes(token);
    const piece = { bytes, text: wholeText(bytes) };
    this.#pieces[token] = piece;
    return piece;
  }

  /** The bytes of any token, control tokens by their names. */
  bytes(token: number): Uint8Array {
    const call = () => this.#llama.llama_token_to_piece(this.#vocab, token, this.#room, this.#room.length, 0, true);
    let length = call();
    if (length < 0) {
      this.#room = new Uint8Array(-length);
      length = call();
    }
    return this.#room.slice(0, length);
  }

  #name(token: number): string {
    return token < 0 ? "" : text(this.#llama.llama_vocab_get_text(this.#vocab, token));
  }
}

const NUL = new Uint8Array(1);
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function wholeText(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}
