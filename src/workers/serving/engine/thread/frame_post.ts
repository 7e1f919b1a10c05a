/**
 * Decides when the tokens of the decoding thread go to the main thread. While the main thread is busy with the last frame,
 * tokens wait: the next frame then has several of each stream, and a stream is written once for all of them.
 */
import type { Scheduler } from "../scheduler.ts";
import type { Pulse } from "./pulse.ts";

const LONGEST_HOLD_MS = 16;

export class FramePost {
  readonly #post: (frame: Float64Array) => void;
  readonly #pulse: Pulse;
  #sent = 0;
  #postMs = 0;
  #postAt = 0;

  constructor(post: (frame: Float64Array) => void, pulse: Pulse) {
    this.#post = post;
    this.#pulse = pulse;
  }

  /** Call after each step. */
  offer(scheduler: Scheduler) {
    const { idle } = scheduler;
    if (!idle && this.#pulse.taken < this.#sent) return; // an earlier frame would only wait in a queue
    const frame = scheduler.take(idle || performance.now() >= this.#postAt);
    if (frame) this.#send(frame);
  }

  /**
   * Waking the main thread costs 5 µs or, on a virtual machine, 200. Ordinary tokens wait so that this cost stays near
   * 1 %.
   */
  #send(frame: Float64Array) {
    const before = performance.now();
    this.#sent++;
    this.#post(frame);
    const now = performance.now();
    this.#postMs = this.#postMs === 0 ? now - before : 0.9 * this.#postMs + 0.1 * (now - before);
    this.#postAt = now + Math.min(LONGEST_HOLD_MS, 100 * this.#postMs);
  }
}
