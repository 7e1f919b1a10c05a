/**
 * The directory of a session or a custom job:
 *   root/workspace    /workspace of its commands; `root` contains nothing else (beneath.ts)
 *   volumes/<n>       read-only volumes, also those that commands see below /workspace
 *   volumes/<n>.json  the record of a writable volume at the last write-back (notes.ts)
 *   incoming          uploads in progress
 * Commands can change only `root/workspace`. The server alone writes to the rest.
 */
import { closeSync } from "node:fs";
import { cleanTemp, tempPath } from "../../platform/files.ts";
import { type Beneath, beneath, type MayChange } from "./beneath.ts";
import { TOP } from "./beneath_faults.ts";
import { measureTree, type Usage } from "./beneath_tree.ts";
import { type ForeignDir, openForeign, pathOf } from "./foreign_dir.ts";
import { isCode, type Owner } from "./steps.ts";
import { exists, makeDir, removeTree } from "./trees.ts";

export type { Beneath } from "./beneath.ts";
export type { Usage } from "./beneath_tree.ts";

const rootOf = (dir: ForeignDir) => dir.below("root");
const incomingOf = (dir: ForeignDir) => dir.below("incoming");
const asideOf = (dir: ForeignDir) => dir.below("volumes");

/** The jail mounts it, and the worker that unpacks an archive writes to it. */
export const workspaceOf = (dir: ForeignDir) => rootOf(dir).below(TOP);
export const volumeOf = (dir: ForeignDir, n: number) => asideOf(dir).below(String(n));

/** Creates an empty directory. An existing one is removed first. */
export async function makeSandboxDir(dir: ForeignDir, owner: Owner | undefined): Promise<void> {
  await removeTree(dir);
  makeDir(dir, { mode: 0o700 });
  makeDir(rootOf(dir), { mode: 0o755 });
  makeDir(workspaceOf(dir), { mode: 0o755, owner });
  for (const hidden of [incomingOf(dir), asideOf(dir)]) makeDir(hidden, { mode: 0o700 });
}

export const hasWorkspace = (dir: ForeignDir): boolean => exists(workspaceOf(dir));

/** Opens the workspace. Its files are addressed as `/workspace/…`, while programs may move them. */
export const openWorkspace = (dir: ForeignDir, owner?: Owner, mayChange?: MayChange): Beneath =>
  beneath(openForeign(rootOf(dir)), owner, mayChange);

/** Opens a read-only volume. Its files are addressed as below `path`. */
export const openVolume = (dir: ForeignDir, n: number, path: string): Beneath =>
  beneath(openForeign(volumeOf(dir, n)), undefined, undefined, { path });

/** False for a session of an older version, whose volume is a part of its workspace. */
export const hasVolume = (dir: ForeignDir, n: number): boolean => exists(volumeOf(dir, n));

/** Counts up to `most` entries of the workspace. Programs may have changed the mode of the workspace itself. */
export async function usageOf(dir: ForeignDir, most: number): Promise<Usage> {
  let fd: number;
  try {
    fd = openForeign(workspaceOf(dir));
  } catch (error) {
    if (isCode(error, "EACCES")) return { bytes: 0, entries: 0, hidden: true };
    throw error;
  }
  return measureTree(fd, most).finally(() => closeSync(fd));
}

/** Path of a temporary file of the server for an upload. */
export const incomingPath = (dir: ForeignDir): string => tempPath(pathOf(incomingOf(dir)));

/** Removes uploads that a killed server left unfinished. */
export const cleanIncoming = (dir: ForeignDir, olderThanMs: number) => cleanTemp(pathOf(incomingOf(dir)), olderThanMs);
