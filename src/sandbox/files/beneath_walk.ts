/**
 * Opens a path as openat2 does, for a service whose filter of system calls forbids openat2: RestrictSUIDSGID of systemd
 * cannot see its flags. Each step opens one name below a descriptor and never follows a link. `..` goes back to the
 * descriptor that the walk came from, so no rename leads the walk above its root.
 */
import { closeSync } from "node:fs";
import { CallError, linkOf, mountOf, must, type Name, O, openat, statOf } from "./beneath_calls.ts";

/** Flags of openat2. */
export const RESOLVE = { NO_XDEV: 1n, NO_MAGICLINKS: 2n, NO_SYMLINKS: 4n, BENEATH: 8n, IN_ROOT: 16n } as const;

const MOST_LINKS = 40; // as in the kernel
const MOST_STEPS = 10_000; // a path through links must not delay other calls
const [ENOENT, EXDEV, ENOTDIR, ELOOP] = [2, 18, 20, 40];
const STEP = O.O_PATH | O.O_NOFOLLOW | O.O_CLOEXEC;

type Goal = { flags: number; resolve: bigint; mode: number };

const fail = (errno: number): never => {
  throw new CallError("openat2", errno);
};

export function openByWalk(dir: number, path: Name, flags: number, resolve: bigint, mode = 0): number {
  const goal = { flags, resolve, mode };
  const mount = mountOf(dir);
  const fd =
    (resolve & (RESOLVE.IN_ROOT | RESOLVE.BENEATH)) === 0n ? openLast(dir, path, goal) : walk(dir, path, goal, mount);
  if (fd === undefined || mountOf(fd) === mount) return fd ?? fail(ELOOP);
  closeSync(fd);
  return fail(EXDEV);
}

/** One character for each byte, because names need not be UTF-8. */
const textOf = (path: Name) => (typeof path === "string" ? Buffer.from(path) : Buffer.from(path)).toString("latin1");

/** Names in a path, the last one first. A `/` at the end asks for a directory, as `.` does. */
function namesOf(text: string): string[] {
  if (text === "") return fail(ENOENT);
  const names = text.split("/").filter((name) => name !== "");
  if (text.endsWith("/")) names.push(".");
  return names.reverse();
}

function walk(root: number, path: Name, goal: Goal, mount: bigint): number {
  const isInside = (goal.resolve & RESOLVE.IN_ROOT) !== 0n;
  const above: number[] = []; // opened here, from the root to the current directory
  const leave = () => closeSync(above.pop() as number);
  const enter = (target: Name) => {
    const text = textOf(target);
    const isAbsolute = text.startsWith("/");
    if (isAbsolute && !isInside) fail(EXDEV);
    while (isAbsolute && above.length > 0) leave();
    return namesOf(text);
  };
  try {
    const left = enter(path);
    for (let links = 0, steps = 0; steps < MOST_STEPS; steps++) {
      const part = left.pop() ?? ".";
      const isLast = left.length === 0;
      if (part === "..") {
        if (above.length > 0) leave();
        else if (!isInside) fail(EXDEV);
      }
      const dir = above.at(-1) ?? root;
      if (part === "." || part === "..") {
        if (isLast) return must("openat2", openat(dir, ".", goal.flags, goal.mode));
        continue;
      }
      const name = Buffer.from(part, "latin1");
      const last = isLast ? openLast(dir, name, goal) : undefined;
      if (last !== undefined) return last;
      const step = must("openat2", openat(dir, name, STEP, 0));
      const { kind } = statOf(step);
      if (kind === "symlink") {
        const target = linkOf(step);
        closeSync(step);
        if ((goal.resolve & RESOLVE.NO_SYMLINKS) !== 0n || ++links > MOST_LINKS) fail(ELOOP);
        for (const each of enter(target)) left.push(each);
      } else if (isLast) {
        closeSync(step); // it was a link a moment ago
        left.push(part);
      } else {
        above.push(step);
        if (kind !== "directory") fail(ENOTDIR);
        if (mountOf(step) !== mount) fail(EXDEV);
      }
    }
    return fail(ELOOP);
  } finally {
    while (above.length > 0) leave();
  }
}

/** Undefined: the name is a link now, and the goal is what the link leads to. */
function openLast(dir: number, name: Name, { flags, mode }: Goal): number | undefined {
  const fd = openat(dir, name, flags | O.O_NOFOLLOW, mode);
  const isExact = (flags & O.O_NOFOLLOW) !== 0;
  if (isExact) return must("openat2", fd);
  if (fd === -ELOOP) return undefined;
  if (fd === -ENOTDIR) return isLink(dir, name) ? undefined : fail(ENOTDIR);
  must("openat2", fd);
  if (statOf(fd).kind !== "symlink") return fd;
  closeSync(fd);
  return undefined;
}

function isLink(dir: number, name: Name): boolean {
  const fd = openat(dir, name, STEP, 0);
  if (fd < 0) return false;
  const { kind } = statOf(fd);
  closeSync(fd);
  return kind === "symlink";
}
