import { dlopen, ptr } from "bun:ffi";

let loaded: ReturnType<typeof open> | undefined;
const open = () =>
  dlopen("libc.so.6", {
    flock: { args: ["i32", "i32"], returns: "i32" },
    setenv: { args: ["ptr", "ptr", "i32"], returns: "i32" },
  }).symbols;
const libc = () => {
  loaded ??= open();
  return loaded;
};

const LOCK_EX = 2;

/**
 * Waits until this process alone holds the lock; closing the descriptor or dying releases it.
 * False when the file system has no locks.
 */
export const lockExclusive = (fd: number): boolean => libc().flock(fd, LOCK_EX) === 0;

/** Assigning process.env does not reach getenv() of a native library; this does. */
export function setNativeEnv(name: string, value: string) {
  const text = (s: string) => ptr(new TextEncoder().encode(`${s}\0`));
  if (libc().setenv(text(name), text(value), 1) !== 0) throw new Error(`setenv ${name} failed`);
}
