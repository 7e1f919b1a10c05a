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

/** Runs `body` with the rights of the owner of `dir`, for a command that must stay root afterwards. */
export function asOwnerOf<T>(dir: string, body: () => T): T {
  const owner = process.getuid?.() === 0 ? statSync(dir, { throwIfNoEntry: false }) : undefined;
  if (!owner || owner.uid === 0) return body();
  process.setegid?.(owner.gid);
  process.seteuid?.(owner.uid);
  try {
    return body();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}
