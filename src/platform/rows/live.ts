/** A log of rows as it stood at a head: each row at the place where it was first appended, with its newest content. */
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
const KEPT_BLOCKS = 8;
const decoder = new TextDecoder();

/** The bytes of the live rows, one a line, in pieces of about a block. */
export function* liveBytes(file: RowsFile, head: number, fromRow = 1): Generator<{ bytes: Uint8Array; rows: number }> {
  const changed = file.hasChanges();
  const entries = createLookup(file);
  for (const block of file.blocks(fromRow, head)) {
    const last = Math.min(block.firstRow + block.rows - 1, head);
    const whole = block.firstRow >= fromRow && last === block.firstRow + block.rows - 1;
    const news = changed ? file.changesOf(block.firstRow, last, head) : NONE;
    const own = changed ? file.changesBy(block.firstRow, last) : NONE;
    if (whole && news.size === 0 && own.size === 0) {
      yield { bytes: block.body, rows: block.rows };
      continue;
    }
    const kept: Uint8Array[] = [];
    for (const { rowId, bytes } of linesOf(block)) {
      if (rowId > last) break;
      if (rowId < fromRow || own.has(rowId)) continue;
      const change = news.get(rowId);
      if (change?.op === "tombstone") continue;
      kept.push(change ? entries.bytes(change.rowId) : bytes);
    }
    if (kept.length > 0) yield { bytes: Buffer.concat(kept), rows: kept.length };
  }
}

const NONE: ReadonlyMap<number, Change> = new Map();

/** Up to `limit` live rows after the place of entry `after`, as of `head`. */
export function liveRows(file: RowsFile, after: number, limit: number, head: number): Entry[] {
  const root = file.changesBy(after, after).get(after)?.target ?? after;
  const entries = createLookup(file);
  const found: Entry[] = [];
  for (const block of file.blocks(root + 1, head)) {
    const last = Math.min(block.firstRow + block.rows - 1, head);
    const news = file.changesOf(block.firstRow, last, head);
    const own = file.changesBy(block.firstRow, last);
    for (const { rowId, bytes } of linesOf(block)) {
      if (rowId > last) break;
      if (rowId <= root || own.has(rowId)) continue;
      const change = news.get(rowId);
      if (change?.op === "tombstone") continue;
      found.push(change ? entries.entry(change) : plain(rowId, bytes, block));
      if (found.length === limit) return found;
    }
  }
  return found;
}

/** Up to `limit` entries of the log itself after `after`. */
export function logEntries(file: RowsFile, after: number, limit: number, head: number): Entry[] {
  const found: Entry[] = [];
  for (const block of file.blocks(after + 1, head)) {
    const own = file.changesBy(block.firstRow, block.firstRow + block.rows - 1);
    for (const { rowId, bytes } of linesOf(block)) {
      if (rowId <= after) continue;
      if (rowId > head) break;
      const change = own.get(rowId);
      found.push(
        change ? { ...plain(rowId, bytes, block), op: change.op, target: change.target } : plain(rowId, bytes, block),
      );
      if (found.length === limit) return found;
    }
  }
  return found;
}

const plain = (rowId: number, bytes: Uint8Array, { createdAt }: Block): Entry => ({
  rowId,
  op: "append",
  target: null,
  text: textOf(bytes),
  createdAt,
});

/** A line without its line feed; an empty one is a tombstone's. */
const textOf = (bytes: Uint8Array): string | null =>
  bytes.byteLength <= 1 ? null : decoder.decode(bytes.subarray(0, bytes.byteLength - 1));

function* linesOf({ firstRow, body }: Block): Generator<{ rowId: number; bytes: Uint8Array }> {
  for (let at = 0, rowId = firstRow; at < body.byteLength; rowId++) {
    const end = body.indexOf(LF, at) + 1;
    yield { rowId, bytes: body.subarray(at, end) };
    at = end;
  }
}

/** Single entries by id. Those that supersede often lie close together, so a few blocks are kept. */
function createLookup(file: RowsFile) {
  const kept = new Map<number, { block: Block; starts: number[] }>();
  function at(rowId: number): { bytes: Uint8Array; block: Block } {
    let found = [...kept.values()].find(({ block }) => rowId >= block.firstRow && rowId < block.firstRow + block.rows);
    if (!found) {
      const [block] = file.blocks(rowId, rowId);
      if (!block) throw new Error(`row ${rowId} is missing from ${file.path}`);
      found = { block, starts: startsOf(block.body) };
      kept.set(block.firstRow, found);
      if (kept.size > KEPT_BLOCKS) kept.delete(kept.keys().next().value as number);
    }
    const { block, starts } = found;
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

function startsOf(body: Uint8Array): number[] {
  const starts = [0];
  for (let at = body.indexOf(LF); at >= 0; at = body.indexOf(LF, at + 1)) starts.push(at + 1);
  return starts;
}
