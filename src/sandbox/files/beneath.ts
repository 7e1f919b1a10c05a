/**
 * The files of a session as `/workspace/…`, while its programs may move them. The kernel resolves a path inside the
 * session's root (openat2, RESOLVE_IN_ROOT), which contains only `workspace`. An open file does not change, and its
 * path is read from the descriptor. So there is no moment between a check and a use.
 * Names that are not UTF-8 are listed with replacement characters and cannot be addressed.
 * NOT covered: hard links. Two names of one file in the workspace count as two files.
 */
import { closeSync, openSync, readlinkSync } from "node:fs";
import { posix } from "node:path";
import { AppError } from "../../lib/errors.ts";
import { takingTurns } from "../../lib/turns.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import {
  AT_FDCWD,
  type Entry,
  entriesOf,
  giveAt,
  type Kind,
  makeDirAt,
  O,
  removeDirAt,
  renameAt,
  type Stat,
  statAt,
  statOf,
  unlinkAt,
  within,
} from "./beneath_calls.ts";
import { explained, explainedLater, missing, notAFile, outside, shown, TOP } from "./beneath_faults.ts";
import { AS_INSIDE, openAt, THE_NAME } from "./beneath_open.ts";
import { emptyDirectory, statUnlessGone } from "./beneath_tree.ts";

const MOST_ENTRIES = 1000;
const DELETE_MS = MINUTE_MS; // A program may create files faster than they can be removed.

export type Listing = {
  path: string;
  type: Kind;
  size: number | null;
  entries: { name: string; type: Kind }[];
  truncated: boolean;
};
export type OpenedFile = { fd: number; path: string; stat: Stat };
export type Owner = { uid: number; gid: number };

export type Beneath = {
  /** Describes a file, or lists the first thousand names of a directory in byte order. Resolves links. */
  list: (path: string) => Promise<Listing>;
  /** Opens a regular file; the caller closes the descriptor. */
  openFile: (path: string) => OpenedFile;
  /** Opens a directory; the caller closes the descriptor. */
  openDirectory: (path: string) => number;
  /** Returns the path without `.` and `..`. Throws if no file can be written or deleted there. */
  target: (path: string) => string;
  /** Moves a finished file of the server into the workspace and creates missing parents. Replaces a link, never follows it. */
  moveIn: (from: string, path: string) => { path: string; replaced: boolean };
  /** Removes a link itself, not its target. */
  remove: (path: string, options: { recursive: boolean }) => Promise<{ path: string }>;
  close: () => void;
};

/** `root` is the directory that contains `workspace`. `owner` gets new directories, unless the server owns them. */
export const openBeneath = (root: string, owner?: Owner): Beneath =>
  beneath(openSync(root, O.O_RDONLY | O.O_DIRECTORY | O.O_CLOEXEC), owner);

/** Throws for a path, with its links resolved, at which nothing may be written or deleted. */
export type MayChange = (path: string) => void;

/** A directory outside the workspace that is shown at a path of it. Only for reading, and without links. */
export type ShownAt = { path: string };

