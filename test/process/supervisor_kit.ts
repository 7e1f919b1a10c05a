import { readFileSync } from "node:fs";
import { systemClock } from "../../src/platform/clock.ts";
import { createLog } from "../../src/platform/log.ts";
import { createSupervisor } from "../../src/platform/workers/supervisor.ts";
import { FAKE_PROGRAM } from "../fake_workers/program.ts";

export function makeSupervisor(socketDir: string, options: { env?: Record<string, string>; lines?: string[] } = {}) {
  const { env = {}, lines = [] } = options;
  return createSupervisor({
    log: createLog({ level: "debug", write: (line) => void lines.push(line) }),
    clock: systemClock,
    socketDir,
    silence_ms: 20_000,
    ready_timeout_ms: 20_000,
    stop_grace_ms: 5_000,
    stderr_tail_bytes: 8_192,
    env,
    program: FAKE_PROGRAM,
  });
}

/** A zombie counts as dead: it only waits until its parent reads its exit code. */
export function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
