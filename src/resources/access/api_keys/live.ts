import type { KeyOwner } from "./authenticate.ts";

declare module "../../../context.ts" {
  interface State {
    readonly apiKeys: ApiKeysState;
  }
}

/** The owner that a key had at `at`, when the database was at `generation`. */
type CachedKey = { owner: KeyOwner; generation: number; at: number };

/**
 * A key that was accepted is accepted again without a query, as long as this process has written nothing since and a
 * second has not passed. So a key revoked here stops at its next request. A key revoked by another process (the
 * command line) stops within a second.
 */
const TRUST_MS = 1_000;
const MOST_CACHED = 10_000;

export class ApiKeysState {
  /** By the hash of the key. */
  readonly #cache = new Map<string, CachedKey>();
  /** Last use by key id, to the second. Collected in memory, because a write on every request would be expensive. */
  readonly #uses = new Map<string, number>();

  cached(hash: string, generation: number, now: number): KeyOwner | undefined {
    const last = this.#cache.get(hash);
    return last && last.generation === generation && Math.abs(now - last.at) < TRUST_MS ? last.owner : undefined;
  }

  cache(hash: string, entry: CachedKey) {
    if (this.#cache.size >= MOST_CACHED) this.#cache.clear();
    this.#cache.set(hash, entry);
  }

  use(keyId: string, at: number) {
    this.#uses.set(keyId, at);
  }

  /** Calls `record` with the collected uses, and forgets them if it does not throw. */
  flushUses(record: (uses: ReadonlyMap<string, number>) => void) {
    if (this.#uses.size === 0) return;
    record(this.#uses);
    this.#uses.clear();
  }
}
