/**
 * The loop's body: every step decodes one batch that holds the next token of every running sequence and a part of the
 * prompts of those that begin. A sequence owns a slot from the first token of its prompt to its end; what it leaves in
 * the cache serves whoever begins alike.
 */
import { toArrayBuffer } from "bun:ffi";
import { type Llama, must, type Ptr } from "../../../native/llama_symbols.ts";
import type { Adapter, Adapters } from "./adapters.ts";
import { Batch } from "./batch.ts";
import { DeviceSampling } from "./device_sampling.ts";
import { type Counters, type EndToken, FrameWriter, NO_END, type Reason } from "./frame.ts";
import { END } from "./kinds.ts";
import { logprobs } from "./logprobs.ts";
import type { SubmitMessage } from "./messages.ts";
import { Candidates, NOTHING_LEFT, Sampler, type SamplerNative } from "./sampler.ts";
import { newSlots, nextAdapter, type PlaceRules, place, promptBudget, type Slot } from "./slots.ts";

export type DecoderOptions = {
  native: SamplerNative & { context: Ptr; memory: Ptr };
  adapters: Adapters;
  parallel: number;
  batchTokens: number;
  /** Keys and values in one pool: a copy between slots is free and may be partial. */
  unified: boolean;
  reuse: boolean;
  deviceSampling: boolean;
  onFailed: (sequence: number, error: string) => void;
};

type Sequence = {
  id: number;
  submit: SubmitMessage;
  /** Its prompt is copied from this one's slot: it begins when that one has read it. */
  leader: Sequence | null;
  adapter: Adapter;
  sampler: Sampler | null;
  slot: number; // -1 = waits
  /** Sampled and not yet in the cache; -1 while the prompt is being read. */
  next: number;
  left: number;
  row: number; // of the current batch, whose logits it draws from; -1 = none
  before: number; // tokens in its slot before the current batch
  over: boolean;
};

const NOBODY: ReadonlyMap<number, number> = new Map();
const TURN = 8; // batches with one adapter while another waits

