/** Collects files that commands left below a directory of /workspace. Links and devices are reported, never followed. */
import { closeSync } from "node:fs";
import { AppError } from "../../lib/errors.ts";
import { CallError } from "./beneath_calls.ts";
import { statUnlessGone, walkTree } from "./beneath_tree.ts";
import { chunksOf } from "./chunks.ts";
import { type ForeignDir, openForeign } from "./foreign_dir.ts";
import { workspaceOf } from "./sandbox_dir.ts";
import { openDirectoryAt, openFileAt } from "./steps.ts";

/** `stamp` changes if the content may have changed. `changedAt`: in milliseconds, for people. */
export type ScannedFile = { bytes: number; stamp: string; changedAt: number };
export type Scan = {
  files: Map<string, ScannedFile>;
  /** Path → why it cannot be collected. */
  skipped: Map<string, string>;
  /** True if a directory could not be read, because it is too deep or its mode forbids it. */
  hidden: boolean;
};

/** Lists regular files below an open directory, in the order of the file system. Yields to the event loop. */
export async function scanFiles(top: number): Promise<Scan> {
  const scan: Scan = { files: new Map(), skipped: new Map(), hidden: false };
  scan.hidden = await walkTree(top, (dir, { name, kind }, path) => {
    if (kind === "directory") return undefined;
    const bytes = path();
    const text = bytes.toString("utf8");
    const stat = kind === "file" ? statUnlessGone(dir, name) : undefined;
    if (!Buffer.from(text).equals(bytes)) scan.skipped.set(text, "its name is not UTF-8");
    else if (kind !== "file") scan.skipped.set(text, "it is not a regular file");
    else if (stat) {
      const { bytes: size, inode, ctimeNs } = stat;
      const stamp = `${inode}:${size}:${ctimeNs}`;
      scan.files.set(text, { bytes: size, stamp, changedAt: Number(ctimeNs / 1_000_000n) });
    }
    return undefined;
  });
  return scan;
}

const WHY: Record<string, string> = {
  EACCES: "its mode does not allow reading",
  ENAMETOOLONG: "its path is too long",
  ENOENT: "it was deleted meanwhile",
};

export type Collection = {
  scan: () => Promise<Scan>;
  /** Returns why the file cannot be opened. */
  faultOf: (path: string) => string | undefined;
  sha256: (path: string) => Promise<string>;
  /** Streams the first `bytes` of a file. The file is opened at the first read. */
  content: (path: string, bytes: number) => AsyncGenerator<Uint8Array>;
  close: () => void;
};

/**
 * `below` is a path relative to /workspace. Throws an AppError if it is missing, or if a part of the path is a link or
 * a file. Links are never followed.
 */
export function openCollection(dir: ForeignDir, below: string): Collection {
  const workspace = openForeign(workspaceOf(dir));
  let top: number;
  try {
    top = openDirectoryAt(workspace, below, `/workspace/${below}`);
  } finally {
    closeSync(workspace);
  }
  const open = (path: string) => {
    try {
      return openFileAt(top, path);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      throw new AppError("invalid_request", WHY[error.code] ?? `it cannot be opened (${error.code})`, { cause: error });
    }
  };
  async function* content(path: string, bytes: number) {
    const { fd } = open(path);
    try {
      yield* chunksOf(fd, { offset: 0, length: bytes });
    } finally {
      closeSync(fd);
    }
  }
  return {
    scan: () => scanFiles(top),
    faultOf(path) {
      try {
        closeSync(open(path).fd);
        return undefined;
      } catch (error) {
        if (error instanceof AppError) return error.message;
        throw error;
      }
    },
    async sha256(path) {
      const hasher = new Bun.CryptoHasher("sha256");
      for await (const piece of content(path, Number.MAX_SAFE_INTEGER)) hasher.update(piece);
      return hasher.digest("hex");
    },
    content,
    close: () => closeSync(top),
  };
}
