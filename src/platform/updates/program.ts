/**
 * The installed program and the one before it. At every moment the path of the program is a whole executable: files come into
 * place by a rename alone. The journal beside it says what an upgrade was doing when it was killed.
 */
import { chmodSync, chownSync, existsSync, linkSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { failpoint } from "../failpoint.ts";
import { asStorageError, readJson, syncDirSync, tempPath, writeFileAtomicSync } from "../files.ts";

export const previousOf = (program: string) => `${program}.previous`;
export const nextOf = (program: string) => `${program}.next`;
const journalOf = (program: string) => `${program}.upgrade.json`;

const Journal = z.strictObject({
  /** `started`: the new program was not ready yet. `done`: it became ready. */
  state: z.enum(["started", "done"]),
  from: z.string(),
  to: z.string(),
  data_dir: z.string(),
  /** The schema before the upgrade. */
  database_version: z.int(),
  /** Copy of the database from before; null if the schema stays. */
  database_copy: z.string().nullable(),
  at: z.iso.datetime(),
});
export type Journal = z.infer<typeof Journal>;

export const readJournal = (program: string) => readJson(journalOf(program), Journal);
export const writeJournal = (program: string, journal: Journal) =>
  writeFileAtomicSync(journalOf(program), `${JSON.stringify(journal)}\n`, { mode: 0o644 });
export const removeJournal = (program: string) => rmSync(journalOf(program), { force: true });

/** The next program gets the owner and mode of the program: the service is not root, and new files are private by default. */
export function shareNext(program: string) {
  const { mode, uid, gid } = statSync(program);
  inFolder(program, () => {
    if (process.getuid?.() === 0) chownSync(nextOf(program), uid, gid);
    chmodSync(nextOf(program), mode & 0o777);
  });
}

/** Puts `next` into place and keeps the program that was there. */
export function swapIn(program: string) {
  inFolder(program, (folder) => {
    const temp = tempPath(folder);
    linkSync(program, temp);
    failpoint("files.before_rename");
    renameSync(temp, previousOf(program));
    syncDirSync(folder);
    failpoint("files.before_rename");
    renameSync(nextOf(program), program);
    failpoint("files.after_rename");
    syncDirSync(folder);
  });
}

/** Puts the previous program back. After a kill it can be called again. */
export function swapBack(program: string) {
  if (!existsSync(previousOf(program))) return;
  inFolder(program, (folder) => {
    failpoint("files.before_rename");
    renameSync(previousOf(program), program);
    failpoint("files.after_rename");
    syncDirSync(folder);
  });
}

function inFolder(program: string, body: (folder: string) => void) {
  try {
    body(dirname(program));
  } catch (error) {
    throw asStorageError(program, "replace", error);
  }
}
