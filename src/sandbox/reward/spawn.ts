/** How the process behind one reward is started: with pipes, next to nothing in its environment, and no directory. */
import { createTail } from "../../lib/text/tail.ts";
import { self } from "../../platform/workers/self.ts";
import type { RewardEnd } from "./types.ts";

export type SpawnedReward = {
  readonly pid: number;
  readonly jailed: boolean;
  write: (frame: Uint8Array) => void;
  readonly output: AsyncIterable<Uint8Array>;
  kill: () => void;
  /** When it is gone. A guard around it may know why. */
  readonly gone: Promise<RewardEnd | null>;
  /** The end of its standard error. */
  lastWords: () => string;
};

export type RewardCommand = { language: "python" | "javascript"; memoryMib: number };

/** What a process takes before it sees any code, with room. */
export const OWN_BYTES = 400 << 20;

export const TAIL_BYTES = 2048;
/** No crash report of the runtime leaves the machine; a home that exists. */
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
    gone: child.exited.then(() => drained).then(() => null),
    lastWords: () => `${child.signalCode ? `Signal ${child.signalCode}. ` : ""}${tail.text().trim()}`,
  };
}

/** A process that is gone says so by its end, not here. */
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
