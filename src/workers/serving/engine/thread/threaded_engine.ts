/**
 * The engine on the main thread of its process. Decoding runs on its own thread (thread.ts); this file holds the
 * requests, their text, and the vocabulary. The same seed gives the same tokens, because each sample draws from its own
 * generator. Other requests change only the order of additions inside the batch. Two tokens whose logits are equal to
 * the last bits may therefore still swap.
 */

import { rankOf } from "../../../../lib/chat/priority.ts";
import { errorText } from "../../../../lib/error_text.ts";
import type { AdapterPart } from "../adapters.ts";
import { ActiveRun } from "../run.ts";
import {
  BadGrammar,
  ContextOverflow,
  type Engine,
  type EngineStats,
  type Generation,
  type ModelFacts,
  type Run,
  type TokenLogprob,
} from "../types.ts";
import type { Vocab } from "../vocab.ts";
import { type Counters, readFrame } from "./frame.ts";
import type { FromThread, PrefixMessage, Question, ToThread } from "./messages.ts";
import type { Pulse } from "./pulse.ts";

type ActiveSample = { run: ActiveRun; sample: number; started: boolean };
type Answered = Extract<FromThread, { type: "answer" }>;
type Answer = { resolve: (answer: Answered) => void; reject: (error: Error) => void };

type Opened = {
  vocab: Vocab;
  facts: ModelFacts;
  model: number;
  pulse: Pulse;
  checkGrammar: (grammar: string) => void;
  onPrefixes: (message: PrefixMessage) => void;
};

export class ThreadedEngine implements Engine {
  readonly facts: ModelFacts;
  readonly model: number;
  readonly #thread: Worker;
  readonly #vocab: Vocab;
  readonly #pulse: Pulse;
  readonly #checkGrammar: (grammar: string) => void;
  readonly #onPrefixes: (message: PrefixMessage) => void;
  readonly #samples = new Map<number, ActiveSample>();
  readonly #answers = new Map<number, Answer>();
  readonly #adapters = new Set<string>();
  readonly #touched = new Set<ActiveRun>();
  #counters: Counters = { decodeCalls: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  #decodedAt = Number.NEGATIVE_INFINITY;
  readonly #outbox: ToThread[] = [];
  #lastId = 0;
  #broken: Error | null = null;

  constructor(thread: Worker, { vocab, facts, model, pulse, checkGrammar, onPrefixes }: Opened) {
    this.facts = facts;
    this.model = model;
    this.#thread = thread;
    this.#vocab = vocab;
    this.#pulse = pulse;
    this.#checkGrammar = checkGrammar;
    this.#onPrefixes = onPrefixes;
    thread.onmessage = ({ data }: MessageEvent<FromThread>) => this.#receive(data);
    thread.onerror = (event) => this.#break(new Error(event.message));
  }

  tokenize = (text: string, options: { addBos: boolean; special: boolean }) => this.#vocab.tokenize(text, options);
  detokenize = (tokens: Int32Array) => this.#vocab.detokenize(tokens);

