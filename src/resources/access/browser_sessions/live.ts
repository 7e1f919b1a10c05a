declare module "../../../context.ts" {
  interface State {
    readonly browserSessions: BrowserSessionsState;
  }
}

/** Times of last use by session id. Collected in memory, because a write on every request would be expensive. */
export class BrowserSessionsState {
  readonly #uses = new Map<string, number>();

  lastUse(id: string): number | undefined {
    return this.#uses.get(id);
  }

  use(id: string, at: number) {
    this.#uses.set(id, at);
  }

  /** Calls `record` with the collected uses, and forgets them if it does not throw. */
  flushUses(record: (uses: ReadonlyMap<string, number>) => void) {
    if (this.#uses.size === 0) return;
    record(this.#uses);
    this.#uses.clear();
  }
}
