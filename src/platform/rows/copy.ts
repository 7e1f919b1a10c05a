import { takingTurns } from "../../lib/turns.ts";
import type { Meter } from "../files.ts";
import { openRows } from "./file.ts";

/** Copies the rows up to `head` into one new file without a side file. Others have their turn between two blocks. */
export async function copyRows(from: string, to: string, head: number, meter: Meter): Promise<void> {
  const source = openRows(from, "read");
  try {
    const copy = openRows(to, "build");
    try {
      const turn = takingTurns();
      for (const { firstRow, rows, createdAt, body } of source.blocks(1, head)) {
        const changes = [...source.changesBy(firstRow, firstRow + rows - 1).values()];
        meter.take(body.byteLength);
        copy.transact(() => copy.append(firstRow, [body], changes, createdAt));
        await turn();
      }
    } finally {
      copy.close();
    }
  } finally {
    source.close();
  }
}
