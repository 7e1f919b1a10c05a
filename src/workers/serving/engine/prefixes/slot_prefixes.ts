/**
 * Keeps the content of the library's slots on the disk, and brings it back. The library gives the state of a sequence whole,
 * which costs about as much as a step that attends to it. So one copy is made and then written block by block.
 */

import { MIB } from "../../../../lib/units.ts";
import { type Ptr, text } from "../../../../native/ffi.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import type { Slot } from "../slots.ts";
import { BLOCK } from "./block.ts";
import type { PrefixFolder } from "./folder.ts";
import { Share } from "./share.ts";
import { cutBlock, partsOf, readState, type State, StateWriter, stateBytes } from "./state.ts";

export type SlotPrefixOptions = {
  llama: Llama;
  context: Ptr;
  slots: readonly Slot[];
  folder: PrefixFolder;
  /** The identity of an adapter by its key. Undefined: its blocks have no name. */
  identityOf: (adapter: number) => string | undefined;
  /** Other devices compute other bits. */
  device: string;
};

/** A copy of a slot's state on its way to the disk. `content`: of the block `next`, while there is no room for it. */
type Job = { slot: Slot; stamp: number; state: State; names: string[]; next: number; content: Uint8Array | null };

const MOST_STATE_BYTES = 1024 * MIB; // of a copy
const BUSY_TOKENS = 512; // a sequence that still runs is copied again after so many
const LOSS_MS = 100; // the longest that a new request waits for the content that it replaces

const whole = (tokens: number) => Math.floor(tokens / BLOCK);

/** Rows of images have numbers below 0: their content is not in the tokens. */
function blocksOf(tokens: Int32Array, length: number): number {
  const image = tokens.subarray(0, length).findIndex((token) => token < 0);
  return whole(image < 0 ? length : image);
}

export class SlotPrefixes {
  readonly #options: SlotPrefixOptions;
  readonly #share = new Share();
  readonly #decoder: string;
  readonly #magic: number;
  readonly #streams: number;
  #job: Job | null = null;
  #isOff = false;

