/** Starts a reward process in its own namespaces: no network, no other processes, a root with only the executable. */

import { createTail } from "../../lib/text/tail.ts";
import { MIB } from "../../lib/units.ts";
import { jailPath } from "../../native/jail/jail.ts";
import { compiled } from "../../platform/workers/self.ts";
import { type Jail, jailOwner, prepareJail, spawnPrepared } from "../jail/jail.ts";
import { PROGRAM, programMounts } from "../jail/program.ts";
import { jailSupport } from "../jail/support.ts";
import type { JailEnd, JailSpec, JailSupport } from "../jail/types.ts";
import {
  drain,
  OWN_BYTES,
  REWARD_ENV,
  type RewardCommand,
  rewardArgs,
  type SpawnedReward,
  spawnReward,
  TAIL_BYTES,
  writeTo,
} from "./spawn.ts";
import type { RewardEnd } from "./types.ts";

const THREADS = 128; // the runtime starts threads by the number of cores
const OPEN_FILES = 256; // until the process confines itself
const NO_LIMIT = 0; // the parent has the deadlines, and the process writes no file

/**
 * Finds out once what the host supports, then starts every process in the strictest way. `program`: the executable to
 * run. Without one, because Verk runs from its source, there are no namespaces.
 */
export function rewardSpawner(dataDir: string, program = compiled ? process.execPath : undefined) {
  let jail: Promise<{ jail: Jail; support: JailSupport }> | undefined;
  const prepare = async () => {
    const jail = { path: jailPath(dataDir), owner: jailOwner(dataDir) };
    return { jail, support: await jailSupport(jail) };
  };
  const support = async (): Promise<JailSupport> => {
    if (program === undefined)
      return { ok: false, reason: "Verk runs from its source", fix: "Use a built executable." };
    try {
      jail ??= prepare();
      return (await jail).support;
    } catch (error) {
      jail = undefined; // the disk may have been full
      return { ok: false, reason: (error as Error).message, fix: "Make the data directory writable." };
    }
  };
  return {
    support,
    async spawn(command: RewardCommand): Promise<SpawnedReward> {
      const { ok } = await support();
      const ready = ok ? await jail : undefined;
      return ready && program ? spawnJailed(ready.jail, specOf(program, command)) : spawnReward(command);
    },
  };
}

const specOf = (program: string, command: RewardCommand): JailSpec => ({
  argv: [PROGRAM, ...rewardArgs(command)],
  env: REWARD_ENV,
  cwd: "/",
  mounts: [...programMounts(program), { kind: "devices" }, { kind: "proc" }],
  limits: {
    processes: THREADS,
    memoryBytes: OWN_BYTES + command.memoryMib * MIB,
    openFiles: OPEN_FILES,
    fileBytes: NO_LIMIT,
    cpuSeconds: NO_LIMIT,
    wallMs: NO_LIMIT,
  },
  network: "none",
  filter: "none",
});

function spawnJailed(jail: Jail, spec: JailSpec): SpawnedReward {
  const prepared = prepareJail(jail, spec);
  const child = spawnPrepared(prepared, ["pipe", "pipe", "pipe"]);
  const tail = createTail(TAIL_BYTES);
  const drained = drain(child.stderr, tail.push);
  return {
    pid: child.pid,
    jailed: true,
    write: (frame) => writeTo(child.stdin, frame),
    output: child.stdout,
    kill: () => child.kill("SIGKILL"), // the whole jail ends with the helper
    exited: child.exited.then(() => drained).then(() => endOf(prepared.end())),
    lastOutput: () => tail.text().trim(),
  };
}

/** The end that the jail's guard saw; null if the process ended by itself. */
function endOf({ reason, signal, message }: JailEnd): RewardEnd | null {
  if (reason === "memory") return { kind: "memory", message: "used too much memory" };
  if (reason === "signalled") return { kind: "crashed", message: `was killed by signal ${signal} (${message})` };
  return null;
}
