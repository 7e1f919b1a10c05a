/**
 * One request on the main thread: tokens in, deltas out. It has a single consumer and buffers what that has not
 * fetched.
 */

import { TextOut } from "./text.ts";
import { type EndToken, NO_END, type Reason } from "./thread/frame.ts";
import type { Delta, Finish, Generation, Run, TokenLogprob } from "./types.ts";
import type { Vocab } from "./vocab.ts";

/** `cancel` ends sequences on the decoding thread. Some of them may have ended already. */
export type RunHooks = { vocab: Vocab; cancel: (samples: readonly number[]) => void; onOver: () => void };

export class ActiveRun implements Run {
  readonly cachedTokens: Promise<number>;
  readonly #known: (cached: number) => void;
  readonly #samples: Sample[];
  readonly #hooks: RunHooks;
  #ready: Delta[] = [];
  #left: number;
  #error: Error | null = null;
  #waiter: PromiseWithResolvers<IteratorResult<readonly Delta[]>> | null = null;

  constructor(generation: Generation, hooks: RunHooks) {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.cachedTokens = promise;
    this.#known = resolve;
    this.#hooks = hooks;
    this.#samples = Array.from({ length: generation.samples }, (_, i) => new Sample(i, generation, hooks.vocab));
    this.#left = generation.samples;
  }

  prompted(sample: number, cached: number) {
    if (sample === 0) this.#known(cached);
  }

  token(sample: number, token: number, scored: TokenLogprob | null) {
    const state = this.#samples[sample]!;
    if (state.over) return;
    const delta = state.take(token, scored);
    if (delta) this.#add(delta);
    if (delta?.finish) this.#ended([sample]);
  }

  finish(sample: number, reason: Reason, end: EndToken) {
    const state = this.#samples[sample]!;
    if (state.over) return;
    this.#add(state.end(reason, end));
    this.#ended([]);
  }

  /** Joins text to the delta before it, so that the tokens of a frame are written as one event. */
  #add(delta: Delta) {
    const last = this.#ready.at(-1);
    if (last?.sample !== delta.sample || last.finish || !isPlain(last) || !isPlain(delta)) {
      this.#ready.push(delta);
      return;
    }
    this.#ready[this.#ready.length - 1] = { ...delta, text: last.text + delta.text };
  }

  fail(error: Error) {
    if (this.#left === 0) return;
    this.#error = error;
    this.#close();
    this.flush();
  }

  /** Ends the unfinished samples now; finished ones keep their result. */
  cancel() {
    const open = this.#samples.filter((sample) => !sample.over);
    if (this.#left === 0 || open.length === 0) return;
    for (const sample of open) this.#ready.push(sample.end("cancelled", NO_END));
    this.#close();
    this.flush();
  }

  /** Hands over the content of a frame. */
  flush() {
    if (!this.#waiter) return;
    const next = this.#take();
    if (!next) return;
    const waiter = this.#waiter;
    this.#waiter = null;
    if (next instanceof Error) waiter.reject(next);
    else waiter.resolve(next);
  }

  [Symbol.asyncIterator](): AsyncIterator<readonly Delta[]> {
    return {
      next: async () => {
        const ready = this.#take();
        if (ready instanceof Error) throw ready;
        if (ready) return ready;
        this.#waiter ??= Promise.withResolvers();
        return this.#waiter.promise;
      },
      return: async () => {
        this.cancel();
        this.#ready = [];
        return { done: true, value: undefined };
      },
    };
  }

  #take(): IteratorResult<readonly Delta[]> | Error | null {
    if (this.#ready.length > 0) {
      const value = this.#ready;
      this.#ready = [];
      return { done: false, value };
    }
    if (this.#left > 0) return null;
    const error = this.#error;
    this.#error = null;
    return error ?? { done: true, value: undefined };
  }

  /** `stop` lists samples that ended here but still run on the decoding thread. */
  #ended(stop: readonly number[]) {
    if (stop.length > 0) this.#hooks.cancel(stop);
    if (--this.#left === 0) this.#settle();
  }

  #close() {
    this.#hooks.cancel(this.#samples.map((sample) => sample.index));
    this.#left = 0;
    this.#settle();
  }

  #settle() {
    this.#known(0);
    this.#hooks.onOver();
  }
}

const isPlain = ({ tokens, logprobs }: Delta) => tokens === undefined && logprobs === undefined;

class Sample {
  over = false;
  readonly index: number;
  readonly #text: TextOut;
  readonly #vocab: Vocab;
  readonly #wantsTokens: boolean;
  readonly #tokens: number[] = []; // not yet released
  readonly #scored: TokenLogprob[] = [];
  #released = 0;
  #count = 0;

  constructor(index: number, generation: Generation, vocab: Vocab) {
    this.index = index;
    this.#text = new TextOut(generation.stop);
    this.#vocab = vocab;
    this.#wantsTokens = generation.wantTokens === true;
  }

  /** Returns null if there is nothing to show yet. */
  take(token: number, scored: TokenLogprob | null): Delta | null {
    this.#count++;
    if (this.#wantsTokens) this.#tokens.push(token);
    if (scored) this.#scored.push(scored);
    const { bytes, text } = this.#vocab.piece(token);
    const { text: shown, stop, tokens } = this.#text.push(bytes, text);
    const delta = this.#delta(shown, tokens);
    if (stop !== undefined) return this.#close(this.#whole({ ...delta, stop }), "stop");
    return shown === "" && !delta.tokens && !delta.logprobs ? null : delta;
  }

  end(reason: Finish, end: EndToken): Delta {
    const { text, tokens, stop } = this.#text.finish();
    const delta = this.#delta(text, tokens);
    if (this.#wantsTokens && end.token >= 0) withEnd(delta, end, this.#vocab);
    return stop === undefined ? this.#close(delta, reason) : this.#close(this.#whole({ ...delta, stop }), "stop");
  }

  /** The tokens of a stop string have no text, but they were drawn. */
  #whole(delta: Delta): Delta {
    const rest = this.#tokens.splice(0);
    if (rest.length === 0) return delta;
    const whole: Delta = { ...delta, tokens: Int32Array.from([...(delta.tokens ?? []), ...rest]) };
    const scored = this.#scored.splice(0);
    return scored.length === 0 ? whole : { ...whole, logprobs: [...(delta.logprobs ?? []), ...scored] };
  }

  #close(delta: Delta, finish: Finish): Delta {
    this.over = true;
    return { ...delta, finish, completionTokens: this.#count };
  }

  #delta(text: string, tokens: number): Delta {
    const count = tokens - this.#released;
    this.#released = tokens;
    const delta: Delta = { sample: this.index, text };
    if (count > 0 && this.#wantsTokens) delta.tokens = Int32Array.from(this.#tokens.splice(0, count));
    if (count > 0 && this.#scored.length > 0) delta.logprobs = this.#scored.splice(0, count);
    return delta;
  }
}

/** Adds the end token: a rollout must learn that the model chose to end. */
function withEnd(delta: Delta, { token, logprob }: EndToken, vocab: Vocab) {
  delta.tokens = Int32Array.of(...(delta.tokens ?? []), token);
  if (Number.isNaN(logprob)) return;
  delta.logprobs = [...(delta.logprobs ?? []), { token, bytes: vocab.bytes(token), logprob, top: [] }];
}
