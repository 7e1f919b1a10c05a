import { statSync } from "node:fs";

/**
 * Root at work in somebody's data directory becomes that somebody for the rest of the process: a file of root's
 * left in it (a key, a library) would stop the service that owns it. A directory that does not exist yet has no owner.
 */
export function becomeOwnerOf(dir: string) {
  if (process.getuid?.() !== 0) return;
  const owner = statSync(dir, { throwIfNoEntry: false });
  if (!owner || owner.uid === 0) return;
  process.setgroups?.([owner.gid]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
}
