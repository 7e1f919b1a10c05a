/**
 * Which stretches of a recording a detector hears: a function of its length alone, at 16 kHz. Windows of 3 seconds, as
 * many as it takes to hear everything, at most 8, evenly spread from the very start to the very end. A shorter
 * recording is repeated until it fills one.
 */
export const RATE = 16_000;
export const WINDOW = 3 * RATE;
export const MAX_WINDOWS = 8;

/** Where each window begins, in samples. */
export function planWindows(length: number): number[] {
  const count = Math.min(MAX_WINDOWS, Math.max(1, Math.ceil(length / WINDOW)));
  const last = Math.max(0, length - WINDOW);
  return Array.from({ length: count }, (_, i) => (count === 1 ? 0 : Math.floor((i * last) / (count - 1))));
}
