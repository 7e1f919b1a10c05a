/** Classic BPF programs over system calls, and their installation for all threads of this process. */
import { addressOf, NR, syscall } from "./syscalls.ts";

export type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, operand: number];

export const LOAD = 0x20;
export const IF_EQUAL = 0x15;
export const IF_AT_LEAST = 0x35;
export const IF_ANY_BIT = 0x45;
export const RETURN = 0x06;
export const OFFSET = { number: 0, arch: 4, arg0: 16, arg1: 24 };

export const ALLOW = 0x7fff0000;
export const KILL = 0x80000000;
export const errno = (number: number) => 0x00050000 | number;

const SECCOMP_SET_MODE_FILTER = 1;
const FLAG_TSYNC = 1;

/** Applies to all threads of this process, those of the runtime included. Needs no_new_privs. False: not installed. */
export function installFilter(rows: readonly Instruction[]): boolean {
  const code = new DataView(new ArrayBuffer(8 * rows.length));
  rows.forEach(([opcode, ifTrue, ifFalse, operand], i) => {
    code.setUint16(i * 8, opcode, true);
    code.setUint8(i * 8 + 2, ifTrue);
    code.setUint8(i * 8 + 3, ifFalse);
    code.setUint32(i * 8 + 4, operand, true);
  });
  const bytes = new Uint8Array(code.buffer);
  const header = new DataView(new ArrayBuffer(16));
  header.setUint16(0, rows.length, true);
  header.setBigUint64(8, BigInt(addressOf(bytes)), true);
  return syscall(NR.seccomp, SECCOMP_SET_MODE_FILTER, FLAG_TSYNC, addressOf(new Uint8Array(header.buffer))) === 0;
}
