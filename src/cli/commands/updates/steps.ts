/** The steps that `verk upgrade` and `verk rollback` share. */
import { existsSync, realpathSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import { VERSION } from "../../../lib/version.ts";
import { acquireDataLock } from "../../../platform/db/data_lock.ts";
import { databaseVersion, restoreDatabase } from "../../../platform/updates/database.ts";
import { type Journal, removeJournal, swapBack } from "../../../platform/updates/program.ts";
import { asOwnerOf } from "../../../platform/workers/owner.ts";
import { EXIT } from "../../args.ts";

export const PROGRAM_FLAG = {
  type: "string",
  value: "FILE",
  doc: "The installed program (default: this one)",
} as const;

/** The real file: a link to the program stays a link. */
export function programAt(path: string | undefined): string {
  const program = realpathSync(path ?? process.execPath);
  if (program.startsWith("/usr/bin/"))
    throw new UsageError(`${program} belongs to a package: install the package of the new version instead (apt, dnf)`);
  return program;
}

/** No server can start on the data directory while `body` runs. */
export function withDataLock<T>(dataDir: string, body: () => T): T {
  if (!existsSync(dataDir)) return body();
  const lock = asOwnerOf(dataDir, () => acquireDataLock(dataDir, { version: VERSION }));
  try {
    return body();
  } finally {
    asOwnerOf(dataDir, lock.release);
  }
}

/** Program first: the old program refuses the newer database, and the new program would accept the old one and migrate it. */
export function goBack(program: string, journal: Journal): { replaced: string | undefined } {
  const { data_dir: dir, database_copy: copy, database_version: version } = journal;
  return withDataLock(dir, () => {
    swapBack(program);
    const replaced = copy === null ? undefined : asOwnerOf(dir, () => restoreDatabase(dir, copy, version));
    removeJournal(program);
    return { replaced };
  });
}

export const isMigrated = ({ data_dir: dir, database_version: version }: Journal): boolean =>
  asOwnerOf(dir, () => databaseVersion(dir)) > version;

/** Replacing the program needs the rights of its folder, which most installations give to root alone. */
export function explainDenied(error: unknown): never {
  const reason = (error as { reason?: unknown } | null)?.reason;
  if (reason === "denied") throw new UsageError(`${(error as Error).message}, or run this with sudo`, EXIT.failed);
  throw error;
}
