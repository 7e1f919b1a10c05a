import { statSync } from "node:fs";

/**
 * If root uses a data directory of another user, the process becomes that user: a file of root in it (a key, a library)
 * would stop the service that owns it. A directory that does not exist yet has no owner.
 */
export function becomeOwnerOf(dir: string) {
  if (process.getuid?.() !== 0) return;
  const owner = statSync(dir, { throwIfNoEntry: false });
  if (!owner || owner.uid === 0) return;
  process.setgroups?.([owner.gid]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
}
