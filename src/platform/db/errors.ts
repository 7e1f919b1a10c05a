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

const STORAGE_TROUBLE: readonly [code: RegExp, message: string][] = [
  [/^SQLITE_FULL|ENOSPC/, "The disk of the data directory is full: free some space; nothing was changed"],
  [
    /^SQLITE_READONLY|EROFS|^SQLITE_CANTOPEN|EACCES/,
    "The data directory cannot be written: check its mount and permissions",
  ],
  [/^SQLITE_IOERR|EIO/, "The disk of the data directory reports errors: nothing was changed; check the disk"],
  [/^SQLITE_(BUSY|LOCKED)/, "Another process holds the database: try again"],
];

/** Trouble with the disk is neither the caller's fault nor a bug: it becomes a 503 that says what to do. */
export function storageError(error: unknown): unknown {
  const code = (error as { code?: unknown } | undefined)?.code;
  if (error instanceof AppError || typeof code !== "string") return error;
  const known = STORAGE_TROUBLE.find(([pattern]) => pattern.test(code));
  if (!known) return error;
  return new AppError("storage_unavailable", known[1], { cause: error, retryAfterSeconds: 5 });
}
