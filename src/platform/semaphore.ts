/**
 * A fair semaphore. A caller that needs several permits gets all of them or none: two callers that each held a half
 * would wait for each other. The next permits go to the workspace that holds the fewest.
 */
import type { Clock } from "./clock.ts";

export type Release = () => void;
/** The wait ends with `signal`. Callers of one workspace wait in order of arrival. */
export type Caller = { workspaceId: string; signal?: AbortSignal };
type Wait = { permits?: number; timeout?: { clock: Clock; ms: number } };
type Waiting = { workspaceId: string; permits: number; begin: () => void };

type Options = {
  permits: number;
  /** Callers that may wait; further ones are rejected. */
  maxWaiting?: number;
  /** Keeps the last free permit for a workspace that holds none, so one workspace cannot shut the others out. */
  keepsOne?: boolean;
  /** Permits that one workspace may hold. */
  mostEach?: number;
};

export class Semaphore {
  readonly permits: number;
  #free: number;
  #queue: Waiting[] = [];
  readonly #held = new Map<string, number>();
  readonly #maxWaiting: number;
  readonly #keepsOne: boolean;
  readonly #mostEach: number;

  constructor({ permits, maxWaiting = Number.POSITIVE_INFINITY, keepsOne = false, mostEach = permits }: Options) {
    this.permits = permits;
    this.#free = permits;
    this.#maxWaiting = maxWaiting;
    this.#keepsOne = keepsOne;
    this.#mostEach = mostEach;
  }

  get free(): number {
    return this.#free;
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** Takes the permits if they are free and no caller is first in turn; else undefined. */
  tryAcquire(workspaceId: string, permits = 1): Release | undefined {
    const mine: Waiting = { workspaceId, permits, begin: () => {} };
    return this.#enter(mine) ? this.#releaseOf(mine) : undefined;
  }

  /** Undefined: the queue is full, or the timeout has passed. Rejects with the reason of the caller's signal. */
  async acquire(caller: Caller, { permits = 1, timeout }: Wait = {}): Promise<Release | undefined> {
    if (!timeout) return await this.#wait(caller, permits);
    const { signal } = caller;
    const late = new AbortController();
    const done = new AbortController();
    void timeout.clock.sleep(timeout.ms, done.signal).then(() => late.abort());
    try {
      const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
      return await this.#wait({ ...caller, signal: either }, permits);
    } catch (reason) {
      if (signal?.aborted) throw reason;
      return undefined;
    } finally {
      done.abort();
    }
  }

  #wait({ workspaceId, signal }: Caller, permits: number): Promise<Release> | undefined {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const granted = Promise.withResolvers<Release>();
    const mine: Waiting = {
      workspaceId,
      permits,
      begin: () => {
        signal?.removeEventListener("abort", leave);
        granted.resolve(this.#releaseOf(mine));
      },
    };
    const leave = () => {
      this.#remove(mine);
      this.#advance(); // the caller behind this one may fit
      granted.reject(signal?.reason);
    };
    if (!this.#enter(mine, this.#maxWaiting)) return undefined;
    if (this.#queue.includes(mine)) signal?.addEventListener("abort", leave, { once: true });
    return granted.promise;
  }

  /** Queues and, if it is this caller's turn, grants at once. False: it would wait behind `maxWaiting` others. */
  #enter(mine: Waiting, maxWaiting = 0): boolean {
    this.#queue.push(mine);
    this.#advance();
    const isTooMany = this.#queue.length > maxWaiting && this.#queue.includes(mine);
    if (isTooMany) this.#remove(mine);
    return !isTooMany;
  }

  /** A caller that is next and does not fit keeps smaller ones behind it waiting. Otherwise it would wait for ever. */
  #advance() {
    for (let next = this.#next(); next && this.#fits(next); next = this.#next()) {
      this.#remove(next);
      this.#add(next.workspaceId, next.permits);
      next.begin();
    }
  }

  /** A workspace that holds all it may waits for itself alone and does not hold up the others. */
  #next(): Waiting | undefined {
    let best: Waiting | undefined;
    for (const each of this.#queue) {
      if (this.#heldBy(each.workspaceId) + each.permits > this.#mostEach) continue;
      if (!best || this.#heldBy(each.workspaceId) < this.#heldBy(best.workspaceId)) best = each;
    }
    return best;
  }

  #fits({ workspaceId, permits }: Waiting): boolean {
    const kept = this.#keepsOne && this.permits > 1 && this.#heldBy(workspaceId) > 0 ? 1 : 0;
    return permits <= this.#free - kept;
  }

  /** The function may be called again without effect. */
  #releaseOf({ workspaceId, permits }: Waiting): Release {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#add(workspaceId, -permits);
      this.#advance();
    };
  }

  #heldBy(workspaceId: string): number {
    return this.#held.get(workspaceId) ?? 0;
  }

  #add(workspaceId: string, permits: number) {
    this.#free -= permits;
    const now = this.#heldBy(workspaceId) + permits;
    if (now > 0) this.#held.set(workspaceId, now);
    else this.#held.delete(workspaceId);
  }

  #remove(mine: Waiting) {
    this.#queue = this.#queue.filter((each) => each !== mine);
  }
}
