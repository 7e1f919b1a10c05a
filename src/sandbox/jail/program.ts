/**
 * A root file system for one executable of the host. It contains only the executable, its dynamic linker and its
 * libraries. Libraries keep their directory of the host, because the linker has no cache and searches there.
 */
import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { elfNeeds } from "../../native/bundle/elf.ts";
import { platform } from "../../native/platform/index.ts";
import type { Mount } from "./types.ts";

/** Path of the executable in the jail. */
export const PROGRAM = "/verk";

/** Library directories of Debian and its derivatives. */
const MULTIARCH = [`/lib/${platform.multiarch}`, `/usr/lib/${platform.multiarch}`];
const LIBRARY_DIRS = [...MULTIARCH, "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/** Throws if a library is missing. The executable could not have started on this host either. */
export function programMounts(execPath: string): Mount[] {
  const { interpreter, libraries } = elfNeeds(execPath);
  const mounts = new Map<string, string>(); // path in the jail → path on the host
  mounts.set(PROGRAM, realpathSync(execPath));
  if (interpreter !== null) mounts.set(interpreter, realpathSync(interpreter));
  const dirs = interpreter === null ? LIBRARY_DIRS : [...LIBRARY_DIRS, dirname(realpathSync(interpreter))];
  const visited = new Set<string>();
  for (const queue = [...libraries]; queue.length > 0; ) {
    const name = queue.pop()!;
    if (visited.has(name)) continue;
    visited.add(name);
    const path = dirs.map((dir) => join(dir, name)).find((candidate) => existsSync(candidate));
    if (path === undefined) throw new Error(`${execPath} needs ${name}, which is in none of ${dirs.join(", ")}`);
    if (!mounts.has(path)) mounts.set(path, realpathSync(path));
    queue.push(...elfNeeds(path).libraries);
  }
  return [...mounts].map(([to, from]) => ({ kind: "read_only", from, to }) as const);
}