export class Decoder {
  readonly counters: Counters = { decodeCalls: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  readonly #options: DecoderOptions;
  readonly #llama: Llama;
  readonly #slots: Slot[];
  readonly #rules: PlaceRules;
  readonly #batch: Batch;
  readonly #frame = new FrameWriter();
  readonly #candidates: Candidates;
  readonly #device: DeviceSampling | null;
  readonly #owners: (Sequence | null)[];
  #waiting: Sequence[] = [];
  #step = 0;
  #turn = 0;
  #promptMsPerToken = 0;
  #urgent = false; // a first token, an end, or a long step ahead
  readonly #logits = new Map<Ptr, Float32Array>();

  constructor(options: DecoderOptions) {
    const { native, parallel } = options;
    this.#options = options;
    this.#llama = native.llama;
    this.#slots = newSlots(parallel, native.contextLength);
    this.#owners = this.#slots.map(() => null);
    this.#rules = { reuse: options.reuse, copyMin: options.unified ? 1 : 32 };
    this.#batch = new Batch(options.batchTokens);
    this.#candidates = new Candidates(native.vocabSize);
    this.#device = options.deviceSampling ? new DeviceSampling(native, native.context) : null;
  }

  get idle() {
    return this.#waiting.length === 0 && this.#owners.every((owner) => owner === null);
  }

  submit(submit: SubmitMessage) {
    let leader: Sequence | null = null;
    for (let i = 0; i < submit.seeds.length; i++) {
      const adapter = this.#options.adapters.use(submit.adapter);
      const sequence: Sequence = {
        id: submit.sequence + i,
        submit,
        leader,
        adapter,
        sampler: null,
        slot: -1,
        next: -1,
        left: submit.maxTokens,
        row: -1,
        before: 0,
        over: false,
      };
      leader ??= sequence;
      this.#waiting.push(sequence);
    }
  }

  cancel(ids: readonly number[]) {
    for (const id of ids) {
      const found = this.#owners.find((o) => o?.id === id) ?? this.#waiting.find((w) => w.id === id);
      if (found) this.#end(found);
    }
  }

  /** Ends everything, and the context with it. */
  close() {
    for (const sequence of [...this.#owners, ...this.#waiting]) if (sequence !== null) this.#end(sequence);
    this.#llama.llama_free(this.#options.native.context);
    this.#device?.free();
  }

  /** One batch, if there is anything to decode. */
  step() {
    this.#step++;
    this.#admit();
    const adapter = this.#chooseAdapter();
    if (adapter === undefined) return;
    const prompts = this.#compose(adapter);
    const before = performance.now();
    const code = this.#batch.decode(this.#llama, this.#options.native.context);
    this.counters.decodeCalls++;
    if (code === 0) this.#harvest();
    else this.#refused(code);
    if (code === 0 && prompts >= 16) this.#measure((performance.now() - before) / this.#batch.length);
  }

  /** What happened since the last time, or null; without `all`, only if somebody waits for it. */
  take(all: boolean): Float64Array | null {
    if (this.#frame.empty || !(all || this.#urgent)) return null;
    this.#urgent = false;
    return this.#frame.take(this.counters);
  }

  #measure(msPerToken: number) {
    this.#promptMsPerToken =
      this.#promptMsPerToken === 0 ? msPerToken : 0.8 * this.#promptMsPerToken + 0.2 * msPerToken;
  }

  #admit() {
    if (this.#waiting.length === 0) return;
    let free = this.#owners.reduce((count, owner) => count + (owner === null ? 1 : 0), 0);
    if (free === 0) return;
    const late: Sequence[] = [];
    for (const sequence of this.#waiting) {
      const { leader } = sequence;
      const held = leader !== null && !leader.over && leader.next < 0;
      if (held || free === 0) late.push(sequence);
      else if (this.#start(sequence)) free--;
    }
    this.#waiting = late;
  }

  /** False when the sequence is over before it began. */
  #start(sequence: Sequence): boolean {
    const { prompt, sampling, seeds, grammar, ignoreEos, topLogprobs, sequence: first } = sequence.submit;
    const rules = sequence.leader === null ? this.#rules : { ...this.#rules, copyMin: 1 };
    const placement = place(prompt, sequence.adapter.key, this.#slots, rules);
    if (!placement) return false;
    try {
      const choice = { sampling, seed: seeds[sequence.id - first]!, grammar, ignoreEos };
      const attached = this.#device?.use(placement.slot, choice, topLogprobs >= 0) ?? null;
      sequence.sampler = new Sampler(this.#options.native, choice, attached);
    } catch (error) {
      this.#options.onFailed(sequence.id, error instanceof Error ? error.message : String(error));
      this.#end(sequence);
      return false;
    }
    const { slot: target, from, keep } = placement;
    const slot = this.#slots[target]!;
    this.#keepPrefix(target, from, keep);
    slot.tokens.set(prompt.subarray(0, keep));
    slot.length = keep;
    slot.adapter = sequence.adapter.key;
    slot.busy = true;
    sequence.slot = target;
    this.#owners[target] = sequence;
    this.counters.cachedTokens += keep;
    this.#frame.prompted(sequence.id, keep);
    return true;
  }

  /** Afterwards the cache of `target` holds exactly `keep` tokens. */
  #keepPrefix(target: number, from: number, keep: number) {
    const { memory } = this.#options.native;
    if (from !== target) {
      this.#llama.llama_memory_seq_rm(memory, target, -1, -1);
      // Between separate caches only a whole one can be copied; the rest is cut off.
      this.#llama.llama_memory_seq_cp(
        memory,
        from,
        target,
        this.#options.unified ? 0 : -1,
        this.#options.unified ? keep : -1,
      );
    }
    if (this.#slots[target]!.length > keep || from !== target)
      this.#llama.llama_memory_seq_rm(memory, target, keep, -1);
  }

  #chooseAdapter(): number | undefined {
    const running = this.#owners.filter((owner) => owner !== null);
    const current = this.#options.adapters.current;
    const keys = running.map((owner) => owner.adapter.key);
    const next = nextAdapter(keys, current, this.#turn, TURN);
    this.#turn = next === current ? this.#turn + 1 : 1;
    const chosen = running.find((owner) => owner.adapter.key === next);
    if (chosen) this.#options.adapters.apply(this.#options.native.context, chosen.adapter);
    return next;
  }

  /** Fills the batch in the order of the slots, which the library needs to decode neighbours together. */
  #compose(adapter: number): number {
    this.#batch.clear();
    const owners = this.#owners;
    let decoding = 0;
    let reading = 0;
    for (const owner of owners) {
      if (owner === null || owner.adapter.key !== adapter) continue;
      if (owner.next >= 0) decoding++;
      else reading++;
    }
    const load = { decoding, reading, batchTokens: this.#batch.capacity, promptMsPerToken: this.#promptMsPerToken };
    const share = reading === 0 ? NOBODY : this.#shares(adapter, promptBudget(load));
    let prompts = 0;
    for (let slot = 0; slot < owners.length; slot++) {
      const owner = owners[slot];
      if (owner === null || owner === undefined) continue;
      owner.row = -1;
      owner.before = this.#slots[slot]!.length;
      if (owner.adapter.key !== adapter) continue;
      if (owner.next >= 0) owner.row = this.#feed(owner.next, slot, true);
      else prompts += this.#feedPrompt(owner, share.get(owner.id) ?? 0);
    }
    this.counters.promptTokens += prompts;
    if (prompts > 0) this.#urgent = true;
    return prompts;
  }

  /** The budget goes to the oldest first. */
  #shares(adapter: number, budget: number): Map<number, number> {
    const shares = new Map<number, number>();
    const reading = this.#owners.filter((o) => o !== null && o.next < 0 && o.adapter.key === adapter) as Sequence[];
    let left = budget;
    for (const sequence of reading.sort((a, b) => a.id - b.id)) {
      const share = Math.min(left, sequence.submit.prompt.length - this.#slots[sequence.slot]!.length);
      shares.set(sequence.id, share);
      left -= share;
    }
    return shares;
  }

  #feedPrompt(owner: Sequence, count: number): number {
    const { prompt } = owner.submit;
    const slot = this.#slots[owner.slot]!;
    for (let i = 0; i < count; i++) {
      const last = slot.length === prompt.length - 1;
      const row = this.#feed(prompt[slot.length]!, owner.slot, last);
      if (last) owner.row = row;
    }
    return count;
  }

  #feed(token: number, at: number, wantsOutput: boolean): number {
    const slot = this.#slots[at]!;
    const row = this.#batch.add(token, slot.length, at, wantsOutput);
    slot.tokens[slot.length++] = token;
    slot.usedAt = this.#step;
    return row;
  }

  #harvest() {
    const { native } = this.#options;
    for (const owner of this.#owners) {
      if (owner === null || owner.row < 0) continue;
      const { row } = owner;
      owner.row = -1;
      const token = owner.sampler!.draw(native.context, row, this.#candidates);
      if (token === NOTHING_LEFT) this.#finish(owner, "stop", NO_END);
      else this.#took(owner, token, row);
    }
  }

  #took(owner: Sequence, token: number, row: number) {
    const { native } = this.#options;
    const { topLogprobs, ignoreEos } = owner.submit;
    const scored = topLogprobs < 0 ? null : logprobs(this.#logitsOf(row), token, topLogprobs);
    if (!ignoreEos && native.kinds.of(token) === END) {
      return this.#finish(owner, "stop", { token, logprob: scored?.[0] ?? Number.NaN });
    }
    if (scored) this.#frame.logprobs(owner.id, token, scored[0]!, scored.subarray(1));
    else this.#frame.token(owner.id, token);
    this.counters.completionTokens++;
    owner.next = token;
    const full = this.#slots[owner.slot]!.length >= native.contextLength;
    if (--owner.left <= 0 || full) this.#finish(owner, "length", NO_END);
  }

  /** A view of the library's own array; its rows stay where they are from step to step. */
  #logitsOf(row: number): Float32Array {
    const { native } = this.#options;
    const at = must(this.#llama.llama_get_logits_ith(native.context, row), "llama_get_logits_ith");
    let values = this.#logits.get(at);
    if (!values) {
      if (this.#logits.size > 4 * this.#slots.length) this.#logits.clear(); // they moved
      values = new Float32Array(toArrayBuffer(at, 0, native.vocabSize * 4));
      this.#logits.set(at, values);
    }
    return values;
  }

  #finish(owner: Sequence, reason: Reason, end: EndToken) {
    this.#urgent = true;
    this.#frame.finish(owner.id, reason, end);
    this.#end(owner);
  }

  #end(sequence: Sequence) {
    sequence.over = true;
    sequence.sampler?.free();
    sequence.sampler = null;
    this.#options.adapters.release(sequence.adapter);
    if (sequence.slot < 0) {
      this.#waiting = this.#waiting.filter((other) => other !== sequence);
      return;
    }
    this.#slots[sequence.slot]!.busy = false;
    this.#owners[sequence.slot] = null;
    sequence.slot = -1;
  }

  /** 1 = the cache has no room and is as before: the youngest sequence gives way. Else nobody knows what it holds. */
  #refused(code: number) {
    const { native, onFailed } = this.#options;
    const running = this.#owners.filter((owner) => owner !== null).sort((a, b) => b.id - a.id);
    const error = code === 1 ? "the cache has no room left" : `llama_decode returned ${code}`;
    for (const owner of running) this.#slots[owner.slot]!.length = owner.before;
    for (const victim of code === 1 ? running.slice(0, 1) : running) {
      this.#slots[victim.slot]!.length = 0;
      this.#llama.llama_memory_seq_rm(native.memory, victim.slot, -1, -1);
      onFailed(victim.id, error);
      this.#end(victim);
    }
    if (code === 1) return;
    for (const slot of this.#slots) slot.length = 0;
    this.#llama.llama_memory_clear(native.memory, true);
  }
}
