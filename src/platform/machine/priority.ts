/**
 * The priority of the server. One thread answers all requests, so it goes before its own workers and before the code of
 * tenants. It needs a right that only root, or a service with `Nice=-10`, has; elsewhere nothing changes.
 */
import { writeFileSync } from "node:fs";
import { setPriority } from "node:os";

const NICE = -10;

export function raisePriority() {
  try {
    setPriority(NICE); // this thread; workers and jails set their own value
    writeFileSync("/proc/self/autogroup", String(NICE)); // where the kernel shares the processor between sessions
  } catch {}
}
