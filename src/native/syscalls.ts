/** Raw system calls, for what the runtime has no function for. x86_64 alone, as the whole product. */
import { dlopen, ptr, read } from "bun:ffi";

// biome-ignore format: a table should look like one
export const NR = {
  read: 0, write: 1, close: 3, fstat: 5, poll: 7, lseek: 8, mmap: 9, mprotect: 10, munmap: 11, brk: 12,
  rt_sigaction: 13, rt_sigprocmask: 14, rt_sigreturn: 15, ioctl: 16, pread64: 17, pwrite64: 18, readv: 19, writev: 20,
  sched_yield: 24, mremap: 25, madvise: 28, nanosleep: 35, getpid: 39, socket: 41, sendto: 44, recvfrom: 45,
  socketpair: 53, clone: 56, fork: 57, vfork: 58, execve: 59, exit: 60, kill: 62, fcntl: 72, gettimeofday: 96,
  getrusage: 98, sysinfo: 99, ptrace: 101, sigaltstack: 131, sched_getparam: 143, sched_setscheduler: 144,
  sched_getscheduler: 145, prctl: 157, setrlimit: 160, mount: 165, gettid: 186, futex: 202, sched_getaffinity: 204,
  restart_syscall: 219, clock_gettime: 228, clock_getres: 229, clock_nanosleep: 230, exit_group: 231, epoll_wait: 232,
  epoll_ctl: 233, tgkill: 234, keyctl: 250, openat: 257, unshare: 272, ppoll: 271, set_robust_list: 273,
  epoll_pwait: 281, eventfd2: 290, prlimit64: 302, process_vm_readv: 310, seccomp: 317, getrandom: 318,
  memfd_create: 319, bpf: 321, execveat: 322, membarrier: 324, rseq: 334, io_uring_setup: 425, clone3: 435,
  openat2: 437, epoll_pwait2: 441, landlock_create_ruleset: 444, landlock_add_rule: 445, landlock_restrict_self: 446,
} as const;

let loaded: ReturnType<typeof open> | undefined;
const open = () =>
  dlopen("libc.so.6", {
    syscall: { args: ["i64", "i64", "i64", "i64", "i64", "i64", "i64"], returns: "i64" },
    __errno_location: { args: [], returns: "ptr" },
  }).symbols;

/** The result, or minus the error number. Buffers in the arguments must outlive the call. */
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
