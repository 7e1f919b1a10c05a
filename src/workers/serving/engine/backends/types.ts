/** The interface of what decodes: libllama (library.ts) or our own kernels (kernels.ts). Only the scheduler uses it. */
import type { Sequence } from "../sequence.ts";
import type { SubmitMessage } from "../thread/messages.ts";

export type Backend = {
  /** Starts as many waiting sequences as there is room for. Returns the others in their order. */
  admit: (waiting: readonly Sequence[]) => Sequence[];
  /**
   * Takes the place of a started sequence away, so that it can be admitted again and goes on with the same tokens. False: it
   * must go on where it is.
   */
  preempt: (sequence: Sequence) => boolean;
  /** Decodes one step of the sequences that have started. */
  step: () => void;
  /** Frees at once what a started sequence holds. */
  release: (sequence: Sequence) => void;
  /** Returns the request by which a health probe decodes without loss of a cache. */
  probe: (submit: SubmitMessage) => SubmitMessage;
  /**
   * Writes a part of the cache to the disk. Returns true if there is more to write at once. `isIdle`: nothing else is to be
   * done.
   */
  keep: (isIdle: boolean) => boolean;
  /** Forgets the cache. No sequence runs. */
  clear: () => void;
  /** Writes to the disk what is not there yet, as far as time allows. */
  close: () => void;
};

/** Receives the results of a backend. */
export type Results = {
  started: (sequence: Sequence, cachedTokens: number) => void;
  /** Some tokens of prompts were read. */
  read: (promptTokens: number) => void;
  /** A step was decoded. */
  decoded: () => void;
  /**
   * `scores` are the log-probability of the token, then pairs of token and log-probability. The token is NOTHING_LEFT if
   * the grammar allows none.
   */
  drawn: (sequence: Sequence, token: number, scores: Float64Array | null) => void;
  /** The context has no room for another token. */
  full: (sequence: Sequence) => void;
  failed: (sequence: Sequence, error: string) => void;
};
