/** Counts files that another process writes: their size is read at intervals, and what was added is taken from a meter. */
import { statSync } from "node:fs";
import type { Meter } from "../files.ts";

const INTERVAL_MS = 100; // a worker writes about 100 MB meanwhile

export type Growth = Disposable & {
  /** Once more at the end, so that no byte is missed. Throws what the meter threw. */
  check: () => void;
};

/** `onFull` gets the reason when the meter refuses. The caller then stops the process. */
export function watchGrowth(meter: Meter, sizeNow: () => number, onFull: (reason: unknown) => void): Growth {
  let counted = 0;
  let refused: unknown;
  const check = () => {
    if (refused !== undefined) throw refused;
    const size = sizeNow();
    if (size > counted) meter.take(size - counted);
    counted = Math.max(counted, size);
  };
  const timer = setInterval(() => {
    try {
      check();
    } catch (error) {
      clearInterval(timer);
      refused = error;
      onFull(error);
    }
  }, INTERVAL_MS);
  return { check, [Symbol.dispose]: () => clearInterval(timer) };
}

/** 0: there is no such file yet. */
export const fileSize = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
