/**
 * The queue for every permit that workspaces share. Each workspace waits in a line of its own. The next permit goes to
 * the workspace that holds the fewest, and among equals to the one whose turn is longest ago. One workspace never holds
 * all permits, and its line has a limit. A caller that needs several permits gets all of them or none: two callers that
 * each held a half would wait for each other.
 */
import { AppError } from "../lib/errors.ts";
import type { Clock } from "./clock.ts";

export type Release = () => void;
/** The wait ends with `signal`. Callers of one workspace wait in order of arrival. */
export type Caller = { workspaceId: string; signal?: AbortSignal };
type Wait = { permits?: number; timeout?: { clock: Clock; ms: number } };
type Waiting = { permits: number; since: number; begin: () => void };
/** Exists while it holds or waits. A Set is a queue whose members can leave from the middle. */
type Line = { readonly workspaceId: string; readonly waiting: Set<Waiting>; held: number; servedAt: number };

type Options = {
  /** Plural noun of the work, for the message of a full line: `readings of sources`. */
  name: string;
  permits: number;
  /** Permits that one workspace may hold; all but one if not given. The others go only to workspaces that hold none. */
  mostEach?: number;
  /** Callers of one workspace that may wait. A further one gets 429. */
  mostWaitingEach?: number;
  /** Callers of all workspaces that may wait, where a caller can pretend to be many. */
  mostWaiting?: number;
};

type UnsharedOptions = Pick<Options, "permits" | "mostEach">;

const MOST_WAITING_EACH = 64;
const RETRY_SECONDS = 5;
/** Workspaces whose last turn is remembered. */
const MOST_REMEMBERED = 1_000;
const NONE = Number.POSITIVE_INFINITY;

export class Semaphore {
  readonly name: string;
  readonly permits: number;
  readonly mostEach: number;
  readonly mostWaitingEach: number;
  readonly #mostWaiting: number;
  /** False: all callers belong to one workspace or one process. */
  isShared = true;
  /** Permits that only a workspace without any may take. */
  #kept: number;
  #free: number;
  #waiting = 0;
  #sequence = 0;
  readonly #lines = new Map<string, Line>();
  /** Workspace → the number of its last grant, the oldest first. */
  readonly #served = new Map<string, number>();

  constructor({
    name,
    permits,
    mostEach = Math.max(1, permits - 1),
    mostWaitingEach = MOST_WAITING_EACH,
    mostWaiting = NONE,
  }: Options) {
    this.name = name;
    this.permits = permits;
    this.mostEach = mostEach;
    this.mostWaitingEach = mostWaitingEach;
    this.#mostWaiting = mostWaiting;
    this.#kept = permits - mostEach;
    this.#free = permits;
  }

  /** For callers of one workspace or one process. `reason` says why no other workspace waits here. */
  static unshared(reason: string, { permits, mostEach = permits }: UnsharedOptions): Semaphore {
    const semaphore = new Semaphore({ name: reason, permits, mostEach, mostWaitingEach: NONE });
    semaphore.#kept = 0;
    semaphore.isShared = false;
    return semaphore;
  }

  get free(): number {
    return this.#free;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Throws 429 if the workspace has as many callers waiting as it may. */
  mustHaveRoom(workspaceId: string) {
    const count = this.#lines.get(workspaceId)?.waiting.size ?? 0;
    if (count < this.mostWaitingEach) return;
    throw new AppError(
      "queue_full",
      `This workspace has ${count} ${this.name} waiting, and ${this.mostWaitingEach} may wait: try again when some have ended`,
      { retryAfterSeconds: RETRY_SECONDS },
    );
  }

  /** Takes the permits if they are free and no caller is first in turn; else undefined. */
  tryAcquire(workspaceId: string, permits = 1): Release | undefined {
    const mine: Waiting = { permits, since: ++this.#sequence, begin: () => {} };
    const line = this.#enter(workspaceId, mine);
    if (!line.waiting.has(mine)) return this.#releaseOf(line, permits);
    this.#leave(line, mine);
    return undefined;
  }

  /**
   * For a queue that is rows of the database. `start` begins the next work of the workspace and returns true, or false
   * if the workspace has none. It is called in fair turns, until no permit is free or no work is left.
   */
  fill(workspaceIds: Iterable<string>, start: (workspaceId: string, release: Release) => boolean) {
    const left = new Set(workspaceIds);
    for (let next = this.#first(left); next !== undefined; next = this.#first(left)) {
      const release = this.tryAcquire(next);
      if (!release) return;
      if (start(next, release)) continue;
      release();
      left.delete(next);
    }
  }

  /** Starts these rows in fair turns, those of one workspace in their order, as far as there are permits. */
  fillFrom<T extends { workspaceId: string }>(rows: Iterable<T>, start: (row: T, release: Release) => void) {
    const due = Map.groupBy(rows, ({ workspaceId }) => workspaceId);
    this.fill(due.keys(), (workspaceId, release) => {
      const row = due.get(workspaceId)?.shift();
      if (row) start(row, release);
      return row !== undefined;
    });
  }

  /**
   * Undefined: too many callers wait in all, or the timeout has passed. Rejects with the reason of the caller's signal,
   * and with 429 if too many callers of the workspace wait.
   */
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
      if (signal?.aborted || !late.signal.aborted) throw reason;
      return undefined;
    } finally {
      done.abort();
    }
  }

