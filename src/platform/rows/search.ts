/** Search of the live rows for a text. One call reads a bounded part of the file; the caller goes on where it ended. */
import { takingTurns } from "../../lib/turns.ts";
import { MIB } from "../../lib/units.ts";
import type { RowsFile } from "./file.ts";
import { createLookup, createPage, linesOf, type Page, plain } from "./live.ts";

/** Bytes that one call reads at most: a tenth of a second. */
const SCAN_BYTES = 64 * MIB;

/** `scannedTo`: the place of the last row that was compared. */
export type SearchPage = Page & { scannedTo: number };

type Search = { root: number; limit: number; head: number; text: string; ignoreCase: boolean };

/** Live rows after the place `root` whose JSON contains `text`. */
export async function searchRows(file: RowsFile, { root, limit, head, text, ignoreCase }: Search): Promise<SearchPage> {
  const contains = finder(text, ignoreCase);
  const mostBytes = ignoreCase ? SCAN_BYTES / 4 : SCAN_BYTES;
  const lookup = createLookup(file);
  const { entries, isFull, add } = createPage(limit);
  const turn = takingTurns();
  let scannedTo = root;
  let bytes = 0;
  for (const block of file.blocks(root + 1, head)) {
    await turn();
    if (bytes >= mostBytes) return { entries, hasMore: true, scannedTo };
    bytes += block.body.byteLength;
    const last = Math.min(block.firstRow + block.rows - 1, head);
    const news = file.changesOf(block.firstRow, last, head);
    if (news.size === 0 && !contains(block.body)) {
      scannedTo = last;
      continue;
    }
    const changeRows = file.changesBy(block.firstRow, last);
    for (const { rowId, bytes: line } of linesOf(block)) {
      if (rowId > last) break;
      if (rowId <= root || changeRows.has(rowId)) continue;
      const change = news.get(rowId);
      if (change?.op === "tombstone") continue;
      const content = change ? lookup.bytes(change.rowId) : line;
      if (!contains(content)) continue;
      if (isFull()) return { entries, hasMore: true, scannedTo: rowId - 1 };
      add(change ? lookup.entry(change) : plain(rowId, line, block));
    }
    scannedTo = last;
  }
  return { entries, hasMore: false, scannedTo };
}

/** The text as it stands in JSON. Text in lower case costs a copy, so bytes are compared where case counts. */
function finder(text: string, ignoreCase: boolean): (bytes: Uint8Array) => boolean {
  const written = JSON.stringify(text).slice(1, -1);
  const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!ignoreCase) {
    const needle = Buffer.from(written);
    return (bytes) => bufferOf(bytes).includes(needle);
  }
  const lower = written.toLowerCase();
  return (bytes) => bufferOf(bytes).toString("utf8").toLowerCase().includes(lower);
}
