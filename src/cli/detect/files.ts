/** What `verk detect` is pointed at: files by name, folders with all below them. What a file is, its bytes say. */
import { statSync } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { hasText, type Sniffed, sniff } from "../../lib/detection/sniff.ts";
import { UsageError } from "../../lib/errors.ts";
import { errorCode } from "../../platform/files.ts";

/** `named`: on the command line, not found in a folder. `error`: a folder that cannot be looked into. */
export type Found = { path: string; named: boolean; error?: string };
export type Kind = Sniffed["kind"];
/** `other`: of a kind that nobody here reads. */
export type Contents = { kind: Kind; bytes: Uint8Array<ArrayBuffer> } | { kind: "large"; size: number } | "other";

const HEAD_BYTES = 64;
const WHY: Record<string, string> = {
  ENOENT: "there is no such file or folder",
  EACCES: "permission denied",
  ELOOP: "its links go round in a circle",
};

export const reasonOf = (error: unknown) => WHY[errorCode(error) ?? ""] ?? (error as Error).message;

/** In the order given; within a folder by name. What is misspelt is told before anything begins. */
export async function findFiles(paths: readonly string[]): Promise<Found[]> {
  const folders = paths.map(isFolder);
  const found: Found[] = [];
  for (const [i, path] of paths.entries()) {
    if (folders[i]) await walk(path, found, new Set());
    else found.push({ path, named: true });
  }
  return found;
}

function isFolder(path: string): boolean {
  try {
    const stat = statSync(path);
    if (stat.isFile() || stat.isDirectory()) return stat.isDirectory();
  } catch (error) {
    throw new UsageError(`Cannot read ${path}: ${reasonOf(error)}`);
  }
  throw new UsageError(`Cannot read ${path}: it is neither a file nor a folder`);
}

/** Links are followed, to each folder once: they may lead back. Names that begin with a dot are left out. */
async function walk(dir: string, found: Found[], seen: Set<string>): Promise<void> {
  try {
    const { dev, ino } = await stat(dir);
    if (seen.has(`${dev}:${ino}`)) return;
    seen.add(`${dev}:${ino}`);
    const entries = await readdir(dir, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.name.startsWith(".")) continue;
      const path = join(dir, entry.name);
      const target = entry.isSymbolicLink() ? await stat(path).catch(() => undefined) : entry;
      if (target?.isDirectory()) await walk(path, found, seen);
      else if (target?.isFile()) found.push({ path, named: false });
    }
  } catch (error) {
    found.push({ path: dir, named: true, error: reasonOf(error) });
  }
}

/** A file that is too large is not read, nor one of another kind beyond its first bytes. */
export async function readContents(path: string, maxBytes: number): Promise<Contents> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const head = await readExactly(file, Math.min(size, HEAD_BYTES));
    const kind = kindOf(head);
    if (kind === undefined) return "other";
    return size > maxBytes ? { kind: "large", size } : { kind, bytes: await readExactly(file, size) };
  } finally {
    await file.close();
  }
}

/** A tag in front of speech may be longer than what was read. */
const kindOf = (head: Uint8Array): Kind | undefined =>
  sniff(head)?.kind ?? (hasText(head, 0, "ID3") ? "audio" : undefined);

async function readExactly(file: FileHandle, size: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; ) {
    const { bytesRead } = await file.read(bytes, at, size - at, at);
    if (bytesRead === 0) return bytes.slice(0, at); // it became shorter
    at += bytesRead;
  }
  return bytes;
}
