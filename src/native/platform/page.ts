import { dlopen } from "bun:ffi";

let known: number | undefined;

/** Bytes of a memory page: 4, 16 or 64 KiB, depending on the kernel. */
export function pageBytes(): number {
  known ??= dlopen("libc.so.6", { getpagesize: { args: [], returns: "i32" } }).symbols.getpagesize();
  return known;
}
