/** A log of rows as it stood at a head: each row at the place where it was first appended, with its newest content. */

import { takingTurns } from "../../lib/turns.ts";
import { MIB } from "../../lib/units.ts";
import type { Block, Change, Op, RowsFile } from "./file.ts";

export type Entry = {
  rowId: number;
  op: Op;
  /** The row that this entry speaks of. */
  target: number | null;
  /** Null: the row is gone. */
  text: string | null;
  createdAt: number;
};

const LF = 10;
const KEPT_BYTES = 16 * MIB;
const LOOKUPS = 64; // of entries elsewhere in the log, for one piece
const PAGE_BYTES = 16 * MIB;
const decoder = new TextDecoder();

export type Page = { entries: Entry[]; hasMore: boolean };

/** The bytes of the live rows, one a line, in pieces of a block or less; an empty one is a place to take turns, too. */
export function* liveBytes(file: RowsFile, head: number, fromRow = 1): Generator<{ bytes: Uint8Array; rows: number }> {
  const changed = file.hasChanges();
  const entries = createLookup(file);
  for (const block of file.blocks(fromRow, head)) {
    const last = Math.min(block.firstRow + block.rows - 1, head);
    const whole = block.firstRow >= fromRow && last === block.firstRow + block.rows - 1;
    const news = changed ? file.changesOf(block.firstRow, last, head) : NONE;
    const changeRows = changed ? file.changesBy(block.firstRow, last) : NONE;
    if (whole && news.size === 0 && changeRows.size === 0) {
      yield { bytes: block.body, rows: block.rows };
      continue;
    }
    let kept: Uint8Array[] = [];
    let lookups = 0;
    for (const { rowId, bytes } of linesOf(block)) {
      if (rowId > last) break;
      if (rowId < fromRow || changeRows.has(rowId)) continue;
      const change = news.get(rowId);
      if (change?.op === "tombstone") continue;
      kept.push(change ? entries.bytes(change.rowId) : bytes);
      if (!change || ++lookups < LOOKUPS) continue;
      yield { bytes: Buffer.concat(kept), rows: kept.length };
      kept = [];
      lookups = 0;
    }
    yield { bytes: Buffer.concat(kept), rows: kept.length };
  }
}

const NONE: ReadonlyMap<number, Change> = new Map();

/** The place of an entry: that of the row which it changes, or its own. */
export const placeOf = (file: RowsFile, rowId: number): number =>
  file.changesBy(rowId, rowId).get(rowId)?.target ?? rowId;

/** Up to `limit` live rows after the place of entry `after`, as of `head`. */
export const liveRows = (file: RowsFile, after: number, limit: number, head: number): Promise<Page> =>
  liveRowsAfter(file, placeOf(file, after), limit, head);

/**
 * Up to `limit` live rows after the place `root`, as of `head`; fewer where they are large. Rows that are gone may have
 * to be passed by the million, so others have their turn meanwhile.
 */
export async function liveRowsAfter(file: RowsFile, root: number, limit: number, head: number): Promise<Page> {
  const lookup = createLookup(file);
  const { entries, isFull, add } = createPage(limit);
  const turn = takingTurns();
  for (const block of file.blocks(root + 1, head)) {
    await turn();
    const last = Math.min(block.firstRow + block.rows - 1, head);
    const news = file.changesOf(block.firstRow, last, head);
    const changeRows = file.changesBy(block.firstRow, last);
    for (const { rowId, bytes } of linesOf(block)) {
      if (rowId > last) break;
      if (rowId <= root || changeRows.has(rowId)) continue;
      const change = news.get(rowId);
      if (change?.op === "tombstone") continue;
      if (isFull()) return { entries, hasMore: true };
      add(change ? lookup.entry(change) : plain(rowId, bytes, block));
    }
  }
  return { entries, hasMore: false };
}

/** Up to `limit` entries of the log itself after `after`; fewer where they are large. */
export function logEntries(file: RowsFile, after: number, limit: number, head: number): Page {
  const { entries, isFull, add } = createPage(limit);
  for (const block of file.blocks(after + 1, head)) {
    const changes = file.changesBy(block.firstRow, block.firstRow + block.rows - 1);
    for (const { rowId, bytes } of linesOf(block)) {
      if (rowId <= after) continue;
      if (rowId > head) break;
      if (isFull()) return { entries, hasMore: true };
      const change = changes.get(rowId);
      const entry = plain(rowId, bytes, block);
      add(change ? { ...entry, op: change.op, target: change.target } : entry);
    }
  }
  return { entries, hasMore: false };
}

export function createPage(limit: number) {
  const entries: Entry[] = [];
  let size = 0;
  return {
    entries,
    isFull: () => entries.length >= limit || size >= PAGE_BYTES,
    add(entry: Entry) {
      entries.push(entry);
      size += entry.text?.length ?? 0;
    },
  };
}

export const plain = (rowId: number, bytes: Uint8Array, { createdAt }: Block): Entry => ({
  rowId,
  op: "append",
  target: null,
  text: textOf(bytes),
  createdAt,
});

/** A line without its line feed; an empty one is a tombstone's. */
const textOf = (bytes: Uint8Array): string | null =>
  bytes.byteLength <= 1 ? null : decoder.decode(bytes.subarray(0, bytes.byteLength - 1));

export function* linesOf({ firstRow, body }: Block): Generator<{ rowId: number; bytes: Uint8Array }> {
  for (let at = 0, rowId = firstRow; at < body.byteLength; rowId++) {
    const end = body.indexOf(LF, at) + 1;
    yield { rowId, bytes: body.subarray(at, end) };
    at = end;
  }
}

/** Single entries by id. Those that supersede often lie close together, so some blocks are kept. */
export function createLookup(file: RowsFile) {
  const kept = new Map<number, { block: Block; starts: number[] }>();
  let keptBytes = 0;
  function at(rowId: number): { bytes: Uint8Array; block: Block } {
    let entry = among(kept.values(), rowId);
    if (!entry) {
      const [block] = file.blocks(rowId, rowId);
      if (!block) throw new Error(`row ${rowId} is missing from ${file.path}`);
      entry = { block, starts: startsOf(block.body) };
      for (const [firstRow, { block: old }] of kept) {
        if (keptBytes + block.body.byteLength <= KEPT_BYTES) break;
        kept.delete(firstRow);
        keptBytes -= old.body.byteLength;
      }
      kept.set(block.firstRow, entry);
      keptBytes += block.body.byteLength;
    }
    const { block, starts } = entry;
    const i = rowId - block.firstRow;
    return { bytes: block.body.subarray(starts[i], starts[i + 1]), block };
  }
  return {
    bytes: (rowId: number) => at(rowId).bytes,
    entry({ rowId, op, target }: Change): Entry {
      const { bytes, block } = at(rowId);
      return { rowId, op, target, text: textOf(bytes), createdAt: block.createdAt };
    },
  };
}

function among<T extends { block: Block }>(kept: Iterable<T>, rowId: number): T | undefined {
  for (const each of kept)
    if (rowId >= each.block.firstRow && rowId < each.block.firstRow + each.block.rows) return each;
  return undefined;
}

function startsOf(body: Uint8Array): number[] {
  const starts = [0];
  for (let at = body.indexOf(LF); at >= 0; at = body.indexOf(LF, at + 1)) starts.push(at + 1);
  return starts;
}
