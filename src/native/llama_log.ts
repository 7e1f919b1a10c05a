/**
 * libllama calls its logger from any thread, so the logger cannot be JavaScript. It is this machine code: an error goes
 * to stderr, whose tail a person sees when the worker dies, and the first one since `forgetError` is kept; everything
 * milder is dropped. One for the process: the library hands back what another thread has set.
 * x86-64 Linux, like the calling convention of the whole surface. Changes only registers that a callee may change.
 */
import { CString, dlopen, FFIType, type Pointer, ptr, read, toArrayBuffer } from "bun:ffi";

// biome-ignore format: one instruction a line
const FILTER = Uint8Array.of( //            edi = level, rsi = text, rdx = where the first error is kept
  0x83, 0xff, 0x04,             //        cmp   edi, 4            error
  0x75, 0x33,                   //        jne   done
  0x48, 0x89, 0xd7,             //        mov   rdi, rdx
  0x31, 0xd2,                   //        xor   edx, edx          the length
  0x80, 0x3c, 0x16, 0x00,       // scan:  cmp   byte [rsi+rdx], 0
  0x74, 0x05,                   //        je    keep
  0x48, 0xff, 0xc2,             //        inc   rdx
  0xeb, 0xf5,                   //        jmp   scan
  0x80, 0x3f, 0x00,             // keep:  cmp   byte [rdi], 0
  0x75, 0x12,                   //        jne   write
  0xb9, 0xff, 0x03, 0x00, 0x00, //        mov   ecx, 1023
  0x48, 0x39, 0xca,             //        cmp   rdx, rcx
  0x0f, 0x42, 0xca,             //        cmovb ecx, edx
  0x56,                         //        push  rsi
  0xf3, 0xa4,                   //        rep   movsb
  0xc6, 0x07, 0x00,             //        mov   byte [rdi], 0
  0x5e,                         //        pop   rsi
  0xbf, 0x02, 0x00, 0x00, 0x00, // write: mov   edi, 2            stderr
  0xb8, 0x01, 0x00, 0x00, 0x00, //        mov   eax, 1            write
  0x0f, 0x05,                   //        syscall
  0xc3,                         // done:  ret
);
const PAGE_BYTES = 4096;
const READ = 1;
const WRITE = 2;
const EXECUTE = 4;
const PRIVATE_ANONYMOUS = 0x22;

type Symbols = {
  llama_log_get: (callback: Pointer, context: Pointer) => unknown;
  llama_log_set: (callback: Pointer, context: Pointer) => unknown;
};
export type ErrorLog = { forgetError: () => void; firstError: () => string };

/** Before anything else is called: the library's own logger would print thousands of lines. */
export function keepOnlyErrors(llama: Symbols): ErrorLog {
  const found = new BigUint64Array(2); // callback, context
  const at = ptr(found);
  llama.llama_log_get(at, (at + 8) as Pointer);
  let kept = read.ptr(at, 8) as Pointer;
  if (!kept) {
    kept = mapPage(new Uint8Array(0), READ | WRITE);
    llama.llama_log_set(mapPage(FILTER, READ | EXECUTE), kept);
  }
  const bytes = new Uint8Array(toArrayBuffer(kept, 0, 1024));
  return {
    forgetError: () => {
      bytes[0] = 0;
    },
    firstError: () => new CString(kept).toString().trim(),
  };
}

function mapPage(content: Uint8Array, protection: number): Pointer {
  const libc = dlopen("libc.so.6", {
    mmap: { args: ["ptr", FFIType.u64_fast, "i32", "i32", "i32", FFIType.i64_fast], returns: "ptr" },
    mprotect: { args: ["ptr", FFIType.u64_fast, "i32"], returns: "i32" },
  }).symbols;
  const page = libc.mmap(null, PAGE_BYTES, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0) as Pointer | null;
  if (page === null || page > 2 ** 48) throw new Error("no memory for the log filter");
  new Uint8Array(toArrayBuffer(page, 0, PAGE_BYTES)).set(content);
  if (libc.mprotect(page, PAGE_BYTES, protection) !== 0) throw new Error("mprotect of the log filter failed");
  return page;
}
