/**
 * Reads a vote for one bit of a watermark (`watermark.ts`) from each block of an image. A one makes the largest value of a block
 * larger than a zero does. That raises the mean of the block above its neighbours, its spread and its largest value, and puts that value
 * near three quarters of a step. The weights were fitted by logistic regression on real pictures with messages of all
 * generators, compressed as JPEG 90 with halved colours; how rough the surroundings are decides which weights apply.
 */
import type { Pixels } from "../image/decode.ts";

/** Pixels along a block: 4 averages of 2 × 2 pixels. */
export const BLOCK = 8;
const VALUES = 16;
const STEP = 36;
/** Ranges of roughness, and the weights in each: of the mean, the largest value, the spread, the phase and the step. */
const ROUGHNESS = [1, 3, 8];
// biome-ignore format: a table should look like one
const WEIGHTS = [
  [1.37, 0.63, -0.15, -0.49, 1.72],
  [1.96, 0.16,  1.15, -0.89, 1.73],
  [0.75, 1.10,  0.34, -0.70, 0.78],
  [0.38, 1.47, -0.65, -0.27, 0.19],
] as const;
const MOST_VOTE = 3;

/** Votes in the three ways in which a message may have been written; `red`: red and blue were exchanged. */
export type Ways = { whole: Float32Array; blue: Float32Array; red: Float32Array };
/** The middle of the colour difference in an average: of code that works on whole numbers, and of the other. */
const WHOLE_MIDDLE = 256;
const MIDDLE = 1;

/** One colour difference, block by block. The first value of a block is in the mean and the spread alone. */
type Blocks = {
  mean: Float32Array;
  spread: Float32Array;
  highest: Float32Array;
  lowest: Float32Array;
};

/** A positive vote says one. Votes of the rows of blocks from `first` up to `next`. */
export function votesOf(image: Pixels, first: number, next: number): Ways {
  const columns = Math.floor(image.width / BLOCK);
  const rows = next - first;
  const [blue, red] = readBlocks(image, columns, first, next);
  const vote = (blocks: Blocks, middle: number) => votesBy(peaksOf(blocks, middle), columns, rows);
  return { whole: vote(blue, WHOLE_MIDDLE), blue: vote(blue, MIDDLE), red: vote(red, MIDDLE) };
}

function readBlocks({ pixels, width }: Pixels, columns: number, first: number, next: number): [Blocks, Blocks] {
  const count = columns * (next - first);
  const make = (): Blocks => ({
    mean: new Float32Array(count),
    spread: new Float32Array(count),
    highest: new Float32Array(count),
    lowest: new Float32Array(count),
  });
  const [blue, red] = [make(), make()];
  const line = width * 3;
  for (let block = 0; block < count; block++) {
    const row = first + Math.floor(block / columns);
    const corner = row * BLOCK * line + (block % columns) * BLOCK * 3;
    let [sumU, sumV, squaresU, squaresV] = [0, 0, 0, 0];
    let [highU, highV, lowU, lowV] = [-1e9, -1e9, 1e9, 1e9];
    for (let i = 0; i < VALUES; i++) {
      const at = corner + (i >> 2) * 2 * line + (i & 3) * 6;
      const r = pixels[at]! + pixels[at + 3]! + pixels[at + line]! + pixels[at + line + 3]!;
      const g = pixels[at + 1]! + pixels[at + 4]! + pixels[at + line + 1]! + pixels[at + line + 4]!;
      const b = pixels[at + 2]! + pixels[at + 5]! + pixels[at + line + 2]! + pixels[at + line + 5]!;
      const u = 886 * b - 299 * r - 587 * g;
      const v = 886 * r - 299 * b - 587 * g;
      sumU += u;
      sumV += v;
      squaresU += u * u;
      squaresV += v * v;
      if (i === 0) continue;
      if (u > highU) highU = u;
      if (u < lowU) lowU = u;
      if (v > highV) highV = v;
      if (v < lowV) lowV = v;
    }
    keep(blue, block, { sum: sumU, squares: squaresU, high: highU, low: lowU });
    keep(red, block, { sum: sumV, squares: squaresV, high: highV, low: lowV });
  }
  return [blue, red];
}

/** Half the sum of four pixels is their average in the Haar transform; the reference code multiplies by 0.492. */
const UNIT = 0.246 / 1000;

type Sums = { sum: number; squares: number; high: number; low: number };
function keep(blocks: Blocks, block: number, { sum, squares, high, low }: Sums) {
  const mean = sum / VALUES;
  blocks.mean[block] = mean * UNIT;
  blocks.spread[block] = Math.sqrt(Math.max(0, squares / VALUES - mean * mean)) * UNIT;
  blocks.highest[block] = high * UNIT;
  blocks.lowest[block] = low * UNIT;
}

/** `mean`: with its sign. `peak`: the size of the value with the message, if there is one. */
type Peaks = { mean: Float32Array; peak: Float32Array; spread: Float32Array };

function peaksOf({ mean, spread, highest, lowest }: Blocks, middle: number): Peaks {
  const peak = highest.map((high, i) => Math.max(Math.abs(high + middle), Math.abs(lowest[i]! + middle)));
  return { mean: mean.map((value) => value + middle), peak, spread };
}