  generate = (generation: Generation, signal?: AbortSignal): Run => {
    this.#admit(generation);
    const first = this.#lastId + 1;
    this.#lastId += generation.samples;
    const stop = () => run.cancel();
    const run = new ActiveRun(generation, {
      vocab: this.#vocab,
      cancel: (samples) => {
        const sequences = samples.map((sample) => first + sample);
        for (const sequence of sequences) this.#samples.delete(sequence);
        if (!this.#broken) this.#post({ type: "cancel", sequences });
      },
      onOver: () => signal?.removeEventListener("abort", stop),
    });
    if (signal?.aborted) {
      run.cancel();
      return run;
    }
    signal?.addEventListener("abort", stop, { once: true });
    for (let i = 0; i < generation.samples; i++) this.#samples.set(first + i, { run, sample: i, started: false });
    this.#submit(first, generation);
    return run;
  };

  #admit({ prompt, grammar, adapter, samples, maxTokens }: Generation) {
    const { contextLength } = this.facts;
    if (this.#broken) throw this.#broken;
    if (prompt.length === 0) throw new RangeError("the prompt has no tokens");
    if (prompt.at(-1)! < 0) throw new RangeError("the prompt ends with an image");
    if (samples < 1 || maxTokens < 1) throw new RangeError("samples and maxTokens must be 1 or more");
    if (prompt.length >= contextLength) throw new ContextOverflow(prompt.length, maxTokens, contextLength);
    if (adapter !== undefined && !this.#adapters.has(adapter)) throw new Error(`no adapter "${adapter}" is attached`);
    if (grammar === undefined) return;
    try {
      this.#checkGrammar(grammar);
    } catch (error) {
      throw new BadGrammar(errorText(error));
    }
  }

  #submit(sequence: number, generation: Generation) {
    const { sampling, samples, topLogprobs = -1, logprobTemperature = 1 } = generation;
    this.#post({
      type: "submit",
      sequence,
      prompt: generation.prompt,
      images: generation.images ?? [],
      seeds: Array.from({ length: samples }, (_, i) => seedOf(sampling.seed, i)),
      maxTokens: generation.maxTokens,
      sampling,
      topLogprobs: Math.min(topLogprobs, this.facts.vocabSize),
      logprobTemperature,
      grammar: generation.grammar ?? null,
      ignoreEos: generation.ignoreEos === true,
      adapter: generation.adapter ?? null,
      watched: generation.stop.length > 0,
      fresh: generation.fresh === true,
      rank: generation.rank ?? NORMAL,
      probe: generation.probe === true,
    });
  }

  embed = async (prompts: readonly Int32Array[], signal?: AbortSignal, adapter?: string): Promise<Float32Array[]> => {
    const { contextLength } = this.facts;
    for (const prompt of prompts) {
      if (prompt.length === 0) throw new RangeError("a prompt has no tokens");
      if (prompt.length > contextLength) throw new ContextOverflow(prompt.length, 0, contextLength);
    }
    signal?.throwIfAborted();
    const answer = await this.#ask((id) => ({ type: "embed", id, prompts, adapter: adapter ?? null }), signal);
    return answer.vectors ?? [];
  };

  attach = async (name: string, path: string, { scale = 1, identity }: { scale?: number; identity?: string } = {}) => {
    const file = { name, path, scale, identity: identity ?? null };
    const { address } = await this.#ask((id) => ({ type: "attach", id, ...file }));
    this.#adapters.add(name);
    return address as number;
  };

  grantRoom = (bytes: number) => {
    if (!this.#broken) this.#post({ type: "room", bytes });
  };

  share = async (name: string, address: number) => {
    await this.#ask((id) => ({ type: "share", id, name, address }));
    this.#adapters.add(name);
  };

  combine = async (name: string, parts: readonly AdapterPart[]) => {
    await this.#ask((id) => ({ type: "combine", id, name, parts }));
    this.#adapters.add(name);
  };

  detach = async (name: string) => {
    this.#adapters.delete(name);
    await this.#ask((id) => ({ type: "detach", id, name }));
  };

  clear = async () => {
    await this.#ask((id) => ({ type: "clear", id }));
  };

  stats = (): EngineStats => {
    let active = 0;
    for (const place of this.#samples.values()) if (place.started) active++;
    const idleMs = performance.now() - this.#decodedAt;
    const { done: callsDone, running } = this.#pulse;
    return { active, waiting: this.#samples.size - active, ...this.#counters, idleMs, callsDone, running };
  };

  close = async () => {
    if (this.#broken) return;
    const closed = this.#ask((id) => ({ type: "close", id }));
    this.#break(new Error("the engine is closed"), this.#lastId);
    await closed;
    this.#thread.terminate();
  };

  #ask(question: (id: number) => Question, signal?: AbortSignal): Promise<Answered> {
    if (this.#broken) return Promise.reject(this.#broken);
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<Answered>();
    this.#answers.set(id, { resolve, reject });
    this.#post(question(id));
    signal?.addEventListener("abort", () => this.#abandon(id, signal.reason), { once: true });
    return promise;
  }

  #abandon(id: number, reason: unknown) {
    const answer = this.#answers.get(id);
    if (!answer) return;
    this.#answers.delete(id);
    this.#post({ type: "cancel", sequences: [id] });
    answer.reject(reason instanceof Error ? reason : new Error(String(reason)));
  }

  #receive(message: FromThread) {
    if (message instanceof Float64Array) return this.#step(message);
    if (message.type === "failed") {
      const place = this.#samples.get(message.sequence);
      place?.run.fail(new Error(message.error));
    } else if (message.type === "prefixes" || message.type === "wants_room") this.#onPrefixes(message);
    else if (message.type === "answer") {
      const answer = this.#answers.get(message.id);
      this.#answers.delete(message.id);
      if (message.vectors) this.#decodedAt = performance.now();
      if (message.error === undefined) answer?.resolve(message);
      else answer?.reject(new Error(message.error));
    }
  }

  #step(frame: Float64Array) {
    this.#decodedAt = performance.now();
    this.#counters = readFrame(frame, this.#reader);
    for (const run of this.#touched) run.flush();
    this.#touched.clear();
    setImmediate(this.#taken); // after the streams have been written
  }

  readonly #taken = () => this.#pulse.take();

  readonly #reader = {
    token: (sequence: number, token: number) => this.#token(sequence, token, null),
    logprobs: (sequence: number, token: number, logprob: number, top: Float64Array) => {
      const alternatives = Array.from({ length: top.length / 2 }, (_, i) => this.#scored(top[2 * i]!, top[2 * i + 1]!));
      this.#token(sequence, token, { ...this.#scored(token, logprob), top: alternatives });
    },
    prompted: (sequence: number, cached: number) => {
      const place = this.#samples.get(sequence);
      if (!place) return;
      place.started = true;
      place.run.prompted(place.sample, cached);
    },
    finish: (sequence: number, ...how: [Parameters<ActiveRun["finish"]>[1], Parameters<ActiveRun["finish"]>[2]]) => {
      const place = this.#samples.get(sequence);
      if (!place) return;
      this.#samples.delete(sequence);
      this.#touched.add(place.run);
      place.run.finish(place.sample, ...how);
    },
  };

  #scored(token: number, logprob: number) {
    return { token, bytes: this.#vocab.bytes(token), logprob };
  }

  #token(sequence: number, token: number, scored: TokenLogprob | null) {
    const place = this.#samples.get(sequence);
    if (!place) return;
    this.#touched.add(place.run);
    place.run.token(place.sample, token, scored);
  }

  /** Requests of the same event-loop turn arrive together, so that they are read in one batch. */
  #post(message: ToThread) {
    if (this.#outbox.push(message) > 1) return;
    queueMicrotask(() => this.#thread.postMessage(this.#outbox.splice(0)));
  }

  /** Fails all requests and every later call with this error. `spare` is the question that closes the engine. */
  #break(error: Error, spare?: number) {
    this.#broken = error;
    for (const { run } of [...this.#samples.values()]) run.fail(error);
    for (const [id, answer] of this.#answers) {
      if (id === spare) continue;
      this.#answers.delete(id);
      answer.reject(error);
    }
  }
}

const NORMAL = rankOf("normal");
const DRAWN_BY_THE_LIBRARY = 0xffffffff; // the library reads this seed as "choose one yourself"

function seedOf(seed: number | undefined, sample: number): number {
  if (seed === undefined) return crypto.getRandomValues(new Uint32Array(1))[0]! % DRAWN_BY_THE_LIBRARY;
  const wide = BigInt(Math.trunc(seed)) + BigInt(sample);
  return Number(BigInt.asUintN(32, wide ^ (wide >> 32n))) % DRAWN_BY_THE_LIBRARY;
}
