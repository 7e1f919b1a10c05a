import { type Db, durable, generationOf, isDirty } from "../../../../platform/db/db.ts";

/**
 * Nothing is sent that a power cut could take back. Results of attempts are exempt: a result that is lost costs one
 * repetition, so no attempt waits for the results of others.
 */
export class FlushGuard {
  #exempt = 0;
  #flushed = -1;

  /** Runs `fn`, whose writes are exempt. */
  exempt<T>(db: Db, fn: () => T): T {
    const before = generationOf(db);
    try {
      return fn();
    } finally {
      this.#exempt += generationOf(db) - before;
    }
  }

  /** Resolves once every write that is not exempt is on the disk. */
  async flush(db: Db): Promise<void> {
    const writes = generationOf(db) - this.#exempt;
    if (writes === this.#flushed) return;
    if (isDirty(db)) await durable(db);
    this.#flushed = writes;
  }
}
