/**
 * The last wall around a reward process: a filter over system calls that no thread can remove. Calls outside the list
 * get EPERM. Opening a socket or running a program is never a mistake, so it ends the process.
 */
import { addressOf, NR, SECCOMP_ARCH, syscall } from "../../native/syscalls.ts";

type Name = keyof typeof NR;

/** Memory, time, threads, waiting, and reading and writing open files: pipes. */
// biome-ignore format: a table should look like one
const ALLOWED: readonly Name[] = [
  "read", "write", "readv", "writev", "close", "fstat", "lseek", "poll", "ppoll", "epoll_wait", "epoll_pwait",
  "epoll_pwait2", "epoll_ctl", "mmap", "mprotect", "munmap", "mremap", "madvise", "brk", "rt_sigaction",
  "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "sched_yield", "sched_getaffinity",
  "sched_getparam", "sched_getscheduler", "sched_setscheduler", "nanosleep", "clock_nanosleep", "clock_gettime",
  "clock_getres", "gettimeofday", "futex", "set_robust_list", "rseq", "membarrier", "getrandom", "getpid", "gettid",
  "getrusage", "sysinfo", "exit", "exit_group",
];
const FATAL: readonly Name[] = ["socket", "socketpair", "execve", "execveat", "ptrace"];

const X32_BIT = 0x40000000;
const CLONE_THREAD = 0x10000;
const PR_SET_NAME = 15;
const PR_SET_VMA = 0x53564d41;
const ENOSYS = 38;
const EPERM = 1;

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const errno = (number: number) => 0x00050000 | number;

const LOAD = 0x20;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const IF_ANY_BIT = 0x45;
const RETURN = 0x06;
const OFFSET = { number: 0, arch: 4, arg0: 16, arg1: 24 };

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, operand: number];

/** The classic BPF program, one row per instruction: jumps count the instructions to skip. */
function program(pid: number): Instruction[] {
  const rows: Instruction[] = [];
  const add = (code: number, operand: number, ifTrue = 0, ifFalse = 0) => rows.push([code, ifTrue, ifFalse, operand]);
  const answer = (name: Name, action: number) => {
    const number = NR[name];
    if (number === undefined) return; // this architecture has no such call
    add(IF_EQUAL, number, 0, 1);
    add(RETURN, action);
  };
  /** Allows the call if the argument is one of `values`. The accumulator is consumed, so each path returns. */
  const allowWith = (
    name: "clone" | "prctl" | "tgkill",
    offset: number,
    values: readonly number[],
    compare = IF_EQUAL,
  ) => {
    add(IF_EQUAL, NR[name], 0, 2 * values.length + 2);
    add(LOAD, offset);
    for (const value of values) {
      add(compare, value, 0, 1);
      add(RETURN, ALLOW);
    }
    add(RETURN, errno(EPERM));
  };

  add(LOAD, OFFSET.arch);
  add(IF_EQUAL, SECCOMP_ARCH, 1, 0);
  add(RETURN, KILL);
  add(LOAD, OFFSET.number);
  add(IF_AT_LEAST, X32_BIT, 0, 1);
  add(RETURN, KILL);
  for (const name of ALLOWED) answer(name, ALLOW);
  answer("clone3", errno(ENOSYS)); // its flags are in memory, which the filter cannot read: glibc falls back to clone
  allowWith("clone", OFFSET.arg0, [CLONE_THREAD], IF_ANY_BIT);
  allowWith("prctl", OFFSET.arg0, [PR_SET_NAME, PR_SET_VMA]);
  allowWith("tgkill", OFFSET.arg0, [pid]); // the garbage collector stops its own threads
  for (const name of FATAL) answer(name, KILL);
  add(RETURN, errno(EPERM));
  return rows;
}

const SECCOMP_SET_MODE_FILTER = 1;
const FLAG_TSYNC = 1;

/** Applies to all threads of this process, those of the runtime included. Needs no_new_privs. */
export function filterSystemCalls(): boolean {
  const rows = program(process.pid);
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
