/** Resamples any sample rate to 16 kHz, with a windowed sinc that keeps frequencies below 7.6 kHz. */
import { RATE } from "./windows.ts";

const ZEROS = 16; // zeros of the sinc on either side
const STEPS = 512; // table entries between two zeros
const PASS = 0.95;

/** sinc(t) under a Hann window, t from 0 to ZEROS. */
const TABLE = Float32Array.from({ length: ZEROS * STEPS + 2 }, (_, i) => {
  const t = i / STEPS;
  if (t >= ZEROS) return 0;
  const sinc = t === 0 ? 1 : Math.sin(Math.PI * t) / (Math.PI * t);
  return sinc * (0.5 + 0.5 * Math.cos((Math.PI * t) / ZEROS));
});

export const resampledLength = (length: number, rate: number) => Math.floor((length * RATE) / rate);

/** Returns `count` samples at 16 kHz, beginning with number `from`. */
export function resample(source: Float32Array, rate: number, from: number, count: number): Float32Array {
  if (rate === RATE) return source.slice(from, from + count);
  const step = rate / RATE;
  const cutoff = PASS * Math.min(1, 1 / step); // fraction of the source's own bandwidth
  const reach = ZEROS / cutoff;
  const out = new Float32Array(count);
  for (let n = 0; n < count; n++) {
    const centre = (from + n) * step;
    const first = Math.max(0, Math.ceil(centre - reach));
    const last = Math.min(source.length - 1, Math.floor(centre + reach));
    let sum = 0;
    for (let i = first; i <= last; i++) {
      const at = Math.abs(i - centre) * cutoff * STEPS;
      const left = Math.floor(at);
      const weight = TABLE[left]! + (at - left) * (TABLE[left + 1]! - TABLE[left]!);
      sum += source[i]! * weight;
    }
    out[n] = sum * cutoff;
  }
  return out;
}
