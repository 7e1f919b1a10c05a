/**
 * Decides whether a recording is speech: a linear decision by the statistics of `voice.ts`, fitted on 20 sources of speech and
 * changed copies of it, four of music and eleven kinds of noise. The limit loses one in a hundred of that speech.
 */
import { voiceOf } from "./voice.ts";
import { WINDOW } from "./windows.ts";

const MOST_WINDOWS = 3;
const BIAS = -0.327;
const LIMIT = -1.64;
/** No statistic counts further than so many spreads from its mean. */
const FURTHEST = 4;

// biome-ignore format: a table should look like one
const STATISTICS: readonly (readonly [mean: number, spread: number, weight: number])[] = [
  [-11.2, 6.17, 0.125], // mean level
  [8.1, 4.22, 0.471], // spread of levels
  [0.844, 0.185, 0.421], // share that is heard
  [0.473, 0.249, -0.0835], // moves below 2 Hz
  [0.234, 0.135, 0.193], // at 2 to 4.5 Hz
  [0.176, 0.116, 0.231], // at 4.5 to 9 Hz
  [0.117, 0.13, -0.242], // faster
  [2.07, 1.03, 0.149], // how much bands move
  [0.371, 0.253, -0.227], // spread of that
  [0.704, 0.169, 0.348], // periodicity
  [0.167, 0.0526, 0.25], // spread of periodicity
  [0.712, 0.272, 0.341], // voiced
  [0.393, 0.298, 0.321], // very periodic
  [7.32, 0.506, -0.0394], // pitch
  [0.483, 0.259, -0.347], // spread of pitch
  [0.251, 0.222, -0.297], // steady pitch
  [0.42, 0.263, 0.665], // gliding pitch
  [0.179, 0.179, -0.41], // jumping pitch
  [-4.62, 1.79, 0.243], // flatness
  [1.17, 0.57, -0.0165], // spread of flatness
  [0.262, 0.202, -0.213], // lines after 50 ms
  [0.171, 0.193, -0.148], // after 200 ms
  [0.126, 0.169, -0.171], // after 650 ms
  [0.142, 0.0433, 0.0223], // spread after 200 ms
  [1.08, 0.408, 0.184], // flux
  [0.556, 0.312, 0.0873], // spread of flux
  [28.5, 16.9, 0.243], // cepstrum 1
  [-0.963, 9.84, 0.455], // cepstrum 2
  [2.09, 6.04, -0.141], // cepstrum 3
  [-2.82, 4.84, -0.0881], // cepstrum 4
  [-0.943, 4.39, -0.332], // cepstrum 5
  [-1.48, 4.09, -0.182], // cepstrum 6
  [-0.44, 4.26, -0.152], // cepstrum 7
  [9.94, 5.14, 0.0646], // spread of cepstrum 1
  [8.25, 4.57, 0.71], // spread of cepstrum 2
  [5.83, 2.74, 0.308], // spread of cepstrum 3
  [5.09, 2.29, 0.366], // spread of cepstrum 4
  [4.41, 1.63, 0.0898], // spread of cepstrum 5
  [4.18, 1.6, -0.128], // spread of cepstrum 6
  [3.89, 1.43, -0.152], // spread of cepstrum 7
];

/** `windows`: those of the network. Up to three of them are read, evenly spread. A silent recording is no speech. */
export function isSpeech(windows: Float32Array, count: number): boolean {
  const looked = Math.min(MOST_WINDOWS, count);
  const scores = Array.from({ length: looked }, (_, i) => {
    const at = (looked === 1 ? 0 : Math.round((i * (count - 1)) / (looked - 1))) * WINDOW;
    const voice = voiceOf(windows.subarray(at, at + WINDOW));
    return voice === null ? [] : [scoreOf(voice)];
  }).flat();
  return scores.length > 0 && scores.reduce((sum, score) => sum + score, 0) / scores.length >= LIMIT;
}

/** Positive: more like speech. */
export const scoreOf = (voice: readonly number[]): number =>
  STATISTICS.reduce((sum, [mean, spread, weight], i) => {
    const distance = (voice[i]! - mean) / spread;
    return sum + weight * Math.max(-FURTHEST, Math.min(FURTHEST, distance));
  }, BIAS);
