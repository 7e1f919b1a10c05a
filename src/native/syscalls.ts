/** Raw system calls that the runtime has no function for. */
import { dlopen, ptr, read } from "bun:ffi";
import { platform, type SyscallNumbers, syscallNumbers } from "./platform/index.ts";

/** A call that an architecture lacks is undefined there. */
export const NR: SyscallNumbers = syscallNumbers(platform.arch);
export const SECCOMP_ARCH = platform.seccompArch;

let loaded: ReturnType<typeof open> | undefined;
const open = () =>
  dlopen("libc.so.6", {
    syscall: { args: ["i64", "i64", "i64", "i64", "i64", "i64", "i64"], returns: "i64" },
    __errno_location: { args: [], returns: "ptr" },
  }).symbols;

/** Returns the result, or the negative error number. Buffers in the arguments must outlive the call. */
export function syscall(number: number, ...args: (number | bigint)[]): number {
  loaded ??= open();
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = args;
  const result = Number(loaded.syscall(number, a, b, c, d, e, f));
  if (result !== -1) return result;
  const where = loaded.__errno_location();
  return where === null ? -1 : -read.i32(where, 0);
}

export const addressOf = (buffer: NodeJS.TypedArray): number => Number(ptr(buffer));
export const cString = (text: string): Buffer => Buffer.from(`${text}\0`);
