/** Before every test file. */
import { join } from "node:path";
import { buildShim } from "../scripts/bundle/shim.ts";

/**
 * To the kernel 0 means the caller's whole process group and -1 everybody: a test that mistook nothing for a process
 * would end its own runner, and whoever started that, without a word.
 */
const kill = process.kill.bind(process);
process.kill = (pid, signal) => {
  if (!Number.isInteger(pid) || pid === 0 || Math.abs(pid) === 1) throw new Error(`${pid} is no process to signal`);
  return kill(pid, signal);
};

/** What runs from source loads the shim from .stage. Nothing is compiled when its sources have not changed. */
buildShim(join(import.meta.dir, ".."));
