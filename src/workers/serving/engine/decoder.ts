/**
 * The loop's body: every step decodes one batch that holds the next token of every running sequence and a part of the
 * prompts of those that begin. A sequence owns a slot from the first token of its prompt to its end; what it leaves in
 * the cache serves whoever begins alike.
 */
import type { Llama, Ptr } from "../../../native/llama_symbols.ts";
import type { Adapters } from "./adapters.ts";
import { Batch } from "./batch.ts";
import { Cache } from "./cache.ts";
import { DeviceSampling } from "./device_sampling.ts";
import { type Counters, type EndToken, FrameWriter, NO_END, type Reason } from "./frame.ts";
import { END } from "./kinds.ts";
import { Logits } from "./logits.ts";
import { logprobs } from "./logprobs.ts";
import type { SubmitMessage } from "./messages.ts";
import { Candidates, NOTHING_LEFT, Sampler, type SamplerNative } from "./sampler.ts";
import { newSequences, type Sequence } from "./sequence.ts";
import { fillers, nextAdapter, promptBudget, promptShares } from "./slots.ts";

export type DecoderOptions = {
  native: SamplerNative & { context: Ptr; memory: Ptr };
  adapters: Adapters;
  parallel: number;
  batchTokens: number;
  unified: boolean;
  reuse: boolean;
  deviceSampling: boolean;
  /** Idle slots that may be decoded along between two working ones. */
  fillMost: number;
  onFailed: (sequence: number, error: string) => void;
};

const NOBODY: ReadonlyMap<number, number> = new Map();
const FILLER = 0; // any token: its result is not looked at
const TURN = 8; // batches with one adapter while another waits

