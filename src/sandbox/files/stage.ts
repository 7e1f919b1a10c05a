/** Puts files of volumes and archives into the directory of a session or job before its commands run. */
import { closeSync } from "node:fs";
import { chmod, chown, unlink } from "node:fs/promises";
import { AppError } from "../../lib/errors.ts";
import { AT_FDCWD, CallError, renameAt, within } from "./beneath_calls.ts";
import { type ForeignDir, openForeign } from "./foreign_dir.ts";
import { incomingPath, volumeOf, workspaceOf } from "./sandbox_dir.ts";
import { type Owner, stepsInto } from "./steps.ts";
import { makeDir } from "./trees.ts";

/** `shared`: a hard link to a file of the server, which keeps its mode and owner. `gone`: the source is missing. */
export type Filled = "copied" | "shared" | "gone";
export type Stage = {
  /** `fill` writes a temporary file of the server, which is then renamed. An existing file is replaced. */
  put: (path: string, mode: number, fill: (temp: string) => Promise<Filled>) => Promise<Filled>;
  close: () => void;
};

/** `at` is a path below /workspace ("" for /workspace itself), or the number of a volume outside. Creates the directory. */
export function openStage(dir: ForeignDir, at: string | number, owner: Owner | undefined): Stage {
  const directory = { mode: 0o755, owner };
  const shown = typeof at === "number" ? "" : ["/workspace", at].filter((part) => part !== "").join("/");
  const top = typeof at === "number" ? openAside(dir, at, owner) : openInside(dir, at, directory);
  let parent = { path: "", fd: -1 };

  /** Files are sorted by path, so the next file is often in the same directory. */
  function parentOf(names: readonly string[]): number {
    const path = names.join("/");
    if (parent.fd >= 0 && parent.path === path) return parent.fd;
    const fd = stepsInto(top, names, directory);
    if (parent.fd >= 0) closeSync(parent.fd);
    parent = { path, fd };
    return fd;
  }

  return {
    async put(path, mode, fill) {
      const temp = incomingPath(dir);
      try {
        const filled = await fill(temp);
        if (filled === "gone") return filled;
        if (filled === "copied") await makeTheirs(temp, mode, owner);
        const names = path.split("/");
        const leaf = names.pop() as string;
        explained(`${shown}/${path}`, () => renameAt([AT_FDCWD, temp], [parentOf(names), leaf]));
        return filled;
      } finally {
        await discard(temp);
      }
    },
    close() {
      if (parent.fd >= 0) closeSync(parent.fd);
      closeSync(top);
    },
  };
}

/** Sets mode and owner of a temporary file before it is renamed. */
export async function makeTheirs(temp: string, mode: number, owner: Owner | undefined) {
  await chmod(temp, mode);
  if (owner) await chown(temp, owner.uid, owner.gid);
}

/** Removes the temporary file, if there is one. */
export const discard = (temp: string) => unlink(temp).catch(() => {});

function openAside(dir: ForeignDir, n: number, owner: Owner | undefined): number {
  makeDir(volumeOf(dir, n), { mode: 0o755, owner });
  return openForeign(volumeOf(dir, n));
}

function openInside(dir: ForeignDir, at: string, directory: { mode: number; owner: Owner | undefined }): number {
  const workspace = openForeign(workspaceOf(dir));
  const names = at === "" ? [] : at.split("/");
  return within(workspace, () => explained(`/workspace/${at}`, () => stepsInto(workspace, names, directory)));
}

function explained<T>(shown: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    const inTheWay = ["ENOTDIR", "ELOOP", "EISDIR", "ENOTEMPTY", "EEXIST"].includes(error.code);
    if (!inTheWay) throw error;
    throw new AppError("invalid_request", `${shown} cannot be created: a file, link or directory is in its place`, {
      cause: error,
    });
  }
}
