import { dlopen, ptr } from "bun:ffi";

let loaded: ReturnType<typeof open> | undefined;
const open = () =>
  dlopen("libc.so.6", {
    flock: { args: ["i32", "i32"], returns: "i32" },
    setenv: { args: ["ptr", "ptr", "i32"], returns: "i32" },
    setrlimit: { args: ["i32", "ptr"], returns: "i32" },
  }).symbols;
const libc = () => {
  loaded ??= open();
  return loaded;
};

const LOCK_EX = 2;
const RLIMIT_CORE = 4;

/**
 * Waits until this process alone holds the lock; closing the descriptor or dying releases it.
 * False when the file system has no locks.
 */
export const lockExclusive = (fd: number): boolean => libc().flock(fd, LOCK_EX) === 0;

/** Assigning process.env does not reach getenv() of a native library; this does. */
export function setNativeEnv(name: string, value: string) {
  const [nameBytes, valueBytes] = [name, value].map((text) => Buffer.from(`${text}\0`)) as [Buffer, Buffer];
  if (libc().setenv(ptr(nameBytes), ptr(valueBytes), 1) !== 0) throw new Error(`setenv ${name} failed`);
}

/** A core file would hold keys and secrets in the clear. Children inherit it; a limit can always be lowered. */
export function forbidCoreDumps() {
  const none = new BigUint64Array(2); // now and at most
  libc().setrlimit(RLIMIT_CORE, ptr(none));
}
