import { nextTurn, takingTurns } from "../../lib/turns.ts";
import { type Db, type Tx, write } from "./db.ts";

const FIRST_ROWS = 50;
const MOST_ROWS = 1_000;
const BITE_MS = 6; // that one commit should take
const GROWTH = 2; // a bite is at most so many times as large as the one before

/**
 * A removal of any size in small commits, so that requests get their turn in between. `bite` removes at most `rows`
 * rows and says how many they were. What a kill leaves is removed the next time. The cost of a row differs by table, so
 * the size of a bite follows the time that the last one took.
 */
export async function gradually(db: Db, bite: (tx: Tx, rows: number) => number): Promise<number> {
  await takingTurns()(); // small removals may follow each other
  for (let total = 0, rows = FIRST_ROWS; ; ) {
    const begun = performance.now();
    const removed = write(db, (tx) => bite(tx, rows));
    total += removed;
    if (removed < rows) return total;
    const fit = BITE_MS / Math.max(0.01, performance.now() - begun);
    rows = Math.max(1, Math.min(MOST_ROWS, Math.floor(rows * Math.min(GROWTH, fit))));
    await nextTurn();
  }
}
