/**
 * Statistics of a window that tell speech from music and noise: the rhythm of syllables, how voiced and how steady the pitch is, how
 * the spectrum moves. Loudness does not count. `speech.ts` decides by them.
 */
import { Fourier } from "./fourier.ts";
import { RATE } from "./windows.ts";

/** Half the rate is enough, takes half the time, and a telephone has no more. */
const HALF_RATE = RATE / 2;
const FRAME = 320; // 40 ms
const HOP = 200; // 25 ms
const LENGTH = 512;
const BANDS = 20;
const LAGS = [20, 115] as const; // 400 to 70 Hz
const VOICED = 0.55;
const SILENT_DB = -35; // below the loudest frames
const FLOOR = 1e-9;

const fourier = new Fourier(LENGTH);
const HANN = Float64Array.from({ length: FRAME }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / FRAME));
const mel = (hertz: number) => 1_127 * Math.log1p(hertz / 700);
const hertzOf = (value: number) => 700 * Math.expm1(value / 1_127);
/** The first bin of each band, and the end of the last. Bands are as wide as the ear's. */
const EDGES = Array.from({ length: BANDS + 1 }, (_, i) =>
  Math.round((hertzOf(mel(100) + ((mel(3_700) - mel(100)) * i) / BANDS) * LENGTH) / HALF_RATE),
);
const PEAKS = [6, 230] as const; // bins of 94 Hz to 3.6 kHz
const BLUR = 5;

/** The autocorrelation of the taper, by which that of a frame is divided. */
const TAPER = readPair(Float32Array.from(HANN), 0, 0, (value) => value)[0].correlation;

type Spectrum = { power: Float64Array; correlation: Float64Array };

/** Two frames at a time: one is the real part, the other the imaginary one. Lags beyond the padding wrap around and are not used. */
function readPair(
  samples: Float32Array,
  first: number,
  second: number,
  taper = (value: number, i: number) => value * HANN[i]!,
): [Spectrum, Spectrum] {
  const [re, im] = [new Float64Array(LENGTH), new Float64Array(LENGTH)];
  for (let i = 0; i < FRAME; i++) {
    re[i] = taper(samples[first + i]!, i);
    im[i] = taper(samples[second + i]!, i);
  }
  fourier.transform(re, im);
  const [a, b] = [new Float64Array(LENGTH), new Float64Array(LENGTH)];
  for (let i = 0; i < LENGTH; i++) {
    const j = (LENGTH - i) % LENGTH;
    a[i] = ((re[i]! + re[j]!) ** 2 + (im[i]! - im[j]!) ** 2) / 4 + FLOOR;
    b[i] = ((im[i]! + im[j]!) ** 2 + (re[j]! - re[i]!) ** 2) / 4 + FLOOR;
  }
  // The transform of a power spectrum, which is even, is the autocorrelation, which is real.
  const [x, y] = [a.slice(), b.slice()];
  fourier.transform(x, y);
  return [
    { power: a, correlation: x },
    { power: b, correlation: y },
  ];
}

type Frame = {
  bands: Float64Array;
  fine: Float64Array;
  db: number;
  periodicity: number;
  pitch: number;
  flatness: number;
};

function readFrame({ power, correlation }: Spectrum): Frame {
  const bands = new Float64Array(BANDS);
  let [total, logs] = [0, 0];
  for (let band = 0; band < BANDS; band++) {
    const [from, to] = [EDGES[band]!, Math.max(EDGES[band]! + 1, EDGES[band + 1]!)];
    let sum = 0;
    for (let bin = from; bin < to; bin++) {
      sum += power[bin]!;
      logs += Math.log(power[bin]!);
    }
    total += sum;
    bands[band] = Math.log(sum / (to - from));
  }
  const bins = EDGES[BANDS]! - EDGES[0]!;
  const at = (lag: number) => (correlation[lag]! / correlation[0]!) * (TAPER[0]! / TAPER[lag]!);
  let [periodicity, best] = [0, 0];
  for (let lag: number = LAGS[0]; lag <= LAGS[1]; lag++) {
    const value = at(lag);
    // A double period is as periodic: a longer one must be better.
    if (value > periodicity * 1.04) [periodicity, best] = [value, lag];
  }
  const [before, after] = [at(best - 1), at(best + 1)];
  const shift =
    best === 0 ? 0 : Math.max(-0.5, Math.min(0.5, (before - after) / (2 * (before - 2 * periodicity + after))));
  return {
    bands,
    fine: fineOf(power),
    db: 10 * Math.log10(total),
    periodicity: Math.min(1, periodicity),
    pitch: best === 0 ? 0 : Math.log2(HALF_RATE / (best + (Number.isFinite(shift) ? shift : 0))),
    flatness: logs / bins - Math.log(total / bins),
  };
}

/** The logarithm of the spectrum less its envelope: lines of tones and harmonics. Of length one. */
function fineOf(power: Float64Array): Float64Array {
  const [from, to] = PEAKS;
  const logs = power.slice(from - BLUR, to + BLUR);
  for (let i = 0; i < logs.length; i++) logs[i] = Math.log(logs[i]!);
  const fine = new Float64Array(to - from);
  let squares = 0;
  let around = 0;
  for (let j = 0; j < 2 * BLUR; j++) around += logs[j]!;
  for (let i = 0; i < fine.length; i++) {
    around += logs[i + 2 * BLUR]!;
    const value = logs[i + BLUR]! - around / (2 * BLUR + 1);
    around -= logs[i]!;
    fine[i] = value;
    squares += value * value;
  }
  const size = Math.sqrt(squares) || 1;
  for (let i = 0; i < fine.length; i++) fine[i] = fine[i]! / size;
  return fine;
}

