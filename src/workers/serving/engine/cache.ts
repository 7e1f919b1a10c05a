/**
 * The native cache of keys and values, slot by slot, together with a record of its content. Both always change
 * together.
 */
import type { Ptr } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";
import { newSlots, type PlaceRules, place, type Slot } from "./slots.ts";

export type CacheOptions = {
  llama: Llama;
  memory: Ptr;
  parallel: number;
  contextLength: number;
  /** True if keys and values share one pool: a copy between slots is then free and may be partial. */
  unified: boolean;
  /** True if a sequence can be cut back to a prefix. */
  reuse: boolean;
  /** Called before the content of a slot beyond `keep` tokens is lost. */
  beforeLoss?: (at: number, keep: number) => void;
};

/** `isSibling`: another sample of the same request has read the prompt. `isFresh`: nothing of a slot is kept. */
type TakeOptions = { isSibling: boolean; isFresh: boolean };

const COPY_MIN = 32;

const hasRows = ({ tokens, length }: Slot) => tokens.subarray(0, length).some((token) => token < 0);

export class Cache {
  readonly slots: readonly Slot[];
  readonly #options: CacheOptions;
  readonly #rules: PlaceRules;
  readonly #siblingRules: PlaceRules;

  constructor(options: CacheOptions) {
    this.#options = options;
    this.slots = newSlots(options.parallel, options.contextLength);
    this.#rules = { reuse: options.reuse, copyMin: options.unified ? 1 : COPY_MIN };
    this.#siblingRules = { ...this.#rules, copyMin: 1 };
  }

  /** Takes a free slot for the prompt and cuts it to the `keep` tokens that both share. Null if every slot is busy. */
  take(prompt: Int32Array, adapter: number, { isSibling, isFresh }: TakeOptions): { at: number; keep: number } | null {
    const rules = isSibling ? this.#siblingRules : this.#rules;
    const placement = place(prompt, adapter, this.slots, isFresh ? { ...rules, reuse: false } : rules);
    if (!placement) return null;
    const { slot: at, from, keep } = placement;
    const slot = this.slots[at]!;
    this.#options.beforeLoss?.(at, from === at ? keep : 0);
    slot.kept = Math.min(this.slots[from]!.kept, keep);
    slot.stamp++;
    if (from !== at) this.#copy(from, at, keep);
    if (slot.length > keep || from !== at) this.#remove(at, keep);
    slot.tokens.set(prompt.subarray(0, keep));
    slot.length = keep;
    slot.adapter = adapter;
    slot.busy = true;
    return { at, keep };
  }

  /**
   * Returns the tokens and the adapter of the idle slot unused for longest. Undefined if no slot can be reused. A slot with
   * rows of an image is none: the rows themselves are gone.
   */
  idle(): { prompt: Int32Array; adapter: number } | undefined {
    let oldest: Slot | undefined;
    if (!this.#options.reuse) return undefined;
    for (const slot of this.slots)
      if (!slot.busy && slot.length > 0 && !hasRows(slot) && (!oldest || slot.usedAt < oldest.usedAt)) oldest = slot;
    return oldest && { prompt: oldest.tokens.slice(0, oldest.length), adapter: oldest.adapter };
  }

  release(at: number) {
    this.slots[at]!.busy = false;
  }

  /** Records a token that is about to be decoded and returns its position. */
  append(at: number, token: number, step: number): number {
    const slot = this.slots[at]!;
    const position = slot.length++;
    slot.tokens[position] = token;
    slot.usedAt = step;
    return position;
  }

  /** Makes room for one token that will be removed again. */
  spare(at: number): number {
    const slot = this.slots[at]!;
    if (slot.length === slot.tokens.length) this.cut(at, slot.length - 1);
    return slot.length;
  }

  /** Removes the token that `spare` made room for. */
  unspare(at: number) {
    this.#remove(at, this.slots[at]!.length);
  }

  cut(at: number, length: number) {
    const slot = this.slots[at]!;
    slot.length = length;
    slot.kept = Math.min(slot.kept, length);
    this.#remove(at, length);
  }

  clear() {
    for (const slot of this.slots)
      Object.assign(slot, { length: 0, usedAt: 0, adapter: 0, kept: 0, stamp: slot.stamp + 1 });
    this.#options.llama.llama_memory_clear(this.#options.memory, true);
  }

  #copy(from: number, to: number, keep: number) {
    const { llama, memory, unified } = this.#options;
    llama.llama_memory_seq_rm(memory, to, -1, -1);
    // Separate caches can only be copied whole; the rest is cut off.
    llama.llama_memory_seq_cp(memory, from, to, unified ? 0 : -1, unified ? keep : -1);
  }

  #remove(at: number, from: number) {
    this.#options.llama.llama_memory_seq_rm(this.#options.memory, at, from, -1);
  }
}
