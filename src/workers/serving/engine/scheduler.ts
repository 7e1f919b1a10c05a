/**
 * The body of the decoding loop. Every step decodes one batch: the next token of every running sequence, and a part of
 * the prompts that are being read. A sequence owns a slot from the first token of its prompt to its end. Its cache
 * stays and is reused by a later prompt that begins alike.
 */
import type { Ptr } from "../../../native/ffi.ts";
import type { Llama } from "../../../native/llama/symbols.ts";
import type { Adapters } from "./adapters.ts";
import { Cache } from "./cache.ts";
import { Composer } from "./composer.ts";
import { END } from "./kinds.ts";
import type { Pace } from "./pace.ts";
import { DeviceSampling } from "./sampling/device_sampling.ts";
import { Logits } from "./sampling/logits.ts";
import { logprobs } from "./sampling/logprobs.ts";
import { Candidates, NOTHING_LEFT, Sampler, type SamplerNative } from "./sampling/sampler.ts";
import { newSequences, type Sequence } from "./sequence.ts";
import { nextAdapter } from "./slots.ts";
import { type Counters, type EndToken, FrameWriter, NO_END, type Reason } from "./thread/frame.ts";
import type { SubmitMessage } from "./thread/messages.ts";
import type { Pulse } from "./thread/pulse.ts";

export type DecoderOptions = {
  native: SamplerNative & { context: Ptr; memory: Ptr };
  adapters: Adapters;
  pace: Pace;
  pulse: Pulse;
  parallel: number;
  batchTokens: number;
  unified: boolean;
  reuse: boolean;
  deviceSampling: boolean;
  /** At most this many idle slots are decoded along between two working ones. */
  fillMost: number;
  /** Results must not depend on the clock, and the samples of a request stay together. */
  steady: boolean;
  onFailed: (sequence: number, error: string) => void;
};

const TURN = 8; // batches with one adapter while another waits

