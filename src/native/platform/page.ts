import { dlopen } from "bun:ffi";

let known: number | undefined;

/** Bytes of a page of memory: 4, 16 or 64 KiB, as the kernel was configured. */
export function pageBytes(): number {
  known ??= dlopen("libc.so.6", { getpagesize: { args: [], returns: "i32" } }).symbols.getpagesize();
  return known;
}
