/**
 * The measured speed of steps on a device, and how many tokens of prompts the next step may read. Pure: the caller has
 * the clock.
 */

const STALL = 1.5; // a step that also reads prompts takes at most this many steps more
const SHORTEST_MS = 0.5; // small models: a budget below this would starve prompts
const UNMEASURED = 256;
const LEAST = 64;
const SLOWLY = 0.2; // weight of a new measurement
const GRACE_MS = 1_000; // the first step of a size records a graph

export type Step = { ms: number; read: number; drawn: number };

export class StepPace {
  #stepMs = 0;
  #promptMsPerToken = 0;
  #readBefore = 0; // with a step in flight, the time of a prompt shows in the call after its own

  /** 0 before the first prompt. */
  get promptMsPerToken(): number {
    return this.#promptMsPerToken;
  }

  /** The longest time that a healthy step may take. */
  get expectedMs(): number {
    return GRACE_MS + 4 * this.#stepMs;
  }

  /** `active`: sequences that would wait for the prompts. */
  promptTokens(active: number): number {
    if (active === 0) return Number.POSITIVE_INFINITY;
    if (this.#promptMsPerToken === 0) return UNMEASURED;
    const limitMs = STALL * Math.max(this.#stepMs, SHORTEST_MS);
    return Math.max(LEAST, Math.floor(limitMs / this.#promptMsPerToken));
  }

  stepped({ ms, read, drawn }: Step) {
    const readBefore = this.#readBefore;
    this.#readBefore = drawn > 0 ? read : 0;
    const [tokens, promptMs] = drawn > 0 ? [readBefore, ms - this.#stepMs] : [read, ms];
    if (drawn > 0 && readBefore + read === 0) this.#stepMs = mixed(this.#stepMs, ms);
    else if (tokens >= LEAST && promptMs > 0 && (drawn === 0 || this.#stepMs > 0))
      this.#promptMsPerToken = mixed(this.#promptMsPerToken, promptMs / tokens);
  }
}

const mixed = (before: number, value: number) => (before === 0 ? value : (1 - SLOWLY) * before + SLOWLY * value);
