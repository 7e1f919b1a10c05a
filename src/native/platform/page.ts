import { dlopen } from "bun:ffi";

let bytes: number | undefined;

/** Bytes of a memory page: 4, 16 or 64 KiB, depending on the kernel. */
export function pageBytes(): number {
  bytes ??= dlopen("libc.so.6", { getpagesize: { args: [], returns: "i32" } }).symbols.getpagesize();
  return bytes;
}
