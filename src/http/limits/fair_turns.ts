/**
 * Shares the one thread that answers requests between workspaces. While it has little to do, requests go on at once. When
 * a turn of the event loop has been long, further ones wait in a line for each workspace, and the next to go on belongs
 * to the workspace that has used the least time lately. So nobody waits behind the many requests of another workspace,
 * and what one of them takes is paid by its own.
 */
const TURN_MS = 4; // that requests keep one turn of the event loop, before others wait
const HALF_MS = 1_000; // after which time that was used counts half
const FORGOTTEN_MS = 0.05; // of use
const GUESS_MS = 1; // what a request takes whose workspace is new

type Line = { waiting: (() => void)[]; usedMs: number; eachMs: number };

export class FairTurns {
  readonly #lines = new Map<string, Line>();
  readonly #now: () => number;
  readonly #later: (run: () => void) => void;
  #waiting = 0;
  #turnAt: number | undefined;
  #spender: Line | undefined;
  #spentFrom = 0;
  #halvedAt = 0;

  constructor({ now = () => performance.now(), later = setImmediate as (run: () => void) => void } = {}) {
    this.#now = now;
    this.#later = later;
  }

  /** True if a request would have to wait. */
  get isBusy(): boolean {
    return this.#waiting > 0 || (this.#turnAt !== undefined && this.#now() - this.#turnAt >= TURN_MS);
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Workspaces whose use is remembered. */
  get known(): number {
    return this.#lines.size;
  }

  /** From here on the workspace uses the thread, until another one does or the turn ends. */
  spend(workspaceId: string) {
    const now = this.#now();
    this.#charge(now);
    this.#begin(now);
    const line = this.#lineOf(workspaceId);
    line.eachMs *= 0.9;
    this.#spender = line;
    this.#spentFrom = now;
  }

  /** To await before work of a workspace that may take long. Undefined: it goes on at once. */
  enter(workspaceId: string): Promise<void> | undefined {
    if (!this.isBusy) {
      this.spend(workspaceId);
      return undefined;
    }
    const line = this.#lineOf(workspaceId);
    this.#waiting++;
    this.#begin(this.#now());
    return new Promise<void>((resolve) => line.waiting.push(resolve)).then(() => this.spend(workspaceId));
  }

  #lineOf(workspaceId: string): Line {
    const known = this.#lines.get(workspaceId);
    if (known) return known;
    const line: Line = { waiting: [], usedMs: 0, eachMs: GUESS_MS };
    this.#lines.set(workspaceId, line);
    return line;
  }

  #charge(now: number) {
    if (!this.#spender) return;
    const ms = now - this.#spentFrom;
    this.#spender.usedMs += ms;
    this.#spender.eachMs += 0.1 * ms;
    this.#spender = undefined;
  }

  #begin(now: number) {
    if (this.#turnAt !== undefined) return;
    this.#turnAt = now;
    this.#later(() => this.#end());
  }

  #end() {
    const now = this.#now();
    this.#charge(now);
    this.#turnAt = undefined;
    this.#halve(now);
    if (this.#waiting === 0) return;
    this.#begin(now);
    for (let leftMs = TURN_MS; leftMs > 0 && this.#waiting > 0; ) {
      const line = this.#next();
      leftMs -= Math.max(0.01, line.eachMs);
      line.usedMs += 0.001; // equals take turns
      this.#waiting--;
      line.waiting.shift()?.();
    }
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
