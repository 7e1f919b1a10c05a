/**
 * Chooses the windows of a recording by its length alone, at 16 kHz. Windows have 3 seconds. There are as many as
 * needed to cover everything, at most 8, evenly spread from start to end. A shorter recording is repeated until it
 * fills one.
 */
export const RATE = 16_000;
export const WINDOW = 3 * RATE;
export const MAX_WINDOWS = 8;

/** Returns the start of each window, in samples. */
export function planWindows(length: number): number[] {
  const count = Math.min(MAX_WINDOWS, Math.max(1, Math.ceil(length / WINDOW)));
  const last = Math.max(0, length - WINDOW);
  return Array.from({ length: count }, (_, i) => (count === 1 ? 0 : Math.floor((i * last) / (count - 1))));
}
