/** Puts the executable where a provider would copy it: 180 MB over ssh take seconds, and one test of the copy is enough. */
import { chmodSync, copyFileSync, linkSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { sha256File } from "../src/platform/files.ts";
import { give } from "./servers/process.ts";

export async function placeExecutable(executable: string, root: string) {
  const bin = join(root, "bin");
  const dir = join(bin, await sha256File(executable));
  mkdirSync(dir, { recursive: true });
  for (const path of [root, bin, dir]) {
    chmodSync(path, 0o755);
    give(path);
  }
  try {
    linkSync(executable, join(dir, "verk"));
  } catch {
    copyFileSync(executable, join(dir, "verk")); // another file system
  }
}
