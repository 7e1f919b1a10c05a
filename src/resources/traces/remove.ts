import { sql } from "drizzle-orm";
import type { Tx } from "../../platform/db/db.ts";
import { traces } from "./table.ts";
import { removeText } from "./text.ts";

/** Removes traces with their text; the database removes their scores. Returns how many they were. */
export function removeRows(tx: Tx, rows: readonly { seq: number }[]): number {
  const seqs = rows.map(({ seq }) => seq);
  for (const seq of seqs) removeText(tx, seq);
  if (seqs.length > 0)
    tx.delete(traces)
      .where(sql`${traces.seq} IN (SELECT value FROM json_each(${JSON.stringify(seqs)}))`)
      .run();
  return seqs.length;
}
