/** Single steps below an open directory. No step follows a link. */
import { closeSync } from "node:fs";
import { AppError } from "../../lib/errors.ts";
import { CallError, giveAt, type Kind, makeDirAt, O, type Stat, statOf, within } from "./beneath_calls.ts";
import { openAt, THE_NAME } from "./beneath_open.ts";
import { statUnlessGone } from "./beneath_tree.ts";

export type Owner = { uid: number; gid: number };
export type OpenedFile = { fd: number; stat: Stat };

const DIRECTORY = O.O_RDONLY | O.O_DIRECTORY | O.O_NOFOLLOW;

export const isCode = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof Error && codes.includes((error as { code?: unknown }).code as string);

/** Opens the directory `name`, and creates it if it is missing. */
function stepInto(above: number, name: string, directory: { mode: number; owner?: Owner | undefined }): number {
  try {
    makeDirAt(above, name, directory.mode);
    if (directory.owner) giveAt(above, name, directory.owner);
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
  return openAt(above, name, DIRECTORY, THE_NAME);
}

/** Opens the last of several nested directories. `from` stays open, and the caller closes the result. */
export function stepsInto(
  from: number,
  names: readonly string[],
  directory: { mode: number; owner?: Owner | undefined },
) {
  let fd = openAt(from, ".", DIRECTORY, THE_NAME);
  for (const name of names) {
    const above = fd;
    fd = within(above, () => stepInto(above, name, directory));
  }
  return fd;
}

const KIND_NAMES: Record<Kind, string> = {
  symlink: "a symbolic link",
  file: "a file",
  other: "neither a file nor a directory",
  directory: "a directory",
};

/** Opens a regular file at a relative path. Throws CallError, or an AppError if it is not a regular file. */
export function openFileAt(dir: number, path: string, shown = path): OpenedFile {
  let fd: number;
  try {
    fd = openAt(dir, path, O.O_RDONLY | O.O_NOFOLLOW, THE_NAME);
  } catch (error) {
    if (isCode(error, "ELOOP")) throw notA("file", shown, "symlink", error);
    if (isCode(error, "ENXIO")) throw notA("file", shown, "other", error); // a socket
    throw error;
  }
  const stat = statOf(fd);
  if (stat.kind === "file") return { fd, stat };
  closeSync(fd);
  throw notA("file", shown, stat.kind);
}

const notA = (wanted: "file" | "directory", shown: string, kind: Kind, cause?: unknown) =>
  new AppError("invalid_request", `${shown} is ${KIND_NAMES[kind]}, not a ${wanted}`, { cause });

/**
 * Opens a directory at a relative path. `shown` is the path that the user knows. Throws resource_not_found if it is
 * missing. Otherwise the error names the first part of the path that is not a directory.
 */
export function openDirectoryAt(dir: number, path: string, shown: string): number {
  try {
    return openAt(dir, path, DIRECTORY, THE_NAME);
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    const first = firstObstacle(dir, path);
    if (first) throw notA("directory", partOf(shown, path, first.depth), first.kind, error);
    if (error.code === "ENOTDIR" || error.code === "ELOOP")
      throw new AppError("invalid_request", `${shown} is not always a directory: a program replaces it`, {
        cause: error,
      });
    if (error.code === "ENOENT") throw new AppError("resource_not_found", `${shown} is missing`, { cause: error });
    if (error.code === "EACCES")
      throw new AppError(
        "invalid_request",
        `${shown} cannot be read: its mode, or the mode of a parent directory, forbids it`,
        {
          cause: error,
        },
      );
    throw error;
  }
}

/** For example `/workspace/a/b` and `workspace/a/b` with a depth of 2 return `/workspace/a`. */
function partOf(shown: string, path: string, depth: number): string {
  const parts = path.split("/");
  return parts.length === depth ? shown : shown.slice(0, -(parts.slice(depth).join("/").length + 1));
}

function firstObstacle(dir: number, path: string): { depth: number; kind: Kind } | undefined {
  const parts = path.split("/");
  for (let depth = 1; depth <= parts.length; depth++) {
    const kind = kindAt(dir, parts.slice(0, depth));
    if (kind !== "directory") return kind && { depth, kind };
  }
  return undefined;
}

function kindAt(dir: number, parts: readonly string[]): Kind | undefined {
  try {
    if (parts.length === 1) return statUnlessGone(dir, parts[0] as string)?.kind;
    const above = openAt(dir, parts.slice(0, -1).join("/"), O.O_PATH | O.O_DIRECTORY | O.O_NOFOLLOW, THE_NAME);
    return within(above, () => statUnlessGone(above, parts.at(-1) as string)?.kind);
  } catch (error) {
    if (error instanceof CallError) return undefined;
    throw error;
  }
}