export class Decoder {
  readonly counters: Counters = { decodeCalls: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  readonly #options: DecoderOptions;
  readonly #llama: Llama;
  readonly #cache: Cache;
  readonly #composer: Composer;
  readonly #frame = new FrameWriter();
  readonly #candidates: Candidates;
  readonly #device: DeviceSampling | null;
  readonly #owners: (Sequence | null)[];
  #waiting: Sequence[] = [];
  #turn = 0;
  #urgent = false; // true after a first token, an end, or a token that must be checked before the next one
  readonly #logits: Logits;

  constructor(options: DecoderOptions) {
    const { native } = options;
    this.#options = options;
    this.#llama = native.llama;
    this.#cache = new Cache({ ...native, ...options });
    this.#owners = this.#cache.slots.map(() => null);
    this.#composer = new Composer({
      ...options,
      cache: this.#cache,
      owners: this.#owners,
      counters: this.counters,
      fillMost: options.unified || !options.reuse ? 0 : options.fillMost,
    });
    this.#candidates = new Candidates(native.vocabSize);
    this.#logits = new Logits(native, 4 * options.parallel);
    this.#device = options.deviceSampling ? new DeviceSampling(native, native.context, options.parallel) : null;
  }

  get idle() {
    return this.#waiting.length === 0 && this.#owners.every((owner) => owner === null);
  }

  submit(request: SubmitMessage) {
    const { adapters } = this.#options;
    const idle = request.probe ? this.#cache.idle() : undefined;
    const adapter = idle && adapters.nameOf(idle.adapter);
    const submit = idle && adapter !== undefined ? { ...request, prompt: idle.prompt, adapter } : request;
    this.#waiting.push(...newSequences(submit, () => adapters.use(submit.adapter)));
  }

  cancel(ids: readonly number[]) {
    for (const id of ids) {
      const found = this.#owners.find((o) => o?.id === id) ?? this.#waiting.find((w) => w.id === id);
      if (found) this.#end(found);
    }
  }

  /** Resets the decoder to its state when opened: no result depends on earlier requests. */
  clear() {
    if (!this.idle) throw new Error("the cache cannot be cleared while sequences run");
    this.#cache.clear();
    this.#turn = 0;
  }

  /** Ends all sequences and frees the context. */
  close() {
    for (const sequence of [...this.#owners, ...this.#waiting]) if (sequence !== null) this.#end(sequence);
    this.#llama.llama_free(this.#options.native.context);
    this.#device?.free();
  }

  /** Decodes one batch, if there is anything to decode. */
  step() {
    this.#admit();
    const adapter = this.#chooseAdapter();
    if (adapter === undefined) return;
    const composer = this.#composer;
    if (composer.compose(adapter).prompts > 0) this.#urgent = true;
    this.#device?.prepare(this.#owners);
    const { native, pace, pulse } = this.#options;
    const before = performance.now();
    pulse.begin(pace.expectedMs(composer.batch.length));
    const code = composer.batch.decode(this.#llama, native.context);
    this.counters.decodeCalls++;
    if (code === 0) this.#harvest(); // on a GPU this waits for the result
    pulse.end(code === 0);
    if (code !== 0) return this.#refused(code);
    composer.decoded(performance.now() - before);
  }

  /** Returns the events since the last call, or null. Without `all`, only if an event is urgent. */
  take(all: boolean): Float64Array | null {
    if (this.#frame.empty || !(all || this.#urgent)) return null;
    this.#urgent = false;
    return this.#frame.take(this.counters);
  }

  #admit() {
    if (this.#waiting.length === 0) return;
    let free = this.#owners.reduce((count, owner) => count + (owner === null ? 1 : 0), 0);
    if (free === 0) return;
    const { steady } = this.#options;
    const late: Sequence[] = [];
    const firstWave = steady && this.#firstWave();
    for (const sequence of this.#waiting) {
      const { leader } = sequence;
      const held = leader !== null && !leader.over && (leader.next < 0 || firstWave);
      if (held && steady && free > 0) free--; // reserve a slot for it while its prompt is in the cache
      if (held || free === 0) late.push(sequence);
      else if (this.#start(sequence)) free--;
    }
    this.#waiting = late;
  }

  /**
   * True while only prompts are read. Samples that share a prompt then wait for all of them, so that batches stay
   * uniform.
   */
  #firstWave(): boolean {
    let reading = false;
    for (const owner of this.#owners) {
      if (owner !== null && owner.leader !== null) return false;
      reading ||= owner !== null && owner.next < 0;
    }
    return reading;
  }

  /** Returns false if the sequence ended before it began. */
  #start(sequence: Sequence): boolean {
    const { prompt, sampling, seeds, grammar, ignoreEos, probe, sequence: first } = sequence.submit;
    const taken = this.#cache.take(prompt, sequence.adapter.key, sequence.leader !== null);
    if (!taken) return false;
    sequence.slot = taken.at;
    this.#owners[taken.at] = sequence;
    try {
      const choice = { sampling, seed: seeds[sequence.id - first]!, grammar, ignoreEos };
      const device = this.#device;
      const drawer = probe ? device?.of(taken.at, choice) : device?.use(taken.at, choice, sequence.submit);
      sequence.sampler = drawer ?? new Sampler(this.#options.native, choice, null);
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

  #harvest() {
    const { native } = this.#options;
    this.#device?.gather();
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
    const { ignoreEos, watched } = owner.submit;
    const scored = this.#score(owner, token, row);
    if (!ignoreEos && native.kinds.of(token) === END) {
      return this.#finish(owner, "stop", { token, logprob: scored?.[0] ?? Number.NaN });
    }
    if (scored === null) this.#frame.token(owner.id, token);
    else if (scored.length === 1) this.#frame.scored(owner.id, token, scored[0]!);
    else this.#frame.logprobs(owner.id, token, scored[0]!, scored.subarray(1));
    this.counters.completionTokens++;
    if (watched) this.#urgent = true;
    owner.next = token;
    const full = this.#cache.slots[owner.slot]!.length >= native.contextLength;
    if (--owner.left <= 0 || full) this.#finish(owner, "length", NO_END);
  }

  #score({ submit, sampler }: Sequence, token: number, row: number): Float64Array | null {
    const { topLogprobs, logprobTemperature } = submit;
    if (topLogprobs < 0) return null;
    const known = sampler?.logp ?? Number.NaN;
    if (!Number.isNaN(known)) return Float64Array.of(known);
    return logprobs(this.#logits.row(row), token, topLogprobs, logprobTemperature);
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

  /**
   * Code 1: the cache has no room and is unchanged, so the youngest sequence gives way. After other codes its content
   * is unknown.
   */
  #refused(code: number) {
    this.#device?.forget();
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
