import { nextTurn } from "../../lib/turns.ts";
import { type Db, type Tx, write } from "./db.ts";

const BITE_ROWS = 1_000; // a few milliseconds

/**
 * A removal of any size in small commits, so that requests get their turn in between. `bite` removes at most `rows`
 * rows and says how many they were. What a kill leaves is removed the next time.
 */
export async function gradually(db: Db, bite: (tx: Tx, rows: number) => number): Promise<number> {
  for (let total = 0; ; ) {
    const removed = write(db, (tx) => bite(tx, BITE_ROWS));
    total += removed;
    if (removed < BITE_ROWS) return total;
    await nextTurn();
  }
}
