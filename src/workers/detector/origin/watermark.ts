/**
 * Invisible watermarks of open generators. Their reference code hides a fixed public message in one colour difference: its
 * Haar average is divided into blocks of 4 × 4 values, one bit each, row by row, and the message repeats. The largest value
 * of a block, its first left out, is moved to a quarter (0) or three quarters (1) of a step of 36.
 *
 * A bit is read from the mean of its blocks, compared with the middle of all. A message may have so few wrong bits that
 * random bits reach one of the messages in less than one of 10^9 pictures.
 */
import type { Pixels } from "../image/decode.ts";

export type Watermark = { generator: string; agreement: number };

const STEP = 36;
const CELL = 8; // pixels along a block: 4 averages of 2 × 2 pixels
const VALUES = 16;
const LEAST_PIXELS = 256 * 256;
const LEAST_REPEATS = 2;
const NEAR = 0.06; // of a step
/** The first rows of a large image: the votes of this many pixels are enough. */
const MOST_PIXELS = 4e5;

/** `whole`: the code worked on whole numbers, where the middle of the colour difference is 128, and else 0.5. */
type Message = {
  generator: string;
  bits: readonly number[];
  isWhole: boolean;
  red: boolean; // red and blue were exchanged
  mostWrong: number;
};

const bitsOf = (text: string) => Array.from(text, Number);
const bytesOf = (text: string) =>
  bitsOf(Array.from(text, (letter) => letter.charCodeAt(0).toString(2).padStart(8, "0")).join(""));

const SDXL = bitsOf("101100111110110010010000011110111011000110011110");
/** The reference code drops the two leading zeros of the number. */
const FLUX = bitsOf("1010101111111010000111100111001111010100101110");

// biome-ignore format: a table should look like one
const MESSAGES: readonly Message[] = [
  { generator: "Stable Diffusion 1", bits: bytesOf("StableDiffusionV1"), isWhole: true, red: false, mostWrong: 28 },
  { generator: "Stable Diffusion 2", bits: bytesOf("SDV2"), isWhole: true, red: false, mostWrong: 0 },
  { generator: "Stable Diffusion XL", bits: SDXL, isWhole: false, red: false, mostWrong: 3 },
  { generator: "Stable Diffusion XL", bits: SDXL, isWhole: false, red: true, mostWrong: 3 },
  { generator: "FLUX", bits: FLUX, isWhole: false, red: false, mostWrong: 3 },
];

/** Null: no known message. That proves nothing: rescaling and strong compression remove it. */
export function findWatermark(image: Pixels): Watermark | null {
  const { width, height } = image;
  if (width * height < LEAST_PIXELS) return null;
  const votes = votesOf(image);
  let best: Watermark | null = null;
  for (const { generator, bits, isWhole, red, mostWrong } of MESSAGES) {
    const wrong = wrongBits(isWhole ? votes.whole : red ? votes.red : votes.blue, bits);
    const agreement = 1 - wrong / bits.length;
    if (wrong <= mostWrong && agreement > (best?.agreement ?? 0)) best = { generator, agreement };
  }
  return best;
}

type Votes = { whole: Float32Array; blue: Float32Array; red: Float32Array };

/** The vote of each block for a one, in the three ways in which it may have been written. */
function votesOf({ pixels, width, height }: Pixels): Votes {
  const columns = Math.floor(width / CELL);
  const rows = Math.min(Math.floor(height / CELL), Math.ceil(MOST_PIXELS / (columns * CELL * CELL)));
  const count = columns * rows;
  const votes: Votes = { whole: new Float32Array(count), blue: new Float32Array(count), red: new Float32Array(count) };
  const [us, vs] = [new Float64Array(VALUES - 1), new Float64Array(VALUES - 1)];
  const line = width * 3;
  for (let block = 0; block < count; block++) {
    const corner = Math.floor(block / columns) * CELL * line + (block % columns) * CELL * 3;
    for (let i = 1; i < VALUES; i++) {
      const at = corner + (i >> 2) * 2 * line + (i & 3) * 6;
      const r = pixels[at]! + pixels[at + 3]! + pixels[at + line]! + pixels[at + line + 3]!;
      const g = pixels[at + 1]! + pixels[at + 4]! + pixels[at + line + 1]! + pixels[at + line + 4]!;
      const b = pixels[at + 2]! + pixels[at + 5]! + pixels[at + line + 2]! + pixels[at + line + 5]!;
      // Half the sum of four pixels is their average in the Haar transform.
      us[i - 1] = 0.246 * (0.886 * b - 0.299 * r - 0.587 * g);
      vs[i - 1] = 0.246 * (0.886 * r - 0.299 * b - 0.587 * g);
    }
    votes.whole[block] = voteOf(us, 256);
    votes.blue[block] = voteOf(us, 1);
    votes.red[block] = voteOf(vs, 1);
  }
  return votes;
}

/**
 * The largest value says the bit, if it still is the largest: a zero often makes it smaller than its neighbours. So a value
 * close to a quarter or to three quarters of a step counts as much, wherever it lies.
 */
function voteOf(values: Float64Array, middle: number): number {
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

/** The number of bits on the other side of the mean. All, if there are too few blocks. */
function wrongBits(votes: Float32Array, bits: readonly number[]): number {
  const { length } = bits;
  const each = Math.floor(votes.length / length); // the last blocks, which are no whole message, do not count
  if (each < LEAST_REPEATS) return length;
  const sums = new Float64Array(length);
  for (let i = 0; i < each * length; i++) sums[i % length]! += votes[i]!;
  const middle = sums.reduce((sum, value) => sum + value, 0) / length;
  const spread = Math.sqrt(sums.reduce((sum, value) => sum + (value - middle) ** 2, 0) / length);
  const share = bits.reduce((sum, bit) => sum + bit, 0) / length;
  // With fewer ones than zeros the mean lies below the middle between both.
  const limit = middle + ((0.5 - share) * spread) / Math.sqrt(share * (1 - share));
  return bits.filter((bit, i) => (sums[i]! > limit ? 1 : 0) !== bit).length;
}
