/**
 * SQLite in WAL mode, one writer, group commit.
 *
 * `write()` adds a change to the open commit: visible at once in this process, all of it or nothing of it. The commit
 * closes at the end of the turn of the event loop, so requests that arrive together share it. All that wait for the
 * disk share one flush. A change is safe from `kill -9` and from a power cut only when `durable()` has resolved. Hence
 * the rule: code that reaches the outside (an HTTP answer, a webhook, a spawned process, the end of a tick) waits for
 * it first.
 */
import { Database } from "bun:sqlite";
import { closeSync, fdatasync, fdatasyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { type BunSQLiteDatabase, drizzle } from "drizzle-orm/bun-sqlite";
import { failpoint } from "../failpoint.ts";
import { syncDirSync } from "../files.ts";
import type { Series } from "../metrics.ts";
import { storageError } from "./errors.ts";
import { endSnapshot } from "./snapshot.ts";
import { noteTrouble } from "./trouble.ts";

/** A database with what this process keeps of it: the state of commits, counters, and listeners to events. */
export type Db = BunSQLiteDatabase<Record<string, never>> & {
  $client: Database;
  readonly $commits: Commits;
  /** Family → series of its counters (see metrics.ts). */
  readonly $series: Map<string, Map<string, Series>>;
  /** Called after each commit that recorded an event (see events/emit.ts). */
  readonly $listeners: Set<() => void>;
  /** Function that builds a statement → the statement (see `prepared`). */
  readonly $prepared: Map<unknown, unknown>;
};

declare const inWrite: unique symbol;
/** The database inside `write()`. Only `write()` makes one, so `emit(db, …)` outside a commit does not compile. */
export type Tx = Db & { readonly [inWrite]: true };

export type DbOptions = { path: string; busyTimeoutMs?: number; checkpointPages?: number; cacheMib?: number };

type Statement = { run: () => unknown };
type Batch = PromiseWithResolvers<void> & {
  isEmpty: boolean; // nothing that would have to stay was written
  beforeCommit: ((tx: Tx) => void)[];
  afterCommit: (() => void)[];
};

export type Commits = {
  readonly path: string;
  readonly statements: Record<"begin" | "beginRead" | "commit", Statement>;
  readonly savepoints: { set: Statement; release: Statement }[]; // by depth
  batch: Batch | undefined;
  depth: number; //     of write() inside write()
  generation: number;
  reading: boolean; //  a shared snapshot is open
  ended: number; //     commits that were closed, well or badly
  lost: number; //      those that were rolled back
  lastLoss: unknown;
  flushed: number; //   `ended` as of the last flush
  flushing: Promise<void> | undefined;
  walFd: number | undefined;
  broken: unknown; //   why no write is accepted any more
  failing: unknown; //  why the last commit was lost to the disk; undefined: the last one went well
  damaged: unknown; //  the error that said that the file is damaged; stays until a restart
};

const datasync = promisify(fdatasync); // on a thread of its own: the server goes on meanwhile

export function openDb(options: DbOptions): Db {
  const sqlite = new Database(options.path, { create: true, strict: true });
  sqlite.run(`PRAGMA busy_timeout = ${options.busyTimeoutMs ?? 5000}`); // first: switching to WAL can itself meet a lock
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.run("PRAGMA synchronous = NORMAL"); // the flush is ours: see durable()
  sqlite.run("PRAGMA foreign_keys = ON");
  sqlite.run("PRAGMA temp_store = MEMORY"); // savepoints keep their journal there
  sqlite.run(`PRAGMA wal_autocheckpoint = ${options.checkpointPages ?? 1000}`);
  sqlite.run(`PRAGMA cache_size = ${-1024 * (options.cacheMib ?? 16)}`);
  const $commits: Commits = {
    path: options.path,
    statements: {
      begin: sqlite.prepare("BEGIN IMMEDIATE"),
      beginRead: sqlite.prepare("BEGIN"),
      commit: sqlite.prepare("COMMIT"),
    },
    savepoints: [],
    batch: undefined,
    depth: 0,
    generation: 0,
    reading: false,
    ended: 0,
    lost: 0,
    lastLoss: undefined,
    flushed: 0,
    flushing: undefined,
    walFd: undefined,
    broken: undefined,
    failing: undefined,
    damaged: undefined,
  };
  const live = { $commits, $series: new Map(), $listeners: new Set<() => void>(), $prepared: new Map() };
  return Object.assign(drizzle(sqlite), live);
}

type Sync<T> = [T] extends [never] ? [] : T extends PromiseLike<unknown> ? ["write() must not be async"] : [];

/**
 * The only way to write. `fn` must be synchronous: its changes after an `await` would fall into another commit. The
 * unused last parameter makes that a type error. When it throws, its own changes are undone and those of its neighbours
 * in the same commit stay.
 */
export function write<T>(db: Db, fn: (tx: Tx) => T, ..._sync: Sync<T>): T {
  const state = db.$commits;
  if (state.broken) throw storageError(state.broken);
  state.generation++;
  try {
    const batch = state.batch ?? openBatch(db, state);
    return batch.isEmpty && state.depth === 0 ? firstWrite(db, state, batch, fn) : savepoint(db, state, batch, fn);
  } catch (error) {
    noteTrouble(db, error);
    throw storageError(error);
  }
}

function openBatch(db: Db, state: Commits): Batch {
  endSnapshot(state);
  state.statements.begin.run();
  const batch: Batch = { ...Promise.withResolvers<void>(), isEmpty: true, beforeCommit: [], afterCommit: [] };
  batch.promise.catch(() => {}); // callers that must know wait for it
  state.batch = batch;
  setImmediate(closeBatch, db, state, batch);
  return batch;
}

/**
 * Without neighbours the whole commit can be undone, so no savepoint is needed: inside one, SQLite copies each page
 * before it changes.
 */
function firstWrite<T>(db: Db, state: Commits, batch: Batch, fn: (tx: Tx) => T): T {
  state.depth++;
  try {
    const value = fn(db as Tx); // the brand exists in types only
    batch.isEmpty = false;
    return value;
  } catch (error) {
    batch.afterCommit.length = 0;
    state.generation++; // a cache that was made inside holds what is undone here
    if (db.$client.inTransaction) beginAgain(db, state, batch);
    else lose(state, batch, error);
    throw error;
  } finally {
    state.depth--;
  }
}

function beginAgain(db: Db, state: Commits, batch: Batch) {
  try {
    db.$client.run("ROLLBACK");
    state.statements.begin.run();
  } catch (error) {
    lose(state, batch, error); // another process may write at this moment
  }
}

function savepoint<T>(db: Db, state: Commits, batch: Batch, fn: (tx: Tx) => T): T {
  const sqlite = db.$client;
  const name = `s${state.depth}`;
  state.savepoints[state.depth] ??= {
    set: sqlite.prepare(`SAVEPOINT ${name}`),
    release: sqlite.prepare(`RELEASE ${name}`),
  };
  const { set, release } = state.savepoints[state.depth] as Commits["savepoints"][number];
  const pending = batch.afterCommit.length;
  set.run();
  state.depth++;
  try {
    const value = fn(db as Tx);
    release.run();
    return value;
  } catch (error) {
    batch.afterCommit.length = pending;
    state.generation++; // a cache that was made inside holds what is undone here
    // On a full or failing disk SQLite rolls the whole transaction back by itself, the neighbours' changes too.
    if (sqlite.inTransaction) sqlite.run(`ROLLBACK TO ${name}; RELEASE ${name}`);
    else lose(state, batch, error);
    throw error;
  } finally {
    state.depth--;
  }
}

function closeBatch(db: Db, state: Commits, batch: Batch) {
  if (state.batch !== batch) return;
  try {
    if (batch.beforeCommit.length > 0) batch.isEmpty = false;
    for (const add of batch.beforeCommit) add(db as Tx);
    failpoint("db.before_commit");
    state.statements.commit.run();
    failpoint("db.after_commit");
  } catch (error) {
    if (db.$client.inTransaction) db.$client.run("ROLLBACK");
    noteTrouble(db, error);
    return lose(state, batch, error);
  }
  state.batch = undefined;
  state.ended++;
  state.failing = undefined;
  batch.resolve();
  for (const callback of batch.afterCommit) callback();
}

function lose(state: Commits, batch: Batch, error: unknown) {
  state.batch = undefined;
  state.ended++;
  state.lost++;
  state.generation++;
  state.lastLoss = error;
  batch.reject(storageError(error));
}

/**
 * Adds to the open commit as its last part, or opens one: for a row that accompanies any change. It has no savepoint of
 * its own, so `fn` must not throw: the whole commit would be lost.
 */
export function joinCommit(db: Db, fn: (tx: Tx) => void) {
  const state = db.$commits;
  if (state.broken) throw storageError(state.broken);
  (state.batch ?? openBatch(db, state)).beforeCommit.push(fn);
}

/** Runs `fn` once the surrounding write() has committed, and never if it is rolled back. */
export function afterCommit(tx: Tx, fn: () => void) {
  tx.$commits.batch?.afterCommit.push(fn);
}

/** Resolves when everything written so far is on the disk; rejects when the open commit is lost. */
export async function durable(db: Db): Promise<void> {
  const state = db.$commits;
  await state.batch?.promise;
  const target = state.ended;
  while (state.flushed < target) {
    state.flushing ??= flush(state);
    await state.flushing;
  }
}

/**
 * For work that writes now and then and answers at the end: begin to watch, work, then await the returned function. It
 * rejects when a commit was lost in between, also one that closed long before.
 */
export function watchWrites(db: Db): () => Promise<void> {
  const state = db.$commits;
  const { lost } = state;
  return async () => {
    if (isDirty(db)) await durable(db);
    if (state.lost !== lost) throw storageError(state.lastLoss);
  };
}

/** The open commit, if any. A read now sees its changes, which may yet be lost. */
export const openCommit = (db: Db): Promise<void> | undefined => db.$commits.batch?.promise;

/** True while something written is not on the disk yet. */
export const isDirty = (db: Db) => {
  const state = db.$commits;
  return state.batch !== undefined || state.flushed < state.ended;
};

/** Grows with every write of this process: a cache made from the database is valid while it does not change. */
export const generationOf = (db: Db) => db.$commits.generation;

const CLOSED = new Error("the database is closed");
export const isClosed = (db: Db) => db.$commits.broken === CLOSED;

/** True once a flush has failed: from then on no write is accepted. */
export const isBroken = (db: Db) => db.$commits.broken !== undefined;

async function flush(state: Commits): Promise<void> {
  const upTo = state.ended;
  try {
    failpoint("db.before_flush");
    state.walFd ??= openSync(`${state.path}-wal`, "r+"); // stays: SQLite keeps the file while a connection is open
    await datasync(state.walFd);
    failpoint("db.after_flush");
    state.flushed = upTo;
  } catch (error) {
    if (state.flushed >= upTo) return; // closeDb() has flushed and closed the file meanwhile
    state.broken = error; // after a failed flush the content of the disk is unknown
    throw storageError(error);
  } finally {
    state.flushing = undefined;
  }
}

function flushNow(state: Commits) {
  try {
    state.walFd ??= openSync(`${state.path}-wal`, "r+");
    fdatasyncSync(state.walFd);
    state.flushed = state.ended;
  } catch (error) {
    state.broken = error;
  }
}

export function closeDb(db: Db) {
  const state = db.$commits;
  endSnapshot(state);
  if (state.batch) closeBatch(db, state, state.batch);
  if (state.broken === undefined && state.flushed < state.ended) flushNow(state); // callers of durable() still get their answer
  if (state.walFd !== undefined) closeSync(state.walFd);
  state.walFd = undefined;
  state.broken ??= CLOSED; // statements that are kept would still run, into nothing
  db.$client.close(); // checkpoints and removes the WAL when this was the last connection
  syncDirSync(dirname(state.path));
}

/** A statement prepared once per database: `const byId = prepared((db) => db.select()….prepare())`, then `byId(db)`. */
export const prepared =
  <S>(build: (db: Db) => S) =>
  (db: Db): S => {
    let statement = db.$prepared.get(build) as S | undefined;
    if (statement === undefined) {
      statement = build(db);
      db.$prepared.set(build, statement);
    }
    return statement;
  };
