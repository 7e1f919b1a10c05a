/** Pointers and C strings of bun:ffi. */
import { CString, type Pointer } from "bun:ffi";

export type Ptr = Pointer;
/** The declared return type of bun:ffi. A pointer of this process is always a number. */
type Returned = Pointer | bigint | null;

export const cstr = (value: string) => Buffer.from(`${value}\0`);
export const text = (pointer: Returned) => (pointer ? new CString(pointer as Ptr).toString() : "");

/** For a call that returns null only in a broken library. */
export function must(pointer: Returned, what: string): Ptr {
  if (pointer === null) throw new Error(`${what} failed`);
  return pointer as Ptr;
}