export class Decoder {
  readonly counters: Counters = { decodeCalls: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  readonly #options: DecoderOptions;
  readonly #llama: Llama;
  readonly #cache: Cache;
  readonly #batch: Batch;
  readonly #frame = new FrameWriter();
  readonly #candidates: Candidates;
  readonly #device: DeviceSampling | null;
  readonly #owners: (Sequence | null)[];
  readonly #fillMost: number;
  #waiting: Sequence[] = [];
  #fill: readonly number[] = []; // slots decoded along in the current batch
  #step = 0;
  #turn = 0;
  #promptMsPerToken = 0;
  #urgent = false; // a first token, an end, or one that somebody must see before the next
  readonly #logits: Logits;

  constructor(options: DecoderOptions) {
    const { native } = options;
    this.#options = options;
    this.#llama = native.llama;
    this.#cache = new Cache({ ...native, ...options });
    this.#owners = this.#cache.slots.map(() => null);
    this.#fillMost = options.unified || !options.reuse ? 0 : options.fillMost;
    this.#batch = new Batch(options.batchTokens);
    this.#candidates = new Candidates(native.vocabSize);
    this.#logits = new Logits(native, 4 * options.parallel);
    this.#device = options.deviceSampling ? new DeviceSampling(native, native.context) : null;
  }

  get idle() {
    return this.#waiting.length === 0 && this.#owners.every((owner) => owner === null);
  }

  submit(asked: SubmitMessage) {
    const { adapters } = this.#options;
    const idle = asked.probe ? this.#cache.idle() : undefined;
    const adapter = idle && adapters.nameOf(idle.adapter);
    const submit = idle && adapter !== undefined ? { ...asked, prompt: idle.prompt, adapter } : asked;
    this.#waiting.push(...newSequences(submit, () => adapters.use(submit.adapter)));
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
    const { prompt, sampling, seeds, grammar, ignoreEos, topLogprobs, probe, sequence: first } = sequence.submit;
    const taken = this.#cache.take(prompt, sequence.adapter.key, sequence.leader !== null);
    if (!taken) return false;
    sequence.slot = taken.at;
    this.#owners[taken.at] = sequence;
    try {
      const choice = { sampling, seed: seeds[sequence.id - first]!, grammar, ignoreEos };
      const device = this.#device;
      const attached = (probe ? device?.of(taken.at) : device?.use(taken.at, choice, topLogprobs >= 0)) ?? null;
      sequence.sampler = new Sampler(this.#options.native, choice, attached);
    } catch (error) {
      this.#options.onFailed(sequence.id, error instanceof Error ? error.message : String(error));
      this.#end(sequence);
      return false;
    }
    this.counters.cachedTokens += taken.keep;
    this.#frame.prompted(sequence.id, taken.keep);
    return true;
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
    const mayFill = decoding + reading >= 2 && this.#fillMost > 0;
    const batchTokens = this.#batch.capacity - (mayFill ? owners.length - decoding : 0); // a longer batch aborts the process
    const load = { decoding, reading, batchTokens, promptMsPerToken: this.#promptMsPerToken };
    const share = reading === 0 ? NOBODY : this.#shares(adapter, promptBudget(load));
    const works = (owner: Sequence | null) =>
      owner !== null && owner.adapter.key === adapter && (owner.next >= 0 || (share.get(owner.id) ?? 0) > 0);
    this.#fill = mayFill ? fillers(owners.map(works), this.#fillMost) : [];
    let prompts = 0;
    for (let at = 0; at < owners.length; at++) {
      const owner = owners[at] ?? null;
      if (owner !== null) {
        owner.row = -1;
        owner.before = this.#cache.slots[at]!.length;
      }
      if (owner !== null && works(owner)) {
        if (owner.next >= 0) owner.row = this.#feed(owner.next, at, true);
        else prompts += this.#feedPrompt(owner, share.get(owner.id) ?? 0);
      } else if (this.#fill.includes(at)) this.#batch.add(FILLER, this.#cache.spare(at), at, false);
    }
    this.counters.promptTokens += prompts;
    if (prompts > 0) this.#urgent = true;
    return prompts;
  }

  /** By sequence: how many tokens of its prompt the next batch takes. */
  #shares(adapter: number, budget: number): Map<number, number> {
    const reading = this.#owners.filter((o) => o !== null && o.next < 0 && o.adapter.key === adapter) as Sequence[];
    reading.sort((a, b) => a.id - b.id);
    const left = reading.map(({ submit, slot }) => submit.prompt.length - this.#cache.slots[slot]!.length);
    const shares = promptShares(left, budget);
    return new Map(reading.map((sequence, i) => [sequence.id, shares[i]!]));
  }

  #feedPrompt(owner: Sequence, count: number): number {
    const { prompt } = owner.submit;
    const slot = this.#cache.slots[owner.slot]!;
    for (let i = 0; i < count; i++) {
      const last = slot.length === prompt.length - 1;
      const row = this.#feed(prompt[slot.length]!, owner.slot, last);
      if (last) owner.row = row;
    }
    return count;
  }

  #feed(token: number, at: number, wantsOutput: boolean): number {
    return this.#batch.add(token, this.#cache.append(at, token, this.#step), at, wantsOutput);
  }

  #harvest() {
    const { native } = this.#options;
    for (const at of this.#fill) this.#cache.unspare(at);
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
    const { topLogprobs, ignoreEos, watched } = owner.submit;
    const scored = topLogprobs < 0 ? null : logprobs(this.#logits.row(row), token, topLogprobs);
    if (!ignoreEos && native.kinds.of(token) === END) {
      return this.#finish(owner, "stop", { token, logprob: scored?.[0] ?? Number.NaN });
    }
    if (scored) this.#frame.logprobs(owner.id, token, scored[0]!, scored.subarray(1));
    else this.#frame.token(owner.id, token);
    this.counters.completionTokens++;
    if (watched) this.#urgent = true;
    owner.next = token;
    const full = this.#cache.slots[owner.slot]!.length >= native.contextLength;
    if (--owner.left <= 0 || full) this.#finish(owner, "length", NO_END);
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
    this.#cache.release(sequence.slot);
    this.#owners[sequence.slot] = null;
    sequence.slot = -1;
  }

  /** 1 = the cache has no room and is as before: the youngest sequence gives way. Else nobody knows what it holds. */
  #refused(code: number) {
    const running = this.#owners.filter((owner) => owner !== null).sort((a, b) => b.id - a.id);
    const error = code === 1 ? "the cache has no room left" : `llama_decode returned ${code}`;
    for (const owner of running) this.#cache.cut(owner.slot, owner.before);
    for (const victim of code === 1 ? running.slice(0, 1) : running) {
      this.#cache.cut(victim.slot, 0);
      this.#options.onFailed(victim.id, error);
      this.#end(victim);
    }
    if (code !== 1) this.#cache.clear();
  }
}
