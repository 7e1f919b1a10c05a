/** Errors for paths of a session. */
import { closeSync } from "node:fs";
import { AppError } from "../../lib/errors.ts";
import { asStorageError } from "../../platform/files.ts";
import { CallError, type Kind, linkOf, O, statOf } from "./beneath_calls.ts";
import { A_STEP, openAt } from "./beneath_open.ts";

/** The only directory in the root of a session. */
export const TOP = "workspace";
const MOST_LINKS = 40;
const MOST_STEPS = 4096;

export const shown = (path: string) => path.slice(0, 200);
export const outside = (path: string) =>
  new AppError("path_outside_workspace", `path: ${shown(path)} is not in /workspace, or leads out of it`, {
    param: "path",
  });
export const missing = (path: string) =>
  new AppError("resource_not_found", `No file ${shown(path)}`, { param: "path" });
export const notAFile = (path: string, kind: Kind) =>
  new AppError(
    "invalid_request",
    `path: ${shown(path)} is ${kind === "directory" ? "a directory" : "not a regular file"}`,
    {
      param: "path",
    },
  );

/** Turns an error of the kernel into a message. The path is examined again only for the message. */
export function explained<T>(path: string, root: number, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw wordsFor(path, root, error);
  }
}

export async function explainedLater<T>(path: string, root: number, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw wordsFor(path, root, error);
  }
}

function wordsFor(path: string, root: number, error: unknown): unknown {
  if (!(error instanceof CallError)) return error;
  const wrong = (why: string) =>
    new AppError("invalid_request", `path: ${shown(path)} ${why}`, { param: "path", cause: error });
  switch (error.code) {
    case "ENOENT":
    case "ENOTDIR":
    case "ELOOP":
    case "ENAMETOOLONG":
      return leadsOutside(root, path) ? outside(path) : missing(path);
    case "ENXIO":
      return notAFile(path, "other"); // a socket
    case "EXDEV":
    case "EINVAL":
      return outside(path);
    case "EACCES":
    case "EPERM":
      return wrong("cannot be opened or changed: the mode of a file or directory on the path forbids it");
    case "EISDIR":
    case "ENOTEMPTY":
    case "EEXIST":
      return wrong("is a directory, or is being changed by a program");
    case "EAGAIN":
    case "ESTALE":
      return wrong("was moved repeatedly during the lookup: try again");
    default:
      return asStorageError(path, "use", error);
  }
}

/** Follows a path that could not be opened, step by step. True if it leads out of the workspace. */
function leadsOutside(root: number, path: string): boolean {
  const rest = path.split("/").reverse();
  const at: string[] = [];
  let dir = tryStep(root, "."); // undefined: not there
  const go = (next: number | undefined) => {
    if (dir !== undefined) closeSync(dir);
    dir = next;
  };
  try {
    for (let links = 0, steps = 0; rest.length > 0 && steps < MOST_STEPS; steps++) {
      const part = rest.pop() as string;
      if (part === "" || part === ".") continue;
      if (part === "..") {
        if (at.pop() !== undefined && dir !== undefined) go(tryStep(dir, ".."));
        continue;
      }
      const step = dir === undefined ? undefined : tryStep(dir, part);
      const link = step !== undefined && links < MOST_LINKS ? linkAt(step) : undefined;
      if (link === undefined) {
        at.push(part);
        go(step);
        continue;
      }
      links++;
      closeSync(step as number);
      if (link.startsWith("/")) {
        at.length = 0;
        go(tryStep(root, "."));
      }
      rest.push(...link.split("/").reverse());
    }
    return at[0] !== TOP;
  } finally {
    go(undefined);
  }
}

function tryStep(dir: number, name: string): number | undefined {
  try {
    return openAt(dir, name, O.O_PATH | O.O_NOFOLLOW, A_STEP);
  } catch (error) {
    if (error instanceof CallError) return undefined;
    throw error;
  }
}

const linkAt = (fd: number) => (statOf(fd).kind === "symlink" ? linkOf(fd).toString("utf8") : undefined);