/** Like `openBeneath`, with the descriptor of the root. `close` closes it. */
export function beneath(fd: number, owner?: Owner, mayChange: MayChange = () => {}, shownAt?: ShownAt): Beneath {
  const top = shownAt?.path ?? `/${TOP}`;
  const name = shownAt ? "" : `/${TOP}`;
  const prefix = Buffer.concat([readlinkSync(`/proc/self/fd/${fd}`, { encoding: "buffer" }), Buffer.from(name)]);

  function open(path: string, flags: number): number {
    if (!path.startsWith("/")) throw outside(path);
    const below = shownAt ? `/${posix.normalize(path).slice(top.length)}` : path;
    return explained(path, fd, () => openAt(fd, below, flags, AS_INSIDE));
  }

  function whereOf(opened: number, path: string): string {
    const at = pathOfFd(opened);
    const below =
      at?.subarray(0, prefix.length).equals(prefix) && (at.length === prefix.length || at[prefix.length] === 47);
    if (!at || !below) throw outside(path);
    return `${top}${at.subarray(prefix.length)}`;
  }

  function parentOf(path: string, make: boolean): { dir: number; leaf: string; at: string } {
    const parts = target(path).split("/").slice(2); // "", "workspace"
    const leaf = parts.pop() as string; // `target` rejects a path without a name.
    const above = `/${[TOP, ...parts].join("/")}`;
    let dir: number;
    try {
      dir = open(above, O.O_PATH | O.O_DIRECTORY);
    } catch (error) {
      if (!make || !(error instanceof AppError && error.code === "resource_not_found")) throw error;
      dir = makeParents(parts, path);
    }
    try {
      const at = whereOf(dir, path);
      mayChange(`${at}/${leaf}`);
      return { dir, leaf, at };
    } catch (error) {
      closeSync(dir);
      throw error;
    }
  }

  /** Starts at the deepest existing directory. A link on the path may lead anywhere in the workspace. */
  function makeParents(parts: string[], path: string): number {
    let dir = open(`/${TOP}`, O.O_PATH | O.O_DIRECTORY);
    let fresh = false; // A directory that was just created is empty.
    for (let depth = 1; depth <= parts.length; depth++) {
      const above = dir;
      try {
        const there: number | undefined = fresh ? undefined : existing(parts.slice(0, depth), path);
        fresh = there === undefined;
        dir = there ?? makeIn(above, parts[depth - 1] as string, path);
      } finally {
        closeSync(above);
      }
    }
    return dir;
  }

  function existing(parts: string[], path: string): number | undefined {
    try {
      return within(open(`/${[TOP, ...parts].join("/")}`, O.O_PATH | O.O_DIRECTORY), (next) => {
        whereOf(next, path);
        return openAt(next, ".", O.O_PATH | O.O_DIRECTORY, THE_NAME);
      });
    } catch (error) {
      if (error instanceof AppError && error.code === "resource_not_found") return undefined;
      throw error;
    }
  }

  const makeIn = (above: number, name: string, path: string) =>
    explained(path, fd, () => {
      makeDirAt(above, name);
      if (owner) giveAt(above, name, owner);
      return openAt(above, name, O.O_PATH | O.O_DIRECTORY | O.O_NOFOLLOW, THE_NAME);
    });

  return {
    target,
    list: (path) =>
      within(open(path, O.O_PATH), async (opened) => {
        const at = whereOf(opened, path);
        const { kind, bytes, links } = statOf(opened);
        if (links === 0) throw missing(path);
        if (kind !== "directory")
          return { path: at, type: kind, size: kind === "file" ? bytes : null, entries: [], truncated: false };
        const dir = explained(path, fd, () => openAt(opened, ".", O.O_RDONLY | O.O_DIRECTORY, THE_NAME));
        return { path: at, type: kind, size: null, ...(await within(dir, firstOf)) };
      }),
    openFile(path) {
      const opened = open(path, O.O_RDONLY);
      try {
        const at = whereOf(opened, path);
        const stat = statOf(opened);
        if (stat.kind !== "file") throw notAFile(path, stat.kind);
        return { fd: opened, path: at, stat };
      } catch (error) {
        closeSync(opened);
        throw error;
      }
    },
    openDirectory(path) {
      const opened = open(path, O.O_RDONLY | O.O_DIRECTORY);
      try {
        whereOf(opened, path);
        return opened;
      } catch (error) {
        closeSync(opened);
        throw error;
      }
    },
    moveIn(from, path) {
      const { dir, leaf, at } = parentOf(path, true);
      return within(dir, () =>
        explained(path, fd, () => {
          const replaced = statUnlessGone(dir, leaf) !== undefined;
          renameAt([AT_FDCWD, from], [dir, leaf]);
          return { path: `${at}/${leaf}`, replaced };
        }),
      );
    },
    async remove(path, { recursive }) {
      const { dir, leaf, at } = parentOf(path, false);
      return within(dir, async () => {
        const removedEntry = { path: `${at}/${leaf}` };
        const { kind } = explained(path, fd, () => statAt(dir, leaf));
        if (kind !== "directory") {
          explained(path, fd, () => unlinkAt(dir, leaf));
          return removedEntry;
        }
        if (!recursive)
          throw new AppError(
            "invalid_request",
            `path: ${shown(path)} is a directory: add recursive=true to delete it`,
            {
              param: "recursive",
            },
          );
        await explainedLater(path, fd, () => emptyDirectory(dir, leaf, DELETE_MS));
        explained(path, fd, () => removeDirAt(dir, leaf));
        return removedEntry;
      });
    },
    close: () => closeSync(fd),
  };
}

/** Returns undefined if the path is too long for the kernel to report. */
function pathOfFd(fd: number): Buffer | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`, { encoding: "buffer" });
  } catch {
    return undefined;
  }
}

/** Resolves `.` and `..` of a write path by text alone, so `..` never passes through a link. */
function target(path: string): string {
  if (!path.startsWith("/")) throw outside(path);
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  if (parts[0] !== TOP) throw outside(path);
  if (parts.length === 1)
    throw new AppError("invalid_request", "path: /workspace itself cannot be written or deleted", { param: "path" });
  if (path.endsWith("/"))
    throw new AppError("invalid_request", `path: ${shown(path)} ends with a slash: name a file`, { param: "path" });
  return `/${parts.join("/")}`;
}

/** Keeps at most a thousand names in memory. */
async function firstOf(dir: number): Promise<Pick<Listing, "entries" | "truncated">> {
  const turn = takingTurns();
  let first: Entry[] = [];
  let seen = 0;
  for (let piece = entriesOf(dir); piece.length > 0; piece = entriesOf(dir)) {
    seen += piece.length;
    const last = first.length < MOST_ENTRIES ? undefined : first.at(-1);
    const candidates = last ? piece.filter(({ name }) => name.compare(last.name) < 0) : piece;
    if (candidates.length > 0)
      first = [...first, ...candidates].sort((a, b) => a.name.compare(b.name)).slice(0, MOST_ENTRIES);
    await turn();
  }
  return {
    entries: first.map(({ name, kind }) => ({ name: name.toString("utf8"), type: kind })),
    truncated: seen > MOST_ENTRIES,
  };
}
