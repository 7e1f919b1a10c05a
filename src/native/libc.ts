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
 * Waits for an exclusive lock. Closing the descriptor, or the end of the process, releases it. Returns false if the file
 * system has no locks.
 */
export const lockExclusive = (fd: number): boolean => libc().flock(fd, LOCK_EX) === 0;

/** Sets a variable for getenv() of native libraries. Assigning process.env does not reach them. */
export function setNativeEnv(name: string, value: string) {
  const [nameBytes, valueBytes] = [name, value].map((text) => Buffer.from(`${text}\0`)) as [Buffer, Buffer];
  if (libc().setenv(ptr(nameBytes), ptr(valueBytes), 1) !== 0) throw new Error(`setenv ${name} failed`);
}

/** Forbids core files, which would contain keys and secrets in plain text. Children inherit the limit. */
export function forbidCoreDumps() {
  const none = new BigUint64Array(2); // soft and hard limit
  libc().setrlimit(RLIMIT_CORE, ptr(none));
}
