/**
 * SQLite in WAL mode, one writer. Two promises are kept apart:
 * a `write()` that returned is committed (it survives `kill -9`); once `durable()` resolved it is on the disk
 * (it survives a power cut). Commits do not wait for the disk; the flush is shared by everyone who waits
 * for one, so the cost of an fsync is divided by the number of requests in flight.
 */
import { Database, SQLiteError, type SQLQueryBindings } from "bun:sqlite";
import { closeSync, fdatasync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { type BunSQLiteDatabase, drizzle } from "drizzle-orm/bun-sqlite";
import { AppError } from "../lib/errors.ts";
import { oncePer } from "../lib/once_per.ts";
import { failpoint } from "./failpoint.ts";

export type Db = BunSQLiteDatabase<Record<string, never>> & { $client: Database };

declare const inWrite: unique symbol;
/** The database inside `write()`. Only `write()` makes one, so `emit(db, …)` outside a commit does not compile. */
export type Tx = Db & { readonly [inWrite]: true };

export type DbOptions = { path: string; busyTimeoutMs?: number; checkpointPages?: number; cacheMib?: number };

type State = {
  path: string;
  depth: number;
  afterCommit: (() => void)[];
  committed: number;
  flushed: number;
  flushing: Promise<void> | undefined;
  walFd: number | undefined;
  broken: unknown;
  begin: Statement;
  beginRead: Statement;
  commit: Statement;
  reading: boolean;
};
type Statement = { run: (...bindings: SQLQueryBindings[]) => unknown };

const datasync = promisify(fdatasync); // on a thread of its own: the server goes on meanwhile
const states = new WeakMap<Db, State>();

export function openDb(options: DbOptions): Db {
  const sqlite = new Database(options.path, { create: true, strict: true });
  sqlite.run(`PRAGMA busy_timeout = ${options.busyTimeoutMs ?? 5000}`); // first: switching to WAL can itself meet a lock
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.run("PRAGMA synchronous = NORMAL"); // the flush is ours: see durable()
  sqlite.run("PRAGMA foreign_keys = ON");
  sqlite.run(`PRAGMA wal_autocheckpoint = ${options.checkpointPages ?? 1000}`);
  sqlite.run(`PRAGMA cache_size = ${-1024 * (options.cacheMib ?? 16)}`);
  const db = drizzle(sqlite) as Db; // drizzle sets $client; its type leaves it out of the alias
  states.set(db, {
    path: options.path,
    depth: 0,
    afterCommit: [],
    committed: 0,
    flushed: 0,
    flushing: undefined,
    walFd: undefined,
    broken: undefined,
    begin: sqlite.prepare("BEGIN IMMEDIATE"),
    beginRead: sqlite.prepare("BEGIN"),
    commit: sqlite.prepare("COMMIT"),
    reading: false,
  });
  return db;
}

const stateOf = (db: Db): State => {
  const state = states.get(db);
  if (!state) throw new Error("not a database opened by openDb()");
  return state;
};

type Sync<T> = [T] extends [never] ? [] : T extends PromiseLike<unknown> ? ["write() must not be async"] : [];

/**
 * The only way to write. `fn` must be synchronous: the commit happens when it returns, so an `await` inside
 * would run after it; the unused last parameter turns that into a type error. Inside another write() it is a
 * savepoint of the same commit.
 */
export function write<T>(db: Db, fn: (tx: Tx) => T, ..._sync: Sync<T>): T {
  const state = stateOf(db);
  if (state.broken) throw storageError(state.broken);
  if (state.depth > 0) return nested(db, state, fn);
  let value: T;
  endSnapshot(state);
  try {
    state.begin.run();
    state.depth = 1;
    value = fn(db as Tx); // the brand exists in types only
    failpoint("db.before_commit");
    state.commit.run();
  } catch (error) {
    state.afterCommit = [];
    if (db.$client.inTransaction) db.$client.run("ROLLBACK");
    throw storageError(error);
  } finally {
    state.depth = 0;
  }
  state.committed++;
  const callbacks = state.afterCommit;
  state.afterCommit = [];
  failpoint("db.after_commit");
  for (const callback of callbacks) callback();
  return value;
}

function nested<T>(db: Db, state: State, fn: (tx: Tx) => T): T {
  const name = `s${state.depth}`;
  const pending = state.afterCommit.length;
  db.$client.run(`SAVEPOINT ${name}`);
  state.depth++;
  try {
    const value = fn(db as Tx);
    db.$client.run(`RELEASE ${name}`);
    return value;
  } catch (error) {
    state.afterCommit.length = pending;
    // A full disk makes SQLite roll the whole transaction back by itself; then there is no savepoint left.
    if (db.$client.inTransaction) db.$client.run(`ROLLBACK TO ${name}; RELEASE ${name}`);
    throw error;
  } finally {
    state.depth--;
  }
}

/** Runs `fn` once the surrounding write() has committed, and never if it is rolled back. */
export function afterCommit(tx: Tx, fn: () => void) {
  stateOf(tx).afterCommit.push(fn);
}

/** Resolves when everything committed so far is on the disk. Waiters share one flush. */
export async function durable(db: Db): Promise<void> {
  const state = stateOf(db);
  const target = state.committed;
  while (state.flushed < target) {
    state.flushing ??= flush(state);
    await state.flushing;
  }
}

/**
 * The reads of one turn of the event loop share one snapshot. SQLite takes and drops a file lock for every read
 * outside a transaction, which costs more than reading a row; under load many requests arrive in one turn.
 */
export function shareSnapshot(db: Db) {
  const state = stateOf(db);
  if (state.reading || state.depth > 0) return;
  state.beginRead.run();
  state.reading = true;
  setImmediate(endSnapshot, state);
}

function endSnapshot(state: State) {
  if (!state.reading) return;
  state.reading = false;
  state.commit.run(); // it wrote nothing, so there is nothing that could fail to be written
}

/** How many commits this process has made: a cache made from the database is good while it stands still. */
export const commitsOf = (db: Db) => stateOf(db).committed;

/** Whether durable() would have to wait. */
export const isDirty = (db: Db) => {
  const state = stateOf(db);
  return state.flushed < state.committed;
};

/** Whether a flush has failed: from then on no write is accepted. */
export const isBroken = (db: Db) => stateOf(db).broken !== undefined;

async function flush(state: State): Promise<void> {
  const upTo = state.committed;
  try {
    failpoint("db.before_flush");
    state.walFd ??= openSync(`${state.path}-wal`, "r+"); // stays: SQLite keeps the file while a connection is open
    await datasync(state.walFd);
    failpoint("db.after_flush");
    state.flushed = upTo;
  } catch (error) {
    state.broken = error; // after a failed flush nobody knows what is on the disk: no write is accepted any more
    throw storageError(error);
  } finally {
    state.flushing = undefined;
  }
}

export function closeDb(db: Db) {
  const state = stateOf(db);
  endSnapshot(state);
  if (state.walFd !== undefined) closeSync(state.walFd);
  state.walFd = undefined;
  db.$client.close(); // checkpoints and removes the WAL when this was the last connection
  const directory = openSync(dirname(state.path), "r");
  fsyncSync(directory);
  closeSync(directory);
}

/** A statement prepared once per database: `const byId = prepared((db) => db.select()….prepare())`, then `byId(db)`. */
export const prepared: <S>(build: (db: Db) => S) => (db: Db) => S = oncePer;

export const isUniqueViolation = (error: unknown) =>
  error instanceof SQLiteError &&
  (error.code === "SQLITE_CONSTRAINT_UNIQUE" || error.code === "SQLITE_CONSTRAINT_PRIMARYKEY");

const STORAGE_TROUBLE: readonly [code: RegExp, message: string][] = [
  [/^SQLITE_FULL|ENOSPC/, "The disk of the data directory is full: free some space; nothing was changed"],
  [
    /^SQLITE_READONLY|EROFS|^SQLITE_CANTOPEN|EACCES/,
    "The data directory cannot be written: check its mount and permissions",
  ],
  [/^SQLITE_IOERR|EIO/, "The disk of the data directory reports errors: nothing was changed; check the disk"],
  [/^SQLITE_(BUSY|LOCKED)/, "Another process holds the database: try again"],
];

/** Trouble of the disk is neither the caller's fault nor a bug: it becomes a 503 that says what to do. */
export function storageError(error: unknown): unknown {
  const code = (error as { code?: unknown } | undefined)?.code;
  if (error instanceof AppError || typeof code !== "string") return error;
  const known = STORAGE_TROUBLE.find(([pattern]) => pattern.test(code));
  if (!known) return error;
  return new AppError("storage_unavailable", known[1], { cause: error, retryAfterSeconds: 5 });
}