function halved(samples: Float32Array, gain: number): Float32Array {
  const half = new Float32Array(Math.floor(samples.length / 2) - 1);
  for (let i = 0; i < half.length; i++) {
    const at = 2 * i;
    half[i] = (gain * (samples[at]! + 3 * samples[at + 1]! + 3 * samples[at + 2]! + samples[at + 3]!)) / 8;
  }
  return half;
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
const spread = (values: readonly number[]) => {
  const middle = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - middle) ** 2)));
};
const share = (values: readonly boolean[]) => values.filter(Boolean).length / Math.max(1, values.length);
function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

/** Null: the window is silent. */
export function voiceOf(samples: Float32Array): number[] | null {
  let power = 0;
  for (const sample of samples) power += sample * sample;
  if (power / samples.length < 1e-8) return null;
  const half = halved(samples, 0.05 / Math.sqrt(power / samples.length));
  const frames: Frame[] = [];
  for (let at = 0; at + HOP + FRAME <= half.length; at += 2 * HOP)
    frames.push(...readPair(half, at, at + HOP).map(readFrame));
  const loud = frames.map(({ db }) => db).sort((a, b) => b - a)[Math.floor(frames.length / 20)]!;
  const levels = frames.map(({ db }) => Math.max(SILENT_DB, db - loud));
  const heard = frames.map((_, i) => levels[i]! > SILENT_DB + 10);
  const active = frames.filter((_, i) => heard[i]);
  const steps = frames.flatMap((frame, i) =>
    i > 0 && heard[i] && heard[i - 1] ? [[frames[i - 1]!, frame] as const] : [],
  );
  const voiced = active.filter(({ periodicity }) => periodicity > VOICED);
  const glides = steps
    .filter(([a, b]) => a.periodicity > VOICED && b.periodicity > VOICED)
    .map(([a, b]) => Math.abs(b.pitch - a.pitch));
  const later = (gap: number) =>
    frames.flatMap((frame, i) =>
      i >= gap && heard[i] && heard[i - gap] ? [dot(frame.fine, frames[i - gap]!.fine)] : [],
    );
  const flux = steps.map(([a, b]) => mean(Array.from(b.bands, (value, k) => Math.abs(value - a.bands[k]!))));
  return [
    mean(levels),
    spread(levels),
    share(heard),
    ...rhythm(frames.map(({ bands }) => bands)),
    mean(active.map(({ periodicity }) => periodicity)),
    spread(active.map(({ periodicity }) => periodicity)),
    share(active.map(({ periodicity }) => periodicity > VOICED)),
    share(active.map(({ periodicity }) => periodicity > 0.85)),
    voiced.length === 0 ? 7.3 : mean(voiced.map(({ pitch }) => pitch)),
    spread(voiced.map(({ pitch }) => pitch)),
    share(glides.map((glide) => glide < 0.01)),
    share(glides.map((glide) => glide >= 0.01 && glide < 0.12)),
    share(glides.map((glide) => glide > 0.4)),
    mean(active.map(({ flatness }) => flatness)),
    spread(active.map(({ flatness }) => flatness)),
    mean(later(2)),
    mean(later(8)),
    mean(later(26)),
    spread(later(8)),
    mean(flux),
    spread(flux),
    ...cepstra(active),
  ];
}

/** How much of the movement of the bands has the speed of syllables (2 to 8 Hz), how much is slower and how much faster. */
function rhythm(bands: readonly Float64Array[]): number[] {
  const sums = [0, 0, 0, 0];
  const length = Math.min(LENGTH, bands.length);
  const movements: number[] = [];
  for (let first = 0; first < BANDS; first += 4) {
    const [re, im] = [new Float64Array(LENGTH), new Float64Array(LENGTH)];
    for (let i = 0; i < length; i++)
      re[i] = Math.max(
        -12,
        (bands[i]![first]! + bands[i]![first + 1]! + bands[i]![first + 2]! + bands[i]![first + 3]!) / 4,
      );
    const middle = re.subarray(0, length).reduce((a, b) => a + b, 0) / length;
    let squares = 0;
    for (let i = 0; i < length; i++) {
      const value = re[i]! - middle;
      squares += value * value;
      re[i] = value * (0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / length));
    }
    movements.push(Math.sqrt(squares / length));
    fourier.transform(re, im);
    const perBin = HALF_RATE / HOP / LENGTH;
    for (let bin = 4; bin < LENGTH / 2; bin++) {
      const hertz = bin * perBin;
      const zone = hertz < 2 ? 0 : hertz < 4.5 ? 1 : hertz < 9 ? 2 : 3;
      sums[zone]! += re[bin]! ** 2 + im[bin]! ** 2;
    }
  }
  const total = sums.reduce((a, b) => a + b, 0) || 1;
  return [...sums.map((sum) => sum / total), mean(movements), spread(movements)];
}

const CEPSTRA = 7;

/** The shape of the mean spectrum, and how much the shape moves. */
function cepstra(frames: readonly Frame[]): number[] {
  const shapes = frames.map(({ bands }) =>
    Array.from({ length: CEPSTRA }, (_, k) =>
      bands.reduce((sum, value, i) => sum + value * Math.cos((Math.PI * (k + 1) * (i + 0.5)) / BANDS), 0),
    ),
  );
  const column = (k: number) => shapes.map((shape) => shape[k]!);
  const all = Array.from({ length: CEPSTRA }, (_, k) => k);
  return [...all.map((k) => mean(column(k))), ...all.map((k) => spread(column(k)))];
}