/** Sines and cosines of a step in 512 parts: the functions themselves took a fifth of the time. */
const PARTS = 512;
const SINES = Float32Array.from({ length: PARTS }, (_, i) => Math.sin((2 * Math.PI * (i + 0.5)) / PARTS));
const COSINES = Float32Array.from({ length: PARTS }, (_, i) => Math.cos((2 * Math.PI * (i + 0.5)) / PARTS));
const partOf = (value: number) => ((value * PARTS) / STEP) & (PARTS - 1);

/** Blocks at the border have no vote. */
function votesBy({ mean, peak, spread }: Peaks, columns: number, rows: number): Float32Array {
  const votes = new Float32Array(columns * rows);
  const around = [-columns - 1, -columns, -columns + 1, -1, 1, columns - 1, columns, columns + 1];
  for (let row = 1; row < rows - 1; row++)
    for (let column = 1; column < columns - 1; column++) {
      const at = row * columns + column;
      let [means, squares, spreads, tops] = [0, 0, 0, 0];
      for (let i = 0; i < 8; i++) {
        const other = at + around[i]!;
        const value = mean[other]!;
        means += value;
        squares += value * value;
        spreads += spread[other]!;
        tops += peak[other]! - Math.abs(value);
      }
      means /= 8;
      spreads /= 8;
      const centre = mean[at]!;
      const size = Math.abs(centre);
      const rough = Math.sqrt(Math.max(0, squares / 8 - means * means)) + 0.7 * spreads;
      const scale = 0.6 + 0.75 * rough;
      const weights = WEIGHTS[rough < ROUGHNESS[0]! ? 0 : rough < ROUGHNESS[1]! ? 1 : rough < ROUGHNESS[2]! ? 2 : 3]!;
      const phase = partOf(peak[at]!);
      const vote =
        weights[0] * limited((centre < 0 ? means - centre : centre - means) / scale) +
        weights[1] * limited((peak[at]! - size - tops / 8) / (1.5 * scale)) +
        weights[2] * limited((spread[at]! - spreads) / scale) +
        weights[3] * SINES[phase]! +
        weights[4] * limited(2 * (COSINES[partOf(size)]! - COSINES[phase]!));
      votes[at] = Math.max(-MOST_VOTE, Math.min(MOST_VOTE, vote));
    }
  return votes;
}

const limited = (value: number) => Math.max(-1, Math.min(1, value));

/** Votes by single values alone. While nothing is compressed they are surer, and they take longer. */
export function exactVotesOf({ pixels, width }: Pixels, first: number, next: number): Ways {
  const columns = Math.floor(width / BLOCK);
  const count = columns * (next - first);
  const votes: Ways = { whole: new Float32Array(count), blue: new Float32Array(count), red: new Float32Array(count) };
  const [us, vs] = [new Float64Array(VALUES - 1), new Float64Array(VALUES - 1)];
  const line = width * 3;
  for (let block = 0; block < count; block++) {
    const row = first + Math.floor(block / columns);
    const corner = row * BLOCK * line + (block % columns) * BLOCK * 3;
    for (let i = 1; i < VALUES; i++) {
      const at = corner + (i >> 2) * 2 * line + (i & 3) * 6;
      const r = pixels[at]! + pixels[at + 3]! + pixels[at + line]! + pixels[at + line + 3]!;
      const g = pixels[at + 1]! + pixels[at + 4]! + pixels[at + line + 1]! + pixels[at + line + 4]!;
      const b = pixels[at + 2]! + pixels[at + 5]! + pixels[at + line + 2]! + pixels[at + line + 5]!;
      us[i - 1] = UNIT * (886 * b - 299 * r - 587 * g);
      vs[i - 1] = UNIT * (886 * r - 299 * b - 587 * g);
    }
    votes.whole[block] = exactVote(us, WHOLE_MIDDLE);
    votes.blue[block] = exactVote(us, MIDDLE);
    votes.red[block] = exactVote(vs, MIDDLE);
  }
  return votes;
}

const NEAR = 0.06; // of a step

/**
 * The largest value says the bit, if it still is the largest: a zero often makes it smaller than its neighbours. So a value
 * close to a quarter or to three quarters of a step counts as much, wherever it lies.
 */
function exactVote(values: Float64Array, middle: number): number {
  let largest = 0;
  let toQuarter = NEAR; // the least distances, in steps
  let toThreeQuarters = NEAR;
  for (let i = 0; i < VALUES - 1; i++) {
    const value = Math.abs(values[i]! + middle);
    if (value > largest) largest = value;
    const steps = value / STEP;
    const phase = steps - Math.floor(steps);
    const fromQuarter = Math.abs(phase - 0.25);
    const fromThreeQuarters = Math.abs(phase - 0.75);
    if (fromQuarter < toQuarter) toQuarter = fromQuarter;
    if (fromThreeQuarters < toThreeQuarters) toThreeQuarters = fromThreeQuarters;
  }
  return (largest % STEP > STEP / 2 ? 1 : 0) + (toQuarter - toThreeQuarters) / NEAR;
}
