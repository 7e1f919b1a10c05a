/** The interface of decoding by our own kernels, for serving and for rollouts. */
import type { KvType } from "../../lib/gguf/memory.ts";
import type { AdapterSource } from "./adapters/plan.ts";
import type { StoreOptions } from "./adapters/store.ts";
import type { Drawing } from "./drawing.ts";
import type { Wide } from "./plan.ts";

export type Admission = {
  prompt: Int32Array;
  maxTokens: number;
  drawing: Drawing;
  /** The caller checks each token before the next one is drawn, and may call `redraw`. */
  checked?: boolean;
  /** Returns tokens that may follow a checked sequence, by guesses from its text. Without it, nothing is guessed. */
  propose?: ((fromText: Int32Array, most: number) => Int32Array) | undefined;
  /** Read the whole prompt, also where the pages have its start. */
  fresh?: boolean;
  /** Names of the blocks of the prompt without its last token, from its beginning. */
  blocks?: readonly string[];
  /** Prompts with a lower number are read first. Default: 0. */
  rank?: number;
  /** The number of an attached adapter. Without one, the model's own weights decode. */
  adapter?: number | undefined;
};

/** Keeps pages outside the device, as blocks of so many `tokens`, a multiple of a page. */
export type BlockStore = {
  readonly tokens: number;
  has: (name: string) => boolean;
  /** Null: there is none, or it is not whole. */
  read: (name: string) => Uint8Array | null;
  /** For a block whose content is of no use. */
  drop: (name: string) => void;
  hasRoom: (bytes: number) => boolean;
  write: (name: string, content: Uint8Array) => boolean;
  /** Threads of the store, which read and write blocks beside the caller. */
  readonly threads: number;
  /** Null: there are no threads. */
  lanes: (places: readonly HostPlace[]) => BlockLanes | null;
  /** A lane has read, or written, a block of so many bytes. */
  brought: (bytes: number) => void;
  wrote: (bytes: number) => void;
  /** So many tokens were brought, in this time. */
  restored: (tokens: number, readMs: number) => void;
};

/** Memory that all threads of the process see under the same address. */
export type HostPlace = { readonly at: number; readonly bytes: number };

/** A place is its index in the list that the lanes were opened with. */
export type BlockLanes = {
  read: (place: number, name: string) => void;
  write: (place: number, name: string, bytes: number) => void;
  isUnderWay: (place: number) => boolean;
  /** Waits until the time `until`. The bytes of the block; null: it failed; undefined: it is still under way. */
  result: (place: number, until: number) => number | null | undefined;
  close: () => void;
};

/** An adapter on its way to the device. */
export type AdapterLoad = {
  /** Its number, also for sequences once `more` has returned false. */
  readonly adapter: number;
  /** Queues the next piece. Returns false if there is none left. */
  more: () => boolean;
  /** Stops the load; `detach` frees what it has. */
  cancel: () => void;
};

/** A drawn token. `done`: it is the last that the admission allows. */
export type DrawnToken = {
  sequence: number;
  /** -1 if the mask allows no token. */
  token: number;
  /** Present if the admission asks for log-probabilities. */
  logp?: number;
  alternatives?: readonly (readonly [token: number, logp: number])[];
  done: boolean;
};

export type DecoderStats = {
  /** Sequences that decode, and those whose prompt is still being read. */
  active: number;
  reading: number;
  availablePages: number;
  pages: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  steps: number;
};

export type Decoder = {
  /** Bytes of the device's memory that this decoder holds, without the weights. */
  readonly bytes: number;
  /**
   * Takes a sequence in and returns its number. Returns null while there is no slot or not enough pages: the caller
   * keeps the request and tries again after a release. Throws RangeError for a prompt that never fits.
   */
  admit: (admission: Admission) => number | null;
  /** Replaces the mask by which a sequence draws its next token: a bit for each token, from the lowest. */
  mask: (sequence: number, bits: Uint32Array) => void;
  /**
   * Takes the last token of a checked sequence back and draws it again, this once by a mask. `before`: the token before
   * it, drawn or of the prompt.
   */
  redraw: (sequence: number, before: number, bits: Uint32Array) => void;
  /**
   * Reads up to `promptTokens` tokens of prompts, queues the next step of all sequences and returns the tokens of the oldest step that is not read yet. With
   * `ahead`, one step is always queued while another is read. Returns an empty list while only prompts are read.
   */
  step: (promptTokens?: number) => readonly DrawnToken[];
  /**
   * Takes the slot of a sequence that decodes, and keeps all that its next tokens depend on. False: its prompt is not read
   * yet, or its last token is on the way.
   */
  pause: (sequence: number) => boolean;
  /** Goes on where a paused sequence was. False while there is no slot or not enough pages. */
  resume: (sequence: number) => boolean;
  /** Ends a sequence, finished or not. Its pages are free at once, its tokens that are on the way are dropped. */
  release: (sequence: number) => void;
  /**
   * Begins to bring adapters to the device that apply together. Returns why the kernels cannot apply them. Throws
   * OutOfMemory.
   */
  attach: (sources: readonly AdapterSource[]) => AdapterLoad | string;
  /** Frees an adapter that no sequence uses. Its number is not used again. */
  detach: (adapter: number) => void;
  /**
   * Writes a block of a prompt that was read. Returns false if there is none, or no room for it. `mayWait`: for threads
   * that write.
   */
  keep: (mayWait?: boolean) => boolean;
  /**
   * Does a part of what the first token of a conversation would wait for: graphs of its first step, products of late tokens.
   * Call it while nothing runs. Returns false if nothing is left.
   */
  prepare: () => boolean;
  /** Forgets shared beginnings, because the weights have changed. */
  clear: () => void;
  stats: () => DecoderStats;
  close: () => void;
};

export type DecoderOptions = {
  slots: number;
  contextLength: number;
  /** Pages of keys and values for all slots together. */
  pages: number;
  /** The most tokens of prompts that one step reads beside the running sequences. */
  promptTokens?: number;
  /** Numbers of keys and values. Default: f16, which are kept as BF16. */
  kvType?: KvType | undefined;
  /** Queue a step before the last one is read. Masks need the last token, so they switch this off. */
  ahead?: boolean;
  /** Room for adapters. Default: none can be attached. */
  adapters?: StoreOptions;
  /** The store for blocks of prompts. Default: none. */
  blocks?: BlockStore | null;
  /** Guess the next tokens of a lone sequence from its text. A step then returns several tokens of it. */
  guesses?: boolean;
  /**
   * Attention has the trainer's order of keys, and bits of products do not depend on the number of rows: log-probabilities
   * are then those of the trainer's exact forward pass. Such a decoder makes no guesses, and `wide` has no effect.
   */
  exact?: boolean;
  /** When cuBLAS multiplies; default: `wideFor`. Null = never: the tokens of a sequence then do not depend on the others to the last bit. */
  /** The position in a prompt from which on cublasLt multiplies by BF16 weights, where the GPU has such products. */
  lateFrom?: number;
  wide?: Wide | null;
};
