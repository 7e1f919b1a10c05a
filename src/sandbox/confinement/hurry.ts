import { getPriority } from "node:os";
import { NR, syscall } from "../../native/syscalls.ts";

const PRIO_PGRP = 1;

/**
 * Gives a process group that is about to end the priority of the server. Linux removes the entries of its threads in
 * /proc at the priority of each thread, and wait4() of the server spins until they are gone: that was up to 0.9 s of
 * processor time on a busy machine when the threads had a low priority.
 */
export function hurryEnd(group: number) {
  syscall(NR.setpriority, PRIO_PGRP, group, getPriority()); // refused without the right: then the server has no priority either
}
