import { dlopen } from "bun:ffi";

const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9n;

/**
 * Makes the kernel kill this process when its parent dies, even during a native call, when it would not notice that
 * its channel closed. If the parent is already dead, nothing happens: compare process.ppid afterwards. Linux only.
 */
export function dieWithParent() {
  if (process.platform !== "linux") return;
  const { symbols } = dlopen("libc.so.6", {
    prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  });
  if (symbols.prctl(PR_SET_PDEATHSIG, SIGKILL, 0n, 0n, 0n) !== 0) throw new Error("prctl(PR_SET_PDEATHSIG) failed");
}
