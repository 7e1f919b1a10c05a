/** Starts the process of one reward: with pipes, an almost empty environment, and no directory of its own. */

import { createTail } from "../../lib/text/tail.ts";
import { KIB, MIB } from "../../lib/units.ts";
import { self } from "../../platform/workers/self.ts";
import type { RewardEnd } from "./types.ts";

export type SpawnedReward = {
  readonly pid: number;
  readonly jailed: boolean;
  write: (frame: Uint8Array) => void;
  readonly output: AsyncIterable<Uint8Array>;
  kill: () => void;
  /** Resolves when the process has ended; with the cause if a guard around it knows one. */
  readonly exited: Promise<RewardEnd | null>;
  /** The end of its standard error. */
  lastOutput: () => string;
};

export type RewardCommand = { language: "python" | "javascript"; memoryMib: number };

/** Memory of a process without any code, with a margin. */
export const OWN_BYTES = 400 * MIB;

export const TAIL_BYTES = 2 * KIB;
/** The runtime sends no crash reports; HOME must exist. */
export const REWARD_ENV = { HOME: "/", DO_NOT_TRACK: "1", BUN_ENABLE_CRASH_REPORTING: "0" };

export const rewardArgs = ({ language, memoryMib }: RewardCommand) => ["worker", "reward", language, String(memoryMib)];

export function spawnReward(command: RewardCommand): SpawnedReward {
  const child = Bun.spawn(self(...rewardArgs(command)), {
    cwd: "/",
    env: REWARD_ENV,
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const tail = createTail(TAIL_BYTES);
  const drained = drain(child.stderr, tail.push);
  return {
    pid: child.pid,
    jailed: false,
    write: (frame) => writeTo(child.stdin, frame),
    output: child.stdout,
    kill: () => child.kill("SIGKILL"),
    exited: child.exited.then(() => drained).then(() => null),
    lastOutput: () => `${child.signalCode ? `Signal ${child.signalCode}. ` : ""}${tail.text().trim()}`,
  };
}

/** Errors are ignored: `exited` reports the end of the process. */
export function writeTo(stdin: Bun.FileSink, frame: Uint8Array) {
  try {
    stdin.write(frame);
    Promise.resolve(stdin.flush()).catch(() => {});
  } catch {
    // closed
  }
}

export async function drain(stream: AsyncIterable<Uint8Array>, push: (chunk: Uint8Array) => void) {
  try {
    for await (const chunk of stream) push(chunk);
  } catch {
    // the pipe broke with the process
  }
}
