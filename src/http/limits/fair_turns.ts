/**
 * Shares the one thread that answers requests between workspaces. While it has little to do, requests go on at once. When
 * those of one turn of the event loop have taken long, further ones wait in a line for each workspace, and the next to go
 * on belongs to the workspace that has used the least time lately. So no request waits behind the many of another
 * workspace, and small requests of a workspace that uses little do not wait at all. A large body always waits for the next
 * turn, where its time can be measured.
 *
 * Only the time until a request first waits for something counts: that is where bodies are parsed and checked.
 */
import { drainMicrotasks } from "bun:jsc";
import { KIB } from "../../lib/units.ts";

const TURN_MS = 4; // that requests keep one turn of the event loop, before others wait
const LARGE_BYTES = 32 * KIB;
const SMALL_MS = 0.2; // what a small request counts
const LIGHT_MS = 20; // small requests of a workspace that has used less than this lately do not wait
const HALF_MS = 1_000; // after which time that was used counts half
const FORGOTTEN_MS = 0.05; // of use

type Line = { waiting: (() => void)[]; usedMs: number };
type Thread = {
  now: () => number;
  /** Runs it in the next turn of the event loop. */
  later: (run: () => void) => void;
  /** Runs all that goes on now, until it waits for something. */
  settle: () => void;
};

const THIS_THREAD: Thread = {
  now: () => performance.now(),
  later: (run) => void setImmediate(run),
  settle: drainMicrotasks,
};

export class FairTurns {
  readonly #thread: Thread;
  readonly #lines = new Map<string, Line>();
  #waiting = 0;
  #turnMs = 0; // what requests have taken of this turn
  #isTurning = false;
  #halvedAt = 0;

  constructor(thread = THIS_THREAD) {
    this.#thread = thread;
  }

  /** True if a request would have to wait. */
  get isBusy(): boolean {
    return this.#waiting > 0 || this.#turnMs >= TURN_MS;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Workspaces whose use is remembered. */
  get known(): number {
    return this.#lines.size;
  }

  /** The workspace has used the thread for so long. */
  charge(workspaceId: string, ms: number) {
    this.#lineOf(workspaceId).usedMs += ms;
    this.#turnMs += ms;
    this.#begin();
  }

  /** To await before work of a workspace that may take long. Undefined: it goes on at once. */
  enter(workspaceId: string, bytes = 0): Promise<void> | undefined {
    if (workspaceId === "") return undefined; // no key: one line for all of them would let one caller hold up the others
    const { waiting, usedMs } = this.#lineOf(workspaceId);
    if (bytes < LARGE_BYTES && (!this.isBusy || usedMs < LIGHT_MS)) {
      this.charge(workspaceId, SMALL_MS);
      return undefined;
    }
    this.#waiting++;
    this.#begin();
    return new Promise((resolve) => waiting.push(resolve));
  }

  #lineOf(workspaceId: string): Line {
    let line = this.#lines.get(workspaceId);
    if (!line) {
      line = { waiting: [], usedMs: 0 };
      this.#lines.set(workspaceId, line);
    }
    return line;
  }

  #begin() {
    if (this.#isTurning) return;
    this.#isTurning = true;
    this.#thread.later(() => this.#turn());
  }

  #turn() {
    const { now, settle } = this.#thread;
    let at = now();
    const end = at + TURN_MS;
    this.#isTurning = false;
    this.#turnMs = 0;
    this.#halve(at);
    while (this.#waiting > 0 && at < end) {
      const line = this.#next();
      this.#waiting--;
      line.waiting.shift()?.();
      settle();
      const after = now();
      line.usedMs += Math.max(after - at, 0.001); // equals take turns
      at = after;
    }
    this.#turnMs = at - end + TURN_MS;
    if (this.#turnMs > 0) this.#begin();
  }

  #next(): Line {
    let next: Line | undefined;
    for (const line of this.#lines.values())
      if (line.waiting.length > 0 && (next === undefined || line.usedMs < next.usedMs)) next = line;
    return next as Line;
  }

  #halve(now: number) {
    if (now - this.#halvedAt < HALF_MS) return;
    this.#halvedAt = now;
    for (const [workspaceId, line] of this.#lines) {
      line.usedMs /= 2;
      if (line.usedMs < FORGOTTEN_MS && line.waiting.length === 0) this.#lines.delete(workspaceId);
    }
  }
}
