/**
 * The rows of one dataset: a log in a SQLite file of its own. A block is what was appended together, cut at about a
 * quarter of a megabyte: its rows lie in it one a line, as they came, so that appending a thousand rows is one insert
 * and reading them in order is reading the file. `changes` says which entries speak of an earlier row.
 * Rows count up to the head that the caller names. An append is in this file before the main database has the head that
 * covers it. Rows that a crash left beyond the head are removed before the next append.
 */

import { Database, type Statement } from "bun:sqlite";
import { closeSync, existsSync, fdatasync, fstatSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { MIB } from "../../lib/units.ts";
import { storageError } from "../db/errors.ts";
import { failpoint } from "../failpoint.ts";
import { syncDir } from "../files.ts";

export const OPS = ["append", "supersede", "tombstone"] as const;
export type Op = (typeof OPS)[number];
/** Entry `rowId` says that `target` has other content, or is gone. */
export type Change = { rowId: number; target: number; op: Op };
export type Block = { firstRow: number; rows: number; createdAt: number; body: Uint8Array };

const PAGE_BYTES = 16_384;
const CHECKPOINT_BYTES = 16 * MIB; // of the write-ahead log
const BLOCK_BYTES = 1 << 18;
const BLOCK_ROWS = 4096; // tombstones are very short, and a block is read in one turn of the event loop
const CACHE_KIB = 4096;
const LF = 10;
const datasync = promisify(fdatasync);

const SCHEMA = `
CREATE TABLE IF NOT EXISTS blocks (
  first_row INTEGER PRIMARY KEY, rows INTEGER NOT NULL, created_at INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS changes (
  target INTEGER NOT NULL, row_id INTEGER NOT NULL, op INTEGER NOT NULL, PRIMARY KEY (target, row_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS changes_by_row ON changes (row_id);
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;`;

type RawBlock = { first_row: number; rows: number; created_at: number; body: Uint8Array };
type RawChange = { target: number; row_id: number; op: number };

export type RowsFile = ReturnType<typeof openRows>;
/**
 * `append`: a log that grows, crash-safe. `build`: a new file that gets its name only when it is whole, without a
 * journal. `read`: as it is.
 */
type Mode = "append" | "build" | "read";

export function openRows(path: string, mode: Mode) {
  const sqlite = open(path, mode);
  const walPath = `${path}-wal`;
  const ino = inodeOf(path);
  let walFd: number | undefined;
  let sinceCheckpoint = 0;
  let broken: unknown; // why nothing is taken any more
  const prepared: Statement[] = [];
  const lazy = (sql: string) => prepareOnce(sqlite, sql, prepared);
  const statements = {
    insert: lazy("INSERT INTO blocks VALUES (?, ?, ?, ?)"),
    change: lazy("INSERT INTO changes (target, row_id, op) VALUES (?, ?, ?)"),
    from: lazy("SELECT * FROM blocks WHERE first_row >= ? ORDER BY first_row LIMIT 1"),
    holding: lazy("SELECT * FROM blocks WHERE first_row <= ? ORDER BY first_row DESC LIMIT 1"),
    ofTargets: lazy("SELECT * FROM changes WHERE target BETWEEN ? AND ? AND row_id <= ? ORDER BY target, row_id"),
    countOfRows: lazy("SELECT count(*) AS n FROM changes WHERE row_id BETWEEN ? AND ?"),
    ofRows: lazy("SELECT * FROM changes WHERE row_id BETWEEN ? AND ?"),
    beyond: lazy("SELECT 1 FROM changes WHERE row_id > ? AND target <= ? LIMIT 1"),
    anyChange: lazy("SELECT 1 FROM changes LIMIT 1"),
  };

  /** Inside `transact`. Rows get the ids from `firstRow` on; returns the last one. */
  function append(firstRow: number, bodies: readonly Uint8Array[], changes: readonly Change[], now: number): number {
    let next = firstRow;
    for (const body of bodies)
      for (const { bytes, rows } of cut(body)) {
        statements.insert().run(next, rows, now, bytes);
        sinceCheckpoint += bytes.byteLength;
        next += rows;
      }
    for (const { target, rowId, op } of changes) statements.change().run(target, rowId, OPS.indexOf(op));
    return next - 1;
  }

  /** Whole or not at all. */
  function transact<T>(fn: () => T): T {
    try {
      if (broken) throw broken;
      sqlite.run("BEGIN IMMEDIATE");
      const value = fn();
      failpoint("rows.before_commit");
      sqlite.run("COMMIT");
      return value;
    } catch (error) {
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      throw storageError(error);
    }
  }

  /**
   * Resolves when the appended rows survive a power cut; nothing may be appended meanwhile. SQLite never flushes here,
   * because it would block this thread. The log is flushed on another thread. Once it has grown it is copied into the
   * file, which is flushed before the log is reused. After a failed flush the content of the disk is unknown, and later
   * entries of the log would be lost with it. So nothing is accepted until the file was opened again.
   */
  async function flush() {
    try {
      failpoint("rows.before_flush");
      await (mode === "build" ? flushPath(path) : flushLog());
    } catch (error) {
      broken = error;
      throw storageError(error);
    }
  }

  async function flushLog() {
    if (walFd === undefined && existsSync(walPath)) {
      walFd = openSync(walPath, "r+");
      await syncDir(dirname(path)); // the names of both
    }
    if (walFd !== undefined) await datasync(walFd);
    failpoint("rows.after_flush");
    if (sinceCheckpoint < CHECKPOINT_BYTES) return;
    try {
      sqlite.run("PRAGMA wal_checkpoint(PASSIVE)");
    } catch {
      return; // no room, perhaps: the log has it all, and the next flush tries again
    }
    sinceCheckpoint = 0;
    failpoint("rows.after_checkpoint");
    await flushPath(path);
  }

  /** Removes everything beyond `head`: a crash left it there, and it was never acknowledged. */
  function cutBeyond(head: number) {
    transact(() => {
      sqlite.run("DELETE FROM blocks WHERE first_row > ?", [head]);
      sqlite.run("DELETE FROM changes WHERE row_id > ?", [head]);
    });
  }

  const asBlock = (raw: RawBlock | null): Block | undefined =>
    raw ? { firstRow: raw.first_row, rows: raw.rows, createdAt: raw.created_at, body: raw.body } : undefined;
  const asChange = ({ target, row_id: rowId, op }: RawChange): Change => ({ target, rowId, op: OPS[op] ?? "append" });

  /** In order, one at a time in memory, from the block that holds `fromRow`; only up to `head`. */
  function* blocks(fromRow: number, head: number): Generator<Block> {
    let block = asBlock(statements.holding().get(fromRow) as RawBlock | null);
    if (block && block.firstRow + block.rows <= fromRow) block = undefined;
    let next = block?.firstRow ?? fromRow;
    while (next <= head) {
      block ??= asBlock(statements.from().get(next) as RawBlock | null);
      if (!block || block.firstRow > head) return;
      yield block;
      next = block.firstRow + block.rows;
      block = undefined;
    }
  }

  return {
    path,
    append,
    flush,
    cutBeyond,
    blocks,
    /** The newest word as of `head` on each of these rows that was changed. */
    changesOf(first: number, last: number, head: number): Map<number, Change> {
      const raw = statements.ofTargets().all(first, last, head) as RawChange[];
      return new Map(raw.map((each) => [each.target, asChange(each)])); // the last of each target stays
    },
    /** The entries between `first` and `last` that change another entry. */
    changesBy(first: number, last: number): Map<number, Change> {
      return new Map(
        (statements.ofRows().all(first, last) as RawChange[]).map((each) => [each.row_id, asChange(each)]),
      );
    },
    changeCount: (first: number, last: number) => (statements.countOfRows().get(first, last) as { n: number }).n,
    /** True if an entry after `head` changes a row up to `head`. */
    isChangedBeyond: (head: number) => statements.beyond().get(head, head) !== null,
    hasChanges: () => statements.anyChange().get() !== null,
    /** Small facts that travel with the rows: they are in the same commit as what was appended beside them. */
    note: (key: string, value: string) => void sqlite.run("INSERT OR REPLACE INTO notes VALUES (?, ?)", [key, value]),
    noted: (key: string) =>
      (sqlite.query("SELECT value FROM notes WHERE key = ?").get(key) as { value: string } | null)?.value,
    transact,
    /**
     * False after the file or its log was deleted or replaced on the disk. What is appended then is lost when the file is
     * closed.
     */
    isInPlace: () => inodeOf(path) === ino && (walFd === undefined || inodeOf(walPath) === fstatSync(walFd).ino),
    lastRow(): number {
      const last = asBlock(statements.holding().get(Number.MAX_SAFE_INTEGER) as RawBlock | null);
      return last ? last.firstRow + last.rows - 1 : 0;
    },
    close() {
      if (walFd !== undefined) closeSync(walFd);
      walFd = undefined;
      if (mode === "append") sqlite.run("PRAGMA synchronous = FULL"); // the last checkpoint is made by closing
      for (const statement of prepared) statement.finalize(); // or the file stays open until they are collected
      sqlite.close();
    },
  };
}

function open(path: string, mode: Mode): Database {
  try {
    const sqlite = new Database(path, mode === "read" ? { readonly: true } : { create: true });
    if (mode !== "read") sqlite.run(`PRAGMA page_size = ${PAGE_BYTES}`);
    sqlite.run("PRAGMA busy_timeout = 5000");
    sqlite.run(`PRAGMA cache_size = ${-CACHE_KIB}`);
    if (mode === "build") {
      sqlite.run("PRAGMA journal_mode = OFF"); // half of the file is never visible
      sqlite.run("PRAGMA synchronous = OFF");
    }
    if (mode === "append") {
      sqlite.run("PRAGMA journal_mode = WAL");
      sqlite.run("PRAGMA synchronous = OFF"); // see flush()
      sqlite.run("PRAGMA wal_autocheckpoint = 0");
    }
    if (mode !== "read") sqlite.run(SCHEMA);
    return sqlite;
  } catch (error) {
    throw storageError(error);
  }
}

const inodeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.ino;

async function flushPath(path: string) {
  const fd = openSync(path, "r+");
  await datasync(fd).finally(() => closeSync(fd));
}

function prepareOnce(sqlite: Database, sql: string, prepared: Statement[]): () => Statement {
  let one: Statement | undefined;
  return () => {
    if (one) return one;
    one = sqlite.prepare(sql);
    prepared.push(one);
    return one;
  };
}

/** Pieces of about BLOCK_BYTES and at most BLOCK_ROWS that end where a row ends; a longer row has one of its own. */
function* cut(body: Uint8Array): Generator<{ bytes: Uint8Array; rows: number }> {
  for (let from = 0; from < body.byteLength; ) {
    const tooFar = from + BLOCK_BYTES;
    let end = tooFar >= body.byteLength ? body.byteLength : body.lastIndexOf(LF, tooFar - 1) + 1;
    if (end <= from) end = body.indexOf(LF, from) + 1;
    let rows = 0;
    let next = from;
    for (; next < end && rows < BLOCK_ROWS; rows++) next = body.indexOf(LF, next) + 1;
    yield { bytes: body.subarray(from, next), rows };
    from = next;
  }
}
