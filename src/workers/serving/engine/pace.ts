/** The measured speed of this model, and the time that the next batch should take. Pure: the caller has the clock. */

const ENOUGH = 16; // prompt tokens that a batch needs to measure the cost of one
const SLOWLY = 0.2; // weight of a new measurement

export class Pace {
  #batches = 0; // small batches measured
  #smallMs = 0; // time of a batch with few prompt tokens
  #promptMsPerToken = 0;

  /** 0 before the first prompt. */
  get promptMsPerToken(): number {
    return this.#promptMsPerToken;
  }

  /** A prompt token costs less than a batch of its own, so that time stands in until a prompt was measured. */
  expectedMs(tokens: number): number {
    return this.#smallMs + tokens * (this.#promptMsPerToken || this.#smallMs);
  }

  decoded({ tokens, prompts, ms }: { tokens: number; prompts: number; ms: number }) {
    if (prompts >= ENOUGH) this.#promptMsPerToken = mixed(this.#promptMsPerToken, ms / tokens);
    else this.#smallMs = this.#batches++ < 2 ? ms : mixed(this.#smallMs, ms); // the first one also reads the weights
  }
}

const mixed = (before: number, ms: number) => (before === 0 ? ms : (1 - SLOWLY) * before + SLOWLY * ms);
