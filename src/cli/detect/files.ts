/**
 * Finds and reads the files of `verk detect`: named files, and all files below named folders. The type comes from the
 * bytes.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { hasText, type Sniffed, sniff } from "../../lib/detection/sniff.ts";
import { errorCode, readInto } from "../../platform/files.ts";

/** `named`: given on the command line, not found in a folder. `error`: the reason why it cannot be read. */
export type InputFile = { path: string; named: boolean; error?: string };
export type Kind = Sniffed["kind"];
/** `other`: a type that no model reads. */
export type Contents = { kind: Kind; bytes: Uint8Array<ArrayBuffer> } | { kind: "large"; size: number } | "other";

const HEAD_BYTES = 64;
const WHY: Record<string, string> = {
  ENOENT: "there is no such file or folder",
  EACCES: "permission denied",
  ELOOP: "its symbolic links form a loop",
};

export const reasonOf = (error: unknown) => WHY[errorCode(error) ?? ""] ?? (error as Error).message;

/** Keeps the given order; sorts by name within a folder. A path that cannot be read is reported with its error. */
export async function findFiles(paths: readonly string[]): Promise<InputFile[]> {
  const files: InputFile[] = [];
  for (const path of paths) {
    const { isFolder, error } = await lookAt(path);
    if (isFolder) await walk(path, files, new Set());
    else files.push({ path, named: true, ...(error === undefined ? {} : { error }) });
  }
  return files;
}

async function lookAt(path: string): Promise<{ isFolder: boolean; error?: string }> {
  try {
    const entry = await stat(path);
    if (entry.isFile() || entry.isDirectory()) return { isFolder: entry.isDirectory() };
    return { isFolder: false, error: "it is neither a file nor a folder" };
  } catch (error) {
    return { isFolder: false, error: reasonOf(error) };
  }
}

/** Follows links, but visits each folder once, because links may form a loop. Skips names that begin with a dot. */
async function walk(dir: string, files: InputFile[], seen: Set<string>): Promise<void> {
  try {
    const { dev, ino } = await stat(dir);
    if (seen.has(`${dev}:${ino}`)) return;
    seen.add(`${dev}:${ino}`);
    const entries = await readdir(dir, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.name.startsWith(".")) continue;
      const path = join(dir, entry.name);
      const target = entry.isSymbolicLink() ? await stat(path).catch(() => undefined) : entry;
      if (target?.isDirectory()) await walk(path, files, seen);
      else if (target?.isFile()) files.push({ path, named: false });
    }
  } catch (error) {
    files.push({ path: dir, named: true, error: reasonOf(error) });
  }
}

/** Reads a file completely only if its type is supported and it is not too large. */
export async function readContents(path: string, maxBytes: number): Promise<Contents> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK); // a pipe must not stop the command
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return "other"; // replaced since the folder was read
    const { size } = stats;
    const head = await readStart(file, Math.min(size, HEAD_BYTES));
    const kind = kindOf(head);
    if (kind === undefined) return "other";
    return size > maxBytes ? { kind: "large", size } : { kind, bytes: await readStart(file, size) };
  } finally {
    await file.close();
  }
}

/** An ID3 tag before the audio may be longer than the bytes read here. */
const kindOf = (head: Uint8Array): Kind | undefined =>
  sniff(head)?.kind ?? (hasText(head, 0, "ID3") ? "audio" : undefined);

async function readStart(file: FileHandle, size: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  const read = await readInto(file, bytes, 0);
  return read < size ? bytes.slice(0, read) : bytes; // the file became shorter
}
