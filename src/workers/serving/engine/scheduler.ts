/**
 * The decoding loop without its arithmetic: requests that wait, sequences that run, and the frame of what they said. A
 * backend decodes them.
 */
import type { Adapters } from "./adapters.ts";
import type { Backend, Results } from "./backends/types.ts";
import { END, type TokenKinds } from "./kinds.ts";
import { NOTHING_LEFT } from "./sampling/sampler.ts";
import { newSequences, type Sequence } from "./sequence.ts";
import { type Counters, type EndToken, FrameWriter, NO_END, type Reason } from "./thread/frame.ts";
import type { SubmitMessage } from "./thread/messages.ts";

export type SchedulerOptions = {
  kinds: TokenKinds;
  adapters: Adapters;
  onFailed: (sequence: number, error: string) => void;
};

const SLOW_STEP_MS = 4; // a step that takes longer than this is worth more than a message for its tokens

export class Scheduler {
  readonly counters: Counters = { decodeCalls: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
  readonly #options: SchedulerOptions;
  readonly #frame = new FrameWriter();
  readonly #running = new Map<number, Sequence>();
  #backend: Backend;
  #waiting: Sequence[] = [];
  #urgent = false; // true after a first token, an end, or a token that must be checked before the next one
  #stepMs = 0;
  #next: ((results: Results) => Backend) | null = null; // replaces the backend when no sequence runs

  constructor(options: SchedulerOptions, open: (results: Results) => Backend) {
    this.#options = options;
    this.#backend = open(this.#results);
  }

  get idle() {
    return this.#waiting.length === 0 && this.#running.size === 0 && this.#next === null;
  }

  submit(request: SubmitMessage) {
    const submit = request.probe ? this.#backend.probe(request) : request;
    this.#waiting.push(...newSequences(submit, () => this.#options.adapters.use(submit.adapter)));
  }

  cancel(ids: readonly number[]) {
    for (const id of ids) {
      const sequence = this.#running.get(id) ?? this.#waiting.find((waiting) => waiting.id === id);
      if (sequence) this.#end(sequence);
    }
  }

  /** Resets to the state when opened: no result depends on earlier requests. */
  clear() {
    if (!this.idle) throw new Error("the cache cannot be cleared while sequences run");
    this.#backend.clear();
  }

  /** Ends all sequences and closes the backend. */
  close() {
    for (const sequence of [...this.#running.values(), ...this.#waiting]) this.#end(sequence);
    this.#backend.close();
  }

  /** Opens another backend when the running sequences have ended. Requests that wait or come meanwhile run on it. */
  replace(open: (results: Results) => Backend) {
    this.#next = open;
  }

  /** Writes a part of the cache to the disk. Returns true if there is more to write at once. */
  keep(): boolean {
    return this.#backend.keep(this.idle);
  }

  step() {
    const before = performance.now();
    if (this.#next && this.#running.size === 0) {
      this.#backend.close();
      this.#backend = this.#next(this.#results);
      this.#next = null;
    }
    if (this.#waiting.length > 0 && this.#next === null) this.#admit();
    this.#backend.step();
    this.#stepMs = performance.now() - before;
  }

  /** In the order of priorities, and of arrival among equals. One that does not fit takes the place of a lower one. */
  #admit() {
    for (;;) {
      this.#waiting.sort((a, b) => a.submit.rank - b.submit.rank || a.id - b.id);
      this.#waiting = this.#backend.admit(this.#waiting).filter(({ over }) => !over);
      const first = this.#waiting.find(({ leader }) => leader === null || leader.over || leader.next >= 0);
      const victim = first && this.#lowest(first.submit.rank);
      if (!victim || !this.#backend.preempt(victim)) return;
      this.#running.delete(victim.id);
      this.#waiting.push(victim);
    }
  }

  /** The youngest running sequence of the lowest priority below this one. */
  #lowest(rank: number): Sequence | undefined {
    let lowest: Sequence | undefined;
    for (const sequence of this.#running.values()) {
      if (sequence.submit.rank <= rank) continue;
      if (!lowest || sequence.submit.rank >= lowest.submit.rank) lowest = sequence;
    }
    return lowest;
  }

  /** Returns the events since the last call, or null. Without `all`, only if an event is urgent. */
  take(all: boolean): Float64Array | null {
    if (this.#frame.empty || !(all || this.#urgent)) return null;
    this.#urgent = false;
    return this.#frame.take(this.counters);
  }

  readonly #results: Results = {
    started: (sequence, cachedTokens) => {
      this.#running.set(sequence.id, sequence);
      if (sequence.resumed) return; // it was counted when it began
      this.counters.cachedTokens += cachedTokens;
      this.#frame.prompted(sequence.id, cachedTokens);
    },
    read: (promptTokens) => {
      this.counters.promptTokens += promptTokens;
    },
    decoded: () => {
      this.counters.decodeCalls++;
    },
    drawn: (sequence, token, scores) => {
      if (token === NOTHING_LEFT) this.#finish(sequence, "stop", NO_END);
      else this.#took(sequence, token, scores);
    },
    full: (sequence) => this.#finish(sequence, "length", NO_END),
    failed: (sequence, error) => {
      this.#options.onFailed(sequence.id, error);
      this.#end(sequence);
    },
  };

  #took(sequence: Sequence, token: number, scores: Float64Array | null) {
    const { ignoreEos, watched } = sequence.submit;
    if (!ignoreEos && this.#options.kinds.of(token) === END)
      return this.#finish(sequence, "stop", { token, logprob: scores?.[0] ?? Number.NaN });
    if (scores === null) this.#frame.token(sequence.id, token);
    else if (scores.length === 1) this.#frame.scored(sequence.id, token, scores[0]!);
    else this.#frame.logprobs(sequence.id, token, scores[0]!, scores.subarray(1));
    this.counters.completionTokens++;
    if (sequence.next < 0 || (watched && this.#stepMs > SLOW_STEP_MS)) this.#urgent = true;
    sequence.next = token;
    if (--sequence.left <= 0) this.#finish(sequence, "length", NO_END);
  }

  #finish(sequence: Sequence, reason: Reason, end: EndToken) {
    this.#urgent = true;
    this.#frame.finish(sequence.id, reason, end);
    this.#end(sequence);
  }

  #end(sequence: Sequence) {
    sequence.over = true;
    this.#options.adapters.release(sequence.adapter);
    if (sequence.slot >= 0 || sequence.sampler !== null) this.#backend.release(sequence);
    sequence.slot = -1;
    if (!this.#running.delete(sequence.id)) this.#waiting = this.#waiting.filter((other) => other !== sequence);
  }
}
