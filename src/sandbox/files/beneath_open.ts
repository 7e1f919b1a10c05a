/** Opens paths in trees that other programs change at the same time. */
import { must, type Name, O, openat2 } from "./beneath_calls.ts";
import { openByWalk, RESOLVE } from "./beneath_walk.ts";

/** Resolves a path as a program in the jail does: `/` is the directory of the descriptor, also for `..` and links. */
export const AS_INSIDE = RESOLVE.IN_ROOT | RESOLVE.NO_MAGICLINKS | RESOLVE.NO_XDEV;
/** For one name, which may be `..` or a link. The link is not followed. */
export const A_STEP = RESOLVE.NO_MAGICLINKS | RESOLVE.NO_XDEV;
/** For a path below the descriptor that has no link in it. */
export const THE_NAME = RESOLVE.BENEATH | RESOLVE.NO_SYMLINKS | RESOLVE.NO_MAGICLINKS | RESOLVE.NO_XDEV;

const MOST_TRIES = 128;
const [EAGAIN, ENOSYS] = [-11, -38];
let isForbidden = false;

/** Never blocks on a FIFO. Retries if a rename interfered. */
export function openAt(dir: number, name: Name, flags: number, resolve: bigint, mode = 0): number {
  const all = flags | O.O_CLOEXEC | (flags & O.O_PATH ? 0 : O.O_NONBLOCK | O.O_NOCTTY);
  for (let left = MOST_TRIES; !isForbidden; left--) {
    const fd = openat2(dir, name, all, mode, resolve);
    if (fd === ENOSYS) isForbidden = true;
    else if (fd !== EAGAIN || left === 0) return must("openat2", fd);
  }
  return openByWalk(dir, name, all, resolve, mode);
}
