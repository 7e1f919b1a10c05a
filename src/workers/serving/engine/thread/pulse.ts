/**
 * Shows the main thread what the decoding thread does, while a native call blocks that thread. Both threads hold a
 * `Pulse` over the same memory: the decoding thread writes, the main thread reads. `taken` goes the other way.
 */

/** The native call under way. */
export type RunningCall = { ageMs: number; expectedMs: number };

const DONE = 0; //     calls that have succeeded
const SINCE = 1; //    start of the call under way; 0 = none
const EXPECTED = 2; // ms that the call under way should take
const TAKEN = 3; //    frames that the main thread has passed on to its streams
const WORDS = 4;

/** The clocks of two threads have different origins. */
const now = () => performance.timeOrigin + performance.now();

export class Pulse {
  readonly memory: SharedArrayBuffer;
  readonly #values: Float64Array;

  constructor(memory = new SharedArrayBuffer(WORDS * Float64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#values = new Float64Array(memory);
  }

  begin(expectedMs: number) {
    this.#values[EXPECTED] = expectedMs;
    this.#values[SINCE] = now();
  }

  /** A call that failed is no progress. */
  end(succeeded: boolean) {
    this.#values[SINCE] = 0;
    if (succeeded) this.#values[DONE]!++;
  }

  get taken(): number {
    return this.#values[TAKEN]!;
  }

  /** Called by the main thread. */
  take() {
    this.#values[TAKEN]!++;
  }

  get done(): number {
    return this.#values[DONE]!;
  }

  get running(): RunningCall | null {
    const since = this.#values[SINCE]!;
    return since === 0 ? null : { ageMs: Math.max(0, now() - since), expectedMs: this.#values[EXPECTED]! };
  }
}
