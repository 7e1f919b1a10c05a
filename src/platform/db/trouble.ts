/** Trouble with the disk or with a damaged file, kept for those who ask whether the server can do its work. */
import type { Db } from "./db.ts";
import { isDamage, isDiskTrouble, storageError } from "./errors.ts";

/** Other errors are ignored. */
export function noteTrouble({ $commits }: Pick<Db, "$commits">, error: unknown) {
  if (isDamage(error)) $commits.damaged ??= error;
  else if (isDiskTrouble(error)) $commits.failing = error;
}

/** The reason why the server cannot do its work, for a load balancer; undefined: writes succeed. */
export function whyNotReady({ $commits }: Pick<Db, "$commits">): string | undefined {
  const { broken, damaged, failing } = $commits;
  if (broken !== undefined) return "The last write could not be flushed to disk: see the server's log, then restart it";
  const trouble = damaged ?? failing;
  return trouble === undefined ? undefined : (storageError(trouble) as Error).message;
}
