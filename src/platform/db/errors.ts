import { SQLiteError } from "bun:sqlite";
import { AppError } from "../../lib/errors.ts";

const isUniqueViolation = (error: unknown) =>
  error instanceof SQLiteError &&
  (error.code === "SQLITE_CONSTRAINT_UNIQUE" || error.code === "SQLITE_CONSTRAINT_PRIMARYKEY");

/** Runs a write that gives something a name. If the name exists, it throws `name_taken` with `message`. */
export function withUniqueName<T>(message: string, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    throw new AppError("name_taken", message, { param: "/name", cause: error });
  }
}

/** A row that was to be deleted is still referred to. */
export const isForeignKeyViolation = (error: unknown): boolean => codeOf(error) === "SQLITE_CONSTRAINT_FOREIGNKEY";

const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/;
const FULL = /^SQLITE_FULL|ENOSPC|EDQUOT/;

const STORAGE_TROUBLE: readonly [code: RegExp, message: string][] = [
  [DAMAGED, "The database is damaged: run `verk doctor`, then restore a backup with `verk backup restore`"],
  [FULL, "The disk of the data directory is full: free some space; nothing was changed"],
  [
    /^SQLITE_READONLY|EROFS|^SQLITE_CANTOPEN|EACCES/,
    "The data directory cannot be written: check its mount and permissions",
  ],
  [/^SQLITE_IOERR|EIO/, "The disk of the data directory reports errors: nothing was changed; check the disk"],
  [/^SQLITE_(BUSY|LOCKED)/, "Another process holds the database: try again"],
];

/** The code of an error or of its cause: the query builder wraps errors of SQLite. */
export function codeOf(error: unknown): string {
  for (let each = error as { code?: unknown; cause?: unknown } | undefined, i = 0; each && i < 5; i++) {
    if (typeof each.code === "string" && !(each instanceof AppError)) return each.code;
    each = each.cause as typeof each;
  }
  return "";
}

export const isDamage = (error: unknown): boolean => DAMAGED.test(codeOf(error));
export const isFull = (error: unknown): boolean => FULL.test(codeOf(error));
/** The disk refused a write: it is full, read-only or failing. */
export const isDiskTrouble = (error: unknown): boolean =>
  /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN)|ENOSPC|EDQUOT|EROFS|EIO/.test(codeOf(error));
/** True for an error that SQLite reported, also for a read. */
export const isOfSqlite = (error: unknown): boolean => codeOf(error).startsWith("SQLITE_");

/** Trouble with the disk is neither the caller's fault nor a bug: it becomes a 503 that says what to do. */
export function storageError(error: unknown): unknown {
  if (error instanceof AppError) return error;
  const code = codeOf(error);
  const trouble = STORAGE_TROUBLE.find(([pattern]) => pattern.test(code));
  if (!trouble) return error;
  return new AppError("storage_unavailable", trouble[1], { cause: error, retryAfterSeconds: 5 });
}
