/** Turns of the event loop, measured in processor time of this thread: other load of the machine does not count. */
import { dlopen, ptr } from "bun:ffi";

const CLOCK_THREAD_CPUTIME_ID = 3;
const libc = dlopen("libc.so.6", { clock_gettime: { args: ["i32", "ptr"], returns: "i32" } }).symbols;
const time = new BigInt64Array(2); // seconds, nanoseconds

/** Finer than process.threadCpuUsage(), which counts ticks of some milliseconds. */
export function threadCpuMs(): number {
  libc.clock_gettime(CLOCK_THREAD_CPUTIME_ID, ptr(time));
  return Number(time[0]) * 1e3 + Number(time[1]) / 1e6;
}

let bestMs = Number.POSITIVE_INFINITY;
const TEXT = JSON.stringify(
  Array.from({ length: 2_000 }, (_, i) => ({ name: `name ${i}`, value: i, tags: ["a", "b"] })),
);

/** 1 on a machine at its best; more while other processes slow this thread down. */
export function slowness(): number {
  const before = threadCpuMs();
  JSON.parse(TEXT);
  const ms = threadCpuMs() - before;
  bestMs = Math.min(bestMs, ms);
  return Math.max(1, ms / bestMs);
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