  #wait({ workspaceId, signal }: Caller, permits: number): Promise<Release> | undefined {
    if (permits > this.mostEach) throw new Error(`${permits} ${this.name} are more than one workspace may ever hold`);
    if (signal?.aborted) return Promise.reject(signal.reason);
    const granted = Promise.withResolvers<Release>();
    const before = this.#lines.get(workspaceId)?.waiting.size ?? 0;
    const mine: Waiting = {
      permits,
      since: ++this.#sequence,
      begin: () => {
        signal?.removeEventListener("abort", leave);
        granted.resolve(this.#releaseOf(line, permits));
      },
    };
    const leave = () => {
      this.#leave(line, mine);
      this.#advance(); // the caller behind this one may fit
      granted.reject(signal?.reason);
    };
    const line: Line = this.#lineOf(workspaceId);
    this.#enter(workspaceId, mine);
    if (!line.waiting.has(mine)) return granted.promise;
    if (before >= this.mostWaitingEach || this.#waiting > this.#mostWaiting) {
      this.#leave(line, mine);
      this.mustHaveRoom(workspaceId);
      return undefined;
    }
    signal?.addEventListener("abort", leave, { once: true });
    return granted.promise;
  }

  /** Queues and, if it is this caller's turn, grants at once. */
  #enter(workspaceId: string, mine: Waiting): Line {
    const line = this.#lineOf(workspaceId);
    line.waiting.add(mine);
    this.#waiting++;
    this.#advance();
    return line;
  }

  #leave(line: Line, mine: Waiting) {
    if (line.waiting.delete(mine)) this.#waiting--;
    this.#endIfIdle(line);
  }

  /** A caller that is next and does not fit keeps smaller ones behind it waiting. Otherwise it would wait for ever. */
  #advance() {
    for (let line = this.#next(); line && this.#fits(line, headOf(line).permits); line = this.#next()) {
      const head = headOf(line);
      line.held += head.permits;
      this.#free -= head.permits;
      this.#leave(line, head);
      line.servedAt = this.#noteTurn(line.workspaceId);
      head.begin();
    }
  }

  /** A workspace that holds all it may waits for itself alone and does not hold up the others. */
  #next(): Line | undefined {
    let best: Line | undefined;
    if (this.#waiting === 0) return best;
    for (const line of this.#lines.values()) {
      if (line.waiting.size === 0 || line.held + headOf(line).permits > this.mostEach) continue;
      if (!best || isBefore(line, best)) best = line;
    }
    return best;
  }

  /** The workspace whose turn it is, of some whose work waits elsewhere. */
  #first(workspaceIds: Iterable<string>): string | undefined {
    let best: { workspaceId: string; held: number; servedAt: number } | undefined;
    for (const workspaceId of workspaceIds) {
      const held = this.#lines.get(workspaceId)?.held ?? 0;
      const servedAt = this.#served.get(workspaceId) ?? 0;
      if (held >= this.mostEach) continue;
      if (!best || held < best.held || (held === best.held && servedAt < best.servedAt))
        best = { workspaceId, held, servedAt };
    }
    return best?.workspaceId;
  }

  #fits({ held }: Line, permits: number): boolean {
    return permits <= this.#free - (held > 0 ? this.#kept : 0);
  }

  /** The function may be called again without effect. */
  #releaseOf(line: Line, permits: number): Release {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      line.held -= permits;
      this.#free += permits;
      this.#endIfIdle(line);
      this.#advance();
    };
  }

  #lineOf(workspaceId: string): Line {
    const existing = this.#lines.get(workspaceId);
    if (existing) return existing;
    const line: Line = { workspaceId, waiting: new Set(), held: 0, servedAt: this.#served.get(workspaceId) ?? 0 };
    this.#lines.set(workspaceId, line);
    return line;
  }

  #endIfIdle({ workspaceId, held, waiting }: Line) {
    if (held === 0 && waiting.size === 0) this.#lines.delete(workspaceId);
  }

  #noteTurn(workspaceId: string): number {
    this.#served.delete(workspaceId);
    this.#served.set(workspaceId, ++this.#sequence);
    const [oldest] = this.#served.keys();
    if (this.#served.size > MOST_REMEMBERED && oldest !== undefined) this.#served.delete(oldest);
    return this.#sequence;
  }
}

function headOf({ waiting }: Line): Waiting {
  for (const first of waiting) return first;
  throw new Error("an empty line has no turn");
}

const isBefore = (a: Line, b: Line): boolean =>
  a.held - b.held < 0 || (a.held === b.held && (a.servedAt - b.servedAt || headOf(a).since - headOf(b).since) < 0);
