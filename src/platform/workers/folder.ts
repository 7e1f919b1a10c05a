/**
 * The folders of one worker. `own` is its working directory, its home and the place of its socket: the only folder in
 * which every confined worker may write. `given` holds hard links to files that the server lets it read after the start.
 */
import { constants, linkSync, mkdirSync, mkdtempSync, realpathSync } from "node:fs";
import { copyFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

const SUN_PATH_BYTES = 107; // sockaddr_un holds 108 with the final NUL

export type WorkerFolder = {
  readonly own: string;
  readonly given: string;
  readonly socketPath: string;
  /** A name of the file below `given`; undefined where it cannot be linked there, as from another file system. */
  link: (path: string) => string | undefined;
  /** The same; a copy where it cannot be linked. */
  bring: (path: string) => Promise<string>;
  remove: () => Promise<void>;
};

type FolderOptions = { id: string; socketDir: string; givenDir: string };

export function makeFolder({ id, socketDir, givenDir }: FolderOptions): WorkerFolder {
  const own = join(socketDir, id);
  const given = join(givenDir, id);
  for (const dir of [own, given]) mkdirSync(dir, { recursive: true, mode: 0o700 });
  const socket = placeSocket(own);
  let count = 0;
  const nameFor = (path: string) => {
    const name = join(given, String(count++), basename(path)); // errors about a model show the name of its file
    mkdirSync(dirname(name), { mode: 0o700 });
    return name;
  };
  const link = (path: string) => {
    try {
      const name = nameFor(path);
      linkSync(realpathSync(path), name);
      return name;
    } catch {
      return undefined;
    }
  };
  return {
    own,
    given,
    socketPath: socket.path,
    link,
    async bring(path) {
      const linked = link(path);
      if (linked !== undefined) return linked;
      const copy = nameFor(path);
      await copyFile(path, copy, constants.COPYFILE_FICLONE);
      return copy;
    },
    async remove() {
      const dirs = [own, given, ...(socket.dir ? [socket.dir] : [])];
      await Promise.all(dirs.map((dir) => rm(dir, { recursive: true, force: true }).catch(() => {}))); // the sweep retries
    },
  };
}

/** In the worker's folder, or in a private temporary directory when that path is too long for a socket. */
function placeSocket(folder: string): { path: string; dir?: string } {
  const path = join(folder, "s");
  if (Buffer.byteLength(path) <= SUN_PATH_BYTES) return { path };
  const dir = mkdtempSync(join(tmpdir(), "verk-"));
  return { path: join(dir, "s"), dir };
}
