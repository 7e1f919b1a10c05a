/** Files on their way to or from a node, in directories that only the server uses. */
import { mkdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { sha256File } from "../files.ts";
import type { InputFile } from "./types.ts";

const FOLDER = "remote";

/** An empty directory. One of the same name is emptied: a killed server may have left it. */
export function stagingDir(dataDir: string, name: string): string {
  const dir = join(dataDir, FOLDER, name);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return dir;
}

export const removeStaging = (dataDir: string, name: string) =>
  rmSync(join(dataDir, FOLDER, name), { recursive: true, force: true });

/** `path`: on the node. `sha256`: if it is known. */
export async function inputFile(path: string, source: string, sha256?: string | null): Promise<InputFile> {
  return { path, source, sha256: sha256 ?? (await sha256File(source)), bytes: statSync(source).size };
}

/** Models are shared by jobs and replicas, so their names on the node are their hashes. */
export async function modelInput(source: string, sha256?: string | null): Promise<InputFile> {
  const file = await inputFile("", source, sha256);
  return { ...file, path: `models/${file.sha256}.gguf` };
}

/** A file that was pulled from a node. */
export const readStaged = (path: string): Promise<Uint8Array> => Bun.file(path).bytes();
export const stagedBytes = (path: string): number => statSync(path).size;
