/**
 * A root in which one executable of the host runs and nothing else lies: itself, its dynamic linker, the libraries it
 * is linked with. Libraries keep the directory they have on the host, which is where the linker looks without a cache.
 */
import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { elfNeeds } from "../../native/bundle/elf.ts";
import { platform } from "../../native/platform/index.ts";
import type { Mount } from "./types.ts";

/** Where the executable lies inside. */
export const PROGRAM = "/verk";

/** Debian and its relatives; RHEL and its relatives; the rest. */
const MULTIARCH = [`/lib/${platform.multiarch}`, `/usr/lib/${platform.multiarch}`];
const LIBRARY_DIRS = [...MULTIARCH, "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/** Throws when a library is nowhere: then the executable would not have started here either. */
export function programMounts(execPath: string): Mount[] {
  const { interpreter, libraries } = elfNeeds(execPath);
  const mounts = new Map<string, string>(); // inside → on the host
  mounts.set(PROGRAM, realpathSync(execPath));
  if (interpreter !== null) mounts.set(interpreter, realpathSync(interpreter));
  const dirs = interpreter === null ? LIBRARY_DIRS : [...LIBRARY_DIRS, dirname(realpathSync(interpreter))];
  const found = new Set<string>();
  for (const queue = [...libraries]; queue.length > 0; ) {
    const name = queue.pop()!;
    if (found.has(name)) continue;
    found.add(name);
    const path = dirs.map((dir) => join(dir, name)).find((candidate) => existsSync(candidate));
    if (path === undefined) throw new Error(`${name}, which ${execPath} needs, is in none of ${dirs.join(", ")}`);
    if (!mounts.has(path)) mounts.set(path, realpathSync(path));
    queue.push(...elfNeeds(path).libraries);
  }
  return [...mounts].map(([to, from]) => ({ kind: "read_only", from, to }) as const);
}
