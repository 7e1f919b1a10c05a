/**
 * Decoding by libllama. Every step decodes one batch: the next token of every running sequence, and a part of the
 * prompts that are being read. A sequence owns a slot from the first token of its prompt to its end. Its cache stays and
 * is reused by a later prompt that begins alike.
 */

import { toArrayBuffer } from "bun:ffi";
import { errorText } from "../../../../lib/error_text.ts";
import { must, type Ptr } from "../../../../native/ffi.ts";
import type { Llama } from "../../../../native/llama/symbols.ts";
import { Guesser } from "../../../decoder/guessing/guesses.ts";
import type { Adapters } from "../adapters.ts";
import type { Shapes } from "../batch_shapes.ts";
import { Cache } from "../cache.ts";
import { Composer, urgentRank } from "../composer.ts";
import type { Pace } from "../pace.ts";
import type { PrefixFolder } from "../prefixes/folder.ts";
import { SlotPrefixes } from "../prefixes/slot_prefixes.ts";
import { RowReader } from "../row_reader.ts";
import { DeviceSampling } from "../sampling/device_sampling.ts";
import { Grammars } from "../sampling/grammar.ts";
import { logprobs } from "../sampling/logprobs.ts";
import { Candidates, Sampler, type SamplerNative } from "../sampling/sampler.ts";
import type { Sequence } from "../sequence.ts";
import { nextAdapter } from "../slots.ts";
import type { SubmitMessage } from "../thread/messages.ts";
import type { Pulse } from "../thread/pulse.ts";
import type { ThreadCount } from "./thread_count.ts";
import type { Backend, Results } from "./types.ts";

export type LibraryOptions = {
  native: SamplerNative & { context: Ptr; memory: Ptr };
  adapters: Adapters;
  pace: Pace;
  pulse: Pulse;
  parallel: number;
  batchTokens: number;
  unified: boolean;
  reuse: boolean;
  deviceSampling: boolean;
  /** Guess the next tokens of a lone sequence. */
  guesses: boolean;
  /** At most this many idle slots are decoded along between two working ones. */
  fillMost: number;
  /** Threads on the processor. Null: a GPU computes, or results must not depend on the clock. */
  threads: ThreadCount | null;
  /** Results must not depend on the clock, and the samples of a request stay together. */
  steady: boolean;
  /** Set if a token must not depend on what is decoded beside it. */
  shapes: Shapes | null;
  device: "cpu" | "gpu";
  /** Null: prompts stay in memory only. */
  prefixes: PrefixFolder | null;
};

const FLUSH_MS = 4_000; // the server kills a process that takes longer to end
const TILE_ROWS = 64; // on a processor the library attends for fewer rows one by one, at thirty times the cost of a row
const FEW_ROWS = 4;
const LONG = 1_024; // tokens of a beginning from which on this matters
const TURN = 8; // batches with one adapter while another waits

export class LibraryBackend implements Backend {
  readonly #options: LibraryOptions;
  readonly #results: Results;
  readonly #llama: Llama;
  readonly #cache: Cache;
  readonly #composer: Composer;
  readonly #candidates: Candidates;
  readonly #grammars: Grammars;
  readonly #device: DeviceSampling | null;
  readonly #owners: (Sequence | null)[];
  readonly #logits: Logits;
  readonly #rows: RowReader;
  readonly #prefixes: SlotPrefixes | null;
  #turn = 0;

