/** Before every test file. */
import { afterEach } from "bun:test";
import { join } from "node:path";
import { buildShim } from "../scripts/bundle/shim.ts";
import { armLongTurns, failOnLongTurns } from "./long_turns.ts";

/**
 * To the kernel, pid 0 means the caller's whole process group and -1 means all processes. A test that passes such a pid
 * by mistake would silently kill its own runner and the process that started it.
 */
const kill = process.kill.bind(process);
process.kill = (pid, signal) => {
  if (!Number.isInteger(pid) || pid === 0 || Math.abs(pid) === 1) throw new Error(`${pid} is no process to signal`);
  return kill(pid, signal);
};

/** Code that runs from source loads the shim from .stage. It is compiled only if its sources have changed. */
buildShim(join(import.meta.dir, ".."));

armLongTurns();
afterEach(failOnLongTurns);
