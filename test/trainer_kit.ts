/** Files of rows for the trainer's tests. */
import { join } from "node:path";
import { formatOf, type Row } from "../src/lib/rows/format.ts";
import { openRows } from "../src/platform/rows/file.ts";
import type { TrainPlan } from "../src/workers/protocol_trainer.ts";

let made = 0;

export async function rowsFile(dir: string, rows: readonly Row[]): Promise<TrainPlan["rows"]> {
  const path = join(dir, `rows-${made++}.db`);
  const file = openRows(path, "build");
  const body = new TextEncoder().encode(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  file.transact(() => file.append(1, [body], [], 1));
  await file.flush();
  file.close();
  return { path, head_row: rows.length, format: formatOf(rows[0] as Row) };
}