  constructor(options: LibraryOptions, results: Results) {
    const { native } = options;
    this.#options = options;
    this.#results = results;
    this.#llama = native.llama;
    this.#cache = new Cache({
      ...native,
      ...options,
      beforeLoss: (at, keep) => this.#prefixes?.beforeLoss(at, keep),
    });
    this.#prefixes = this.#openPrefixes();
    this.#owners = this.#cache.slots.map(() => null);
    this.#composer = new Composer({
      ...options,
      cache: this.#cache,
      owners: this.#owners,
      fillMost: options.unified || !options.reuse ? 0 : options.fillMost,
      guesses: options.guesses && options.reuse && !options.steady && !options.deviceSampling,
    });
    this.#rows = new RowReader({ ...options, ...native, cache: this.#cache, owners: this.#owners, results });
    this.#candidates = new Candidates(native.vocabSize);
    this.#grammars = new Grammars(native, this.#candidates);
    this.#logits = new Logits(native, 4 * options.parallel);
    this.#device = options.deviceSampling ? new DeviceSampling(native, native.context, options.parallel) : null;
  }

  probe(request: SubmitMessage): SubmitMessage {
    const idle = this.#cache.idle();
    const adapter = idle && this.#options.adapters.nameOf(idle.adapter);
    return idle && adapter !== undefined ? { ...request, prompt: idle.prompt, adapter } : request;
  }

  /** Resets to the state when opened: no result depends on earlier requests. */
  clear() {
    this.#cache.clear();
    this.#turn = 0;
  }

  keep(isIdle: boolean) {
    return this.#prefixes?.step(isIdle) ?? false;
  }

  close() {
    this.#prefixes?.flush(FLUSH_MS);
    this.#grammars.free();
    this.#llama.llama_free(this.#options.native.context);
    this.#device?.free();
  }

  step() {
    const adapter = this.#chooseAdapter();
    if (adapter === undefined) return;
    const read = this.#rows.read(adapter);
    if (read !== undefined) return read === 0 ? undefined : this.#refused(read);
    const composer = this.#composer;
    const { prompts } = composer.compose(adapter);
    if (prompts > 0) this.#results.read(prompts);
    this.#device?.prepare(this.#owners);
    const { native, pace, pulse, threads } = this.#options;
    const before = performance.now();
    const cpuBefore = threads && process.cpuUsage();
    pulse.begin(pace.expectedMs(composer.batch.length));
    const code = composer.batch.decode(this.#llama, native.context);
    this.#results.decoded();
    if (code === 0) this.#harvest(); // on a GPU this waits for the result
    pulse.end(code === 0);
    if (code !== 0) return this.#refused(code);
    const now = performance.now();
    composer.decoded(now - before);
    if (threads && cpuBefore) this.#adapt(threads, { wallMs: now - before, cpuBefore, now });
  }

  /** Uses fewer threads while other processes need the cores. */
  #adapt(
    threads: ThreadCount,
    { wallMs, cpuBefore, now }: { wallMs: number; cpuBefore: NodeJS.CpuUsage; now: number },
  ) {
    const { user, system } = process.cpuUsage(cpuBefore);
    if (!threads.decoded({ wallMs, cpuMs: (user + system) / 1000, now })) return;
    this.#llama.llama_set_n_threads(this.#options.native.context, threads.threads, threads.threads);
  }

  admit(waiting: readonly Sequence[]): Sequence[] {
    let free = this.#owners.reduce((count, owner) => count + (owner === null ? 1 : 0), 0);
    if (free === 0) return [...waiting];
    const { steady } = this.#options;
    const late: Sequence[] = [];
    const firstWave = steady && this.#firstWave();
    for (const sequence of waiting) {
      const { leader } = sequence;
      const held = leader !== null && !leader.over && (leader.next < 0 || firstWave);
      if (held && steady && free > 0) free--; // reserve a slot for it while its prompt is in the cache
      if (held || free === 0) late.push(sequence);
      else if (this.#start(sequence)) free--;
    }
    return late;
  }

  /** On a device, the sampler belongs to the slot. */
  preempt(sequence: Sequence): boolean {
    if (this.#device !== null || this.#options.steady || !this.#options.reuse || this.#owners.includes(null))
      return false;
    const { slot: at, next, submit } = sequence;
    const { tokens, length } = this.#cache.slots[at]!;
    if (next >= 0) {
      const prompt = new Int32Array(length + 1);
      prompt.set(tokens.subarray(0, length));
      prompt[length] = next;
      sequence.submit = { ...submit, prompt };
    }
    sequence.resumed = true;
    sequence.guesser = new Guesser(); // its guesses belong to a step that does not come
    sequence.slot = -1;
    sequence.next = -1;
    this.#cache.release(at);
    this.#owners[at] = null;
    return true;
  }

  release(sequence: Sequence) {
    sequence.sampler?.free();
    sequence.sampler = null;
    if (sequence.slot < 0) return;
    this.#cache.release(sequence.slot);
    this.#owners[sequence.slot] = null;
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
    const { prompt, sampling, seeds, grammar, ignoreEos, fresh, probe, sequence: first } = sequence.submit;
    const isSibling = sequence.leader !== null;
    const isFresh = fresh && !isSibling && !sequence.resumed;
    const taken = this.#cache.take(prompt, sequence.adapter.key, { isSibling, isFresh });
    if (!taken) return false;
    const kept = this.#prefixes && !isFresh ? this.#prefixes.restore(taken.at, prompt, taken.keep) : taken.keep;
    const cached = this.#rejoin(taken.at, prompt, kept);
    sequence.slot = taken.at;
    this.#owners[taken.at] = sequence;
    if (sequence.sampler !== null) {
      this.#results.started(sequence, cached);
      return true;
    }
    try {
      const choice = { sampling, seed: seeds[sequence.id - first]!, grammar, ignoreEos };
      const device = this.#device;
      const drawer = probe ? device?.of(taken.at, choice) : device?.use(taken.at, choice, sequence.submit);
      const state = grammar === null || drawer ? null : this.#grammars.open(grammar);
      sequence.sampler = drawer ?? new Sampler(this.#options.native, choice, null, state);
    } catch (error) {
      this.#results.failed(sequence, errorText(error));
      return false;
    }
    this.#results.started(sequence, cached);
    return true;
  }

  /** Reads a little of a long beginning again, if the rest alone takes longer. Returns how many tokens the slot has then. */
  #rejoin(at: number, prompt: Int32Array, cached: number): number {
    const { device, reuse, shapes, steady } = this.#options;
    const rest = prompt.length - cached;
    if (device !== "cpu" || !reuse || shapes !== null || steady) return cached;
    if (cached < LONG || rest < FEW_ROWS || rest >= TILE_ROWS) return cached;
    const least = prompt.length - TILE_ROWS;
    if (prompt.subarray(least, cached).some((token) => token < 0)) return cached; // rows of an image stay whole
    this.#cache.cut(at, least);
    return least;
  }

  #openPrefixes(): SlotPrefixes | null {
    const { native, adapters, pace, prefixes: folder, reuse, unified } = this.#options;
    if (folder === null || !reuse || unified) return null;
    folder.promptMsPerToken = () => pace.promptMsPerToken;
    return new SlotPrefixes({
      llama: this.#llama,
      context: native.context,
      slots: this.#cache.slots,
      folder,
      identityOf: (key) => adapters.identityOf(key),
      device: this.#options.device,
    });
  }

  #chooseAdapter(): number | undefined {
    const urgent = urgentRank(this.#owners);
    const running = this.#owners.filter((owner) => owner !== null && owner.submit.rank <= urgent) as Sequence[];
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
      const { row, slot, guesses, before } = owner;
      owner.row = -1;
      let right = 0;
      for (;;) {
        const token = owner.sampler!.draw(native.context, row + right, this.#candidates);
        this.#results.drawn(owner, token, this.#score(owner, token, row + right));
        if (owner.over || !owner.guesser.drew(right, token)) break;
        right++;
      }
      if (right < guesses) this.#cache.cut(slot, before + 1 + right);
      if (!owner.over && this.#cache.slots[slot]!.length >= native.contextLength) this.#results.full(owner);
    }
  }

  #score({ submit, sampler }: Sequence, token: number, row: number): Float64Array | null {
    const { topLogprobs, logprobTemperature } = submit;
    if (topLogprobs < 0 || token < 0) return null;
    const logp = sampler?.logp ?? Number.NaN;
    if (!Number.isNaN(logp)) return Float64Array.of(logp);
    return logprobs(this.#logits.row(row), token, topLogprobs, logprobTemperature);
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
      this.#results.failed(victim, error);
    }
    if (code !== 1) this.#cache.clear();
  }
}

type LogitsOptions = { llama: Llama; context: Ptr; vocabSize: number };

/** Views of the library's own array, valid until the next decode. Rows keep their addresses from step to step. */
class Logits {
  readonly #options: LogitsOptions;
  readonly #most: number;
  readonly #views = new Map<Ptr, Float32Array>();

  constructor(options: LogitsOptions, most: number) {
    this.#options = options;
    this.#most = most;
  }

  row(row: number): Float32Array {
    const { llama, context, vocabSize } = this.#options;
    const at = must(llama.llama_get_logits_ith(context, row), "llama_get_logits_ith");
    const stored = this.#views.get(at);
    if (stored) return stored;
    if (this.#views.size > this.#most) this.#views.clear(); // the array has moved
    const view = new Float32Array(toArrayBuffer(at, 0, vocabSize * 4));
    this.#views.set(at, view);
    return view;
  }
}
