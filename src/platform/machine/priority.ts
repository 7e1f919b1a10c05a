/**
 * The priority of the server. One thread answers all requests, so it goes before its own workers and before the code of
 * tenants. It needs a right that only root, or a service with `Nice=-10`, has; elsewhere nothing changes.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { getPriority, setPriority } from "node:os";

const NICE = -10;
const CLIENT = "HTTP Client\n"; // Bun's thread for outgoing requests, which inherits the priority of the server

export function raisePriority() {
  try {
    setPriority(NICE); // this thread; workers and jails set their own value
    writeFileSync("/proc/self/autogroup", String(NICE)); // where the kernel shares the processor between sessions
  } catch {}
}

/**
 * Call it when the first request has been sent. At a high priority the thread for outgoing requests wakes for each of
 * them; at a usual one it takes several at once. That saves a tenth of a webhook's processor time.
 */
export function lowerClientThread() {
  try {
    for (const task of readdirSync("/proc/self/task"))
      if (readFileSync(`/proc/self/task/${task}/comm`, "latin1") === CLIENT && getPriority(Number(task)) < 0)
        setPriority(Number(task), 0);
  } catch {} // a thread that ended meanwhile
}
