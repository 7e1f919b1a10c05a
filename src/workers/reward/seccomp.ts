/**
 * The last wall around a reward process: a filter over system calls that no thread can remove. Calls outside the list
 * get EPERM. Opening a socket or running a program is never a mistake, so it ends the process.
 */
import {
  ALLOW,
  errno,
  IF_ANY_BIT,
  IF_AT_LEAST,
  IF_EQUAL,
  type Instruction,
  installFilter,
  KILL,
  LOAD,
  OFFSET,
  RETURN,
} from "../../native/seccomp.ts";
import { NR, SECCOMP_ARCH } from "../../native/syscalls.ts";

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

/** Applies to all threads of this process, those of the runtime included. Needs no_new_privs. */
export const filterSystemCalls = (): boolean => installFilter(program(process.pid));
