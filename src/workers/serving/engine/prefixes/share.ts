/** A share of the time for work beside decoding. Time that was not used is saved up to a limit. */
const SHARE = 0.03;
const MOST_MS = 1_000;

export class Share {
  readonly #now: () => number;
  #left = MOST_MS;
  #at: number;

  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#at = now();
  }

  isOpen(): boolean {
    const now = this.#now();
    this.#left = Math.min(MOST_MS, this.#left + SHARE * (now - this.#at));
    this.#at = now;
    return this.#left > 0;
  }

  spend<T>(work: () => T): T {
    const begun = this.#now();
    const result = work();
    this.#left -= this.#now() - begun;
    return result;
  }
}