  /** The context is empty: a state without cells shows the number of streams. */
  constructor(options: SlotPrefixOptions) {
    this.#options = options;
    this.#decoder = `library ${text(options.llama.llama_version())} ${options.device}`;
    const empty = new DataView(this.#copy(0).buffer);
    const isLong = empty.byteLength >= 12;
    this.#magic = isLong ? empty.getUint32(0, true) : 0;
    this.#streams = isLong ? empty.getUint32(8, true) : 0;
    if (this.#streams !== 1 && this.#streams !== options.slots.length) this.#turnOff();
  }

  /** Brings the beginning of the prompt into the slot, which keeps `keep` tokens. Returns how many it has then. */
  restore(at: number, prompt: Int32Array, keep: number): number {
    const { folder, identityOf, slots } = this.#options;
    const slot = slots[at]!;
    const identity = identityOf(slot.adapter);
    const most = blocksOf(prompt, prompt.length - 1); // the last token is decoded for its logits
    if (this.#isOff || identity === undefined || most <= whole(keep)) return keep;
    const names = folder.names({ decoder: this.#decoder, adapter: identity }, prompt, most);
    const begun = performance.now();
    const brought = this.#bring(at, names.slice(0, folder.count(names)), keep);
    if (brought === null) return keep;
    slot.tokens.set(prompt.subarray(0, brought));
    slot.length = brought;
    slot.kept = brought;
    if (brought > keep) folder.restored(brought - keep, performance.now() - begun);
    return brought;
  }

  /** Null: the slot is as it was. */
  #bring(at: number, names: readonly string[], keep: number): number | null {
    const { folder, llama, context } = this.#options;
    let writer: { state: StateWriter; head: string } | null = null;
    let count = names.length;
    for (let i = 0; i < count; i++) {
      if (count * BLOCK <= keep) return null;
      const content = folder.read(names[i]!);
      const parts = content && partsOf(content);
      const isAlike = parts && (writer === null || writer.head === parts.head);
      if (!isAlike) {
        if (parts || content) folder.drop(names[i]!);
        return this.#bring(at, names.slice(0, i), keep);
      }
      if (!writer) {
        const bytes = (blocks: number) => stateBytes(parts.shape, this.#streams, blocks * BLOCK);
        while (count > 0 && bytes(count) > MOST_STATE_BYTES) count--;
        if (count * BLOCK <= keep) return null;
        const target = { magic: this.#magic, sequence: at, streams: this.#streams };
        writer = { state: new StateWriter(parts.shape, count, target), head: parts.head };
      }
      writer.state.add(i, parts.rows);
    }
    if (!writer) return null;
    const { bytes } = writer.state;
    if (Number(llama.llama_state_seq_set_data(context, bytes, bytes.length, at)) === bytes.length) return count * BLOCK;
    for (const name of names) folder.drop(name);
    llama.llama_memory_seq_rm(llama.llama_get_memory(context) as Ptr, at, -1, -1);
    return 0;
  }

  /** Call before the slot is cut to `keep` tokens. Writes what would be lost, if that is not too much. */
  beforeLoss(at: number, keep: number) {
    const slot = this.#options.slots[at]!;
    const isOwn = this.#job?.slot === slot && this.#job.stamp === slot.stamp;
    if (this.#isOff || isOwn || !this.#wants(slot, BLOCK) || whole(slot.length) <= whole(keep)) return;
    if (!this.#share.isOpen()) return;
    const job = this.#begin(at);
    if (job) this.#share.spend(() => this.#finish(job, performance.now() + LOSS_MS));
  }

  /**
   * Writes one block. While requests run, that takes a small share of the time. Returns true if there is more to do at
   * once.
   */
  step(isIdle: boolean): boolean {
    if (this.#isOff || this.#options.folder.isClosed) return false;
    if (!isIdle && !this.#share.isOpen()) return true;
    return isIdle ? this.#writeNext(true) : this.#share.spend(() => this.#writeNext(false));
  }

  #writeNext(isIdle: boolean): boolean {
    this.#job ??= this.#next(isIdle);
    if (!this.#job || !this.#write(this.#job)) return false;
    if (this.#job.next === this.#job.names.length) this.#job = null;
    return true;
  }

  /** Writes everything, as far as the time and the disk allow. */
  flush(ms: number) {
    if (this.#options.folder.isClosed) return;
    const until = performance.now() + ms;
    if (this.#job) this.#finish(this.#job, until);
    for (const [at, slot] of this.#options.slots.entries()) {
      if (this.#isOff || performance.now() >= until) return;
      const job = this.#wants(slot, BLOCK) ? this.#begin(at) : null;
      if (job) this.#finish(job, until);
    }
  }

  #finish(job: Job, until: number) {
    while (job.next < job.names.length && performance.now() < until) if (!this.#write(job)) return;
  }

  /** Idle slots first: no further token comes there. */
  #next(isIdle: boolean): Job | null {
    const { slots } = this.#options;
    const idle = slots.findIndex((slot) => !slot.busy && this.#wants(slot, BLOCK));
    const at = idle < 0 ? slots.findIndex((slot) => slot.busy && this.#wants(slot, BUSY_TOKENS)) : idle;
    return at < 0 || (isIdle && slots[at]!.busy) ? null : this.#begin(at);
  }

  #wants(slot: Slot, least: number): boolean {
    if (slot.length - slot.kept < least || this.#options.identityOf(slot.adapter) === undefined) return false;
    return blocksOf(slot.tokens, slot.length) > whole(slot.kept);
  }

  #begin(at: number): Job | null {
    const { folder, identityOf, slots } = this.#options;
    const slot = slots[at]!;
    const by = { decoder: this.#decoder, adapter: identityOf(slot.adapter)! };
    const names = folder.names(by, slot.tokens, blocksOf(slot.tokens, slot.length));
    const next = names.findIndex((name, i) => i >= whole(slot.kept) && !folder.has(name));
    if (next < 0) {
      slot.kept = names.length * BLOCK;
      return null;
    }
    const bytes = this.#copy(at);
    const state = bytes.length === 0 ? null : readState(bytes, slot.length);
    if (bytes.length > 0 && !state) this.#turnOff();
    slot.kept = next * BLOCK;
    if (bytes.length === 0) slot.kept = slot.length; // too long to be copied
    return state && { slot, stamp: slot.stamp, state, names, next, content: null };
  }

  /** False: there is no room for the block, or the disk refuses it. */
  #write(job: Job): boolean {
    const { folder } = this.#options;
    const name = job.names[job.next]!;
    job.content ??= cutBlock(job.state, job.next);
    if (!folder.hasRoom(job.content.length) || !folder.write(name, job.content)) return false;
    job.content = null;
    job.next++;
    const { slot } = job;
    if (slot.stamp === job.stamp && slot.length >= job.next * BLOCK) slot.kept = job.next * BLOCK;
    return true;
  }

  /** Empty: the state is too large. */
  #copy(at: number): Uint8Array {
    const { llama, context } = this.#options;
    const size = Number(llama.llama_state_seq_get_size(context, at));
    if (size > MOST_STATE_BYTES) return new Uint8Array(0);
    const bytes = new Uint8Array(size);
    return bytes.subarray(0, Number(llama.llama_state_seq_get_data(context, bytes, size, at)));
  }

  #turnOff() {
    this.#isOff = true;
    console.error(
      "Prompts of this model stay in memory only: the library keeps its cache in a form that is not known here",
    );
  }
}
