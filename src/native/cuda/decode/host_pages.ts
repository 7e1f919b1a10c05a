/** Memory of the host in large pages, if the kernel has them: a device holds these twice as fast as small ones. */
import { dlopen } from "bun:ffi";
import { MIB } from "../../../lib/units.ts";
import type { Ptr } from "../../ffi.ts";

const CALLS = {
  mmap: { args: ["ptr", "u64", "i32", "i32", "i32", "i64"], returns: "ptr" },
  madvise: { args: ["ptr", "u64", "i32"], returns: "i32" },
  munmap: { args: ["ptr", "u64"], returns: "i32" },
} as const;
const LARGE = 2 * MIB;
const READ_WRITE = 3;
const PRIVATE_ANONYMOUS = 0x22;
const LARGE_PAGES = 14; // MADV_HUGEPAGE
const FAILED = 2 ** 64 - 1;

/** Untouched memory, which whole large pages hold. */
export function mapHost(wanted: number): { at: Ptr; bytes: number; free: () => void } {
  const { symbols: libc } = dlopen("libc.so.6", CALLS);
  const bytes = Math.ceil(wanted / LARGE) * LARGE;
  const mapped = BigInt(bytes + LARGE);
  const start = libc.mmap(null, mapped, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0n);
  if (start === null || Number(start) >= FAILED) throw new Error(`There is no memory for ${bytes} bytes of blocks`);
  const at = (Math.ceil(Number(start) / LARGE) * LARGE) as Ptr;
  libc.madvise(at, BigInt(bytes), LARGE_PAGES);
  return { at, bytes, free: () => void libc.munmap(start, mapped) };
}
