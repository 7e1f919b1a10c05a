/**
 * The result of one decode step for the main thread, all sequences in one array of numbers. A message costs as much as
 * a thousand tokens, so there is one per step. Layout: the counters, then events of [kind, sequence, …].
 */
export const COUNTERS = ["decodeCalls", "promptTokens", "cachedTokens", "completionTokens"] as const;
export type Counters = Record<(typeof COUNTERS)[number], number>;

const TOKEN = 0; //    token
const LOGPROBS = 1; // token, logprob, count, then count × (token, logprob)
const PROMPTED = 2; // tokens that were in the cache
const FINISH = 3; //   reason, end token or -1, its logprob

export const REASONS = ["stop", "length"] as const;
export type Reason = (typeof REASONS)[number];
/** The token that ended the text (-1 = none) and its logprob (NaN unless requested). */
export type EndToken = { token: number; logprob: number };
export const NO_END: EndToken = { token: -1, logprob: Number.NaN };

export class FrameWriter {
  #values = new Float64Array(1024);
  #length: number = COUNTERS.length;

  get empty() {
    return this.#length === COUNTERS.length;
  }
  /** Called once per generated token, so it allocates nothing. */
  token(sequence: number, token: number) {
    this.#reserve(3);
    this.#values[this.#length++] = TOKEN;
    this.#values[this.#length++] = sequence;
    this.#values[this.#length++] = token;
  }
  /** Like `logprobs` without alternatives, but allocates nothing. */
  scored(sequence: number, token: number, logprob: number) {
    this.#reserve(5);
    this.#values[this.#length++] = LOGPROBS;
    this.#values[this.#length++] = sequence;
    this.#values[this.#length++] = token;
    this.#values[this.#length++] = logprob;
    this.#values[this.#length++] = 0;
  }
  logprobs(sequence: number, token: number, logprob: number, top: ArrayLike<number>) {
    this.#push(LOGPROBS, sequence, token);
    this.#push(logprob, top.length / 2, ...Array.from(top));
  }
  prompted(sequence: number, cached: number) {
    this.#push(PROMPTED, sequence, cached);
  }
  finish(sequence: number, reason: Reason, end: EndToken) {
    this.#push(FINISH, sequence, REASONS.indexOf(reason), end.token, end.logprob);
  }
  /** Returns the frame so far and starts a new one. */
  take(counters: Counters): Float64Array {
    for (let i = 0; i < COUNTERS.length; i++) this.#values[i] = counters[COUNTERS[i]!];
    const frame = this.#values.slice(0, this.#length);
    this.#length = COUNTERS.length;
    return frame;
  }

  #reserve(count: number) {
    if (this.#length + count <= this.#values.length) return;
    const grown = new Float64Array(this.#values.length * 2 + count);
    grown.set(this.#values);
    this.#values = grown;
  }
  #push(...values: number[]) {
    this.#reserve(values.length);
    for (let i = 0; i < values.length; i++) this.#values[this.#length++] = values[i]!;
  }
}

export type FrameReader = {
  token: (sequence: number, token: number) => void;
  logprobs: (sequence: number, token: number, logprob: number, top: Float64Array) => void;
  prompted: (sequence: number, cached: number) => void;
  finish: (sequence: number, reason: Reason, end: EndToken) => void;
};

export function readFrame(frame: Float64Array, reader: FrameReader): Counters {
  let at: number = COUNTERS.length;
  while (at < frame.length) {
    const kind = frame[at]!;
    const sequence = frame[at + 1]!;
    const value = frame[at + 2]!;
    if (kind === LOGPROBS) {
      const end = at + 5 + 2 * frame[at + 4]!;
      reader.logprobs(sequence, value, frame[at + 3]!, frame.subarray(at + 5, end));
      at = end;
    } else if (kind === FINISH) {
      reader.finish(sequence, REASONS[value]!, { token: frame[at + 3]!, logprob: frame[at + 4]! });
      at += 5;
    } else {
      if (kind === TOKEN) reader.token(sequence, value);
      else reader.prompted(sequence, value);
      at += 3;
    }
  }
  return Object.fromEntries(COUNTERS.map((name, i) => [name, frame[i]!])) as Counters;
}
