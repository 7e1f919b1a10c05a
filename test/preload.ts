/** Before every test file. */
import { join } from "node:path";
import { buildShim } from "../scripts/bundle/shim.ts";

/**
 * To the kernel, pid 0 means the caller's whole process group and -1 all processes. A test that passes one of them by
 * mistake would kill its own runner and the parents of it, without a message.
 */
const kill = process.kill.bind(process);
process.kill = (pid, signal) => {
  if (!Number.isInteger(pid) || pid === 0 || Math.abs(pid) === 1) throw new Error(`${pid} is no process to signal`);
  return kill(pid, signal);
};

/** Code that runs from source loads the shim from .stage. It is compiled only when its sources have changed. */
buildShim(join(import.meta.dir, ".."));
