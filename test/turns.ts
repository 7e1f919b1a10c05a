/** Turns of the event loop, measured in processor time of this thread: other load of the machine does not count. */
import { slowness } from "./long_turns.ts";

export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e3;
}

/** The longest turn of the event loop while the work runs, in milliseconds of a machine at its best. */
export async function longestTurnMsOf(work: () => unknown): Promise<number> {
  let longest = 0;
  let isOver = false;
  let last = threadCpuMs();
  const measure = () => {
    const now = threadCpuMs();
    if (now - last > longest) longest = Math.max(longest, (now - last) / slowness());
    last = threadCpuMs();
    if (!isOver) setImmediate(measure);
  };
  setImmediate(measure);
  try {
    await work();
  } finally {
    isOver = true;
    measure();
  }
  return longest;
}

/** A turn of more than this is a fault. Work gives its turn back after 8 ms; the rest is for pieces and the compiler. */
export const LONGEST_TURN_MS = 50;
