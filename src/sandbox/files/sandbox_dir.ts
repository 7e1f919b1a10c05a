/**
 * The directory of a session, or of a custom job:
 *   root/workspace    what its commands see as /workspace; `root` holds nothing else (beneath.ts)
 *   volumes/<n>       read-only volumes outside /workspace
 *   volumes/<n>.json  what a writable volume held when it was last written back (notes.ts)
 *   incoming          files on their way in
 * Commands can change `root/workspace` and nothing else; the server alone writes to the rest.
 */
import { closeSync } from "node:fs";
import { cleanTemp, tempPath } from "../../platform/files.ts";
import { type Beneath, beneath } from "./beneath.ts";
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

/** For the jail to mount, and for the worker that unpacks an archive. */
export const workspaceOf = (dir: ForeignDir) => rootOf(dir).below(TOP);
export const volumeOf = (dir: ForeignDir, n: number) => asideOf(dir).below(String(n));

/** Empty, in place of what was there. */
export async function makeSandboxDir(dir: ForeignDir, owner: Owner | undefined): Promise<void> {
  await removeTree(dir);
  makeDir(dir, { mode: 0o700 });
  makeDir(rootOf(dir), { mode: 0o755 });
  makeDir(workspaceOf(dir), { mode: 0o755, owner });
  for (const own of [incomingOf(dir), asideOf(dir)]) makeDir(own, { mode: 0o700 });
}

export const hasWorkspace = (dir: ForeignDir): boolean => exists(workspaceOf(dir));

/** Files as `/workspace/…`, while programs may move everything. */
export const openWorkspace = (dir: ForeignDir, owner?: Owner): Beneath => beneath(openForeign(rootOf(dir)), owner);

/** Counts up to `most` entries of the workspace. Its own mode is up to its programs. */
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

/** A path of the server's own, for a file that is not yet the session's. */
export const incomingPath = (dir: ForeignDir): string => tempPath(pathOf(incomingOf(dir)));

/** Removes what a server that was killed left there. */
export const cleanIncoming = (dir: ForeignDir, olderThanMs: number) => cleanTemp(pathOf(incomingOf(dir)), olderThanMs);
