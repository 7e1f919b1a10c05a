/**
 * Invisible watermarks of open generators. Their reference code hides a fixed public message in one colour difference: its
 * Haar average is divided into blocks of 4 × 4 values, one bit each, row by row, and the message repeats. The largest value
 * of a block, its first left out, is moved to a quarter (0) or three quarters (1) of a step of 36.
 *
 * JPEG with halved colours keeps the averages but blurs single values. So each block has a vote from all that a bit
 * changes (`votes.ts`), and the votes of all repetitions of a bit are added up. A message is found if random bits would fit the
 * sums as well in less than two of 10^10 pictures.
 */
import type { Pixels } from "../image/decode.ts";
import { BLOCK, exactVotesOf, votesOf, type Ways } from "./votes.ts";

export type Watermark = { generator: string; agreement: number };

const LEAST_PIXELS = 256 * 256;
const LEAST_REPEATS = 2;
/** A first look at the middle of an image says whether the rest is worth the time. */
const FIRST_PIXELS = 1.6e5;
const MOST_PIXELS = 2e6;
const WORTH_MORE = 0.03;
/** Each message is read twice, so all together are found by chance in less than one of 10^9 pictures. */
const MOST_CHANCE = 6e-11;

type Message = { generator: string; bits: readonly number[]; way: keyof Ways; mostChance?: number };

const bitsOf = (text: string) => Array.from(text, Number);
const bytesOf = (text: string) =>
  bitsOf(Array.from(text, (letter) => letter.charCodeAt(0).toString(2).padStart(8, "0")).join(""));

const SDXL = bitsOf("101100111110110010010000011110111011000110011110");
/** The reference code drops the two leading zeros of the number. */
const FLUX = bitsOf("1010101111111010000111100111001111010100101110");

// biome-ignore format: a table should look like one
const MESSAGES: readonly Message[] = [
  { generator: "Stable Diffusion 1", bits: bytesOf("StableDiffusionV1"), way: "whole" },
  { generator: "Stable Diffusion 2", bits: bytesOf("SDV2"), way: "whole", mostChance: 2.35e-10 }, // all of its 32 bits
  { generator: "Stable Diffusion XL", bits: SDXL, way: "blue" },
  { generator: "Stable Diffusion XL", bits: SDXL, way: "red" },
  { generator: "FLUX", bits: FLUX, way: "blue" },
];

/** Null: no known message. That proves nothing: rescaling and strong compression remove it. */
export function findWatermark(image: Pixels): Watermark | null {
  const { width, height } = image;
  if (width * height < LEAST_PIXELS) return null;
  const rows = Math.floor(height / BLOCK);
  const middle = (pixels: number): [first: number, next: number] => {
    const count = Math.min(rows, Math.ceil(pixels / (width * BLOCK)));
    const first = Math.floor((rows - count) / 2);
    return [first, first + count];
  };
  const [first, next] = middle(FIRST_PIXELS);
  const isWorthMore = readAll(votesOf(image, first, next), { first, width }, NEIGHBOURS).some(
    ({ chance }) => chance <= WORTH_MORE,
  );
  if (!isWorthMore) return null;
  const [from, to] = middle(MOST_PIXELS);
  const readings = [
    ...readAll(votesOf(image, from, to), { first: from, width }, NEIGHBOURS),
    ...readAll(exactVotesOf(image, from, to), { first: from, width }, 0),
  ].filter(({ message, chance }) => chance <= (message.mostChance ?? MOST_CHANCE));
  const best = readings.sort((a, b) => a.chance - b.chance)[0];
  return best ? { generator: best.message.generator, agreement: best.agreement } : null;
}

type Reading = { message: Message; chance: number; agreement: number };

/** `first`: the first row of blocks. `width`: of the image, in pixels. */
type Span = { first: number; width: number };

/** `neighbours`: the share of a vote that compares a block with its neighbours. */
const readAll = (ways: Ways, span: Span, neighbours: number): Reading[] =>
  MESSAGES.map((message) => readMessage(ways[message.way], span, message, neighbours));

function readMessage(votes: Float32Array, { first, width }: Span, message: Message, neighbours: number): Reading {
  const { bits } = message;
  if (votes.length < LEAST_REPEATS * bits.length) return { message, chance: 1, agreement: 0 };
  const columns = Math.floor(width / BLOCK);
  const sums = withoutNeighbours(sumsOf(votes, first * columns, bits.length), columns, neighbours);
  return { message, chance: chanceOf(sums, bits), agreement: agreementOf(sums, bits) };
}

/** The votes for each bit, less the mean vote: most of it is the same for both bits. `from`: the number of the first block. */
function sumsOf(votes: Float32Array, from: number, length: number): Float64Array {
  const [sums, counts] = [new Float64Array(length), new Float64Array(length)];
  let total = 0;
  for (let i = 0, bit = from % length; i < votes.length; i++, bit = bit + 1 === length ? 0 : bit + 1) {
    sums[bit]! += votes[i]!;
    counts[bit]!++;
    total += votes[i]!;
  }
  const mean = total / votes.length;
  for (let i = 0; i < length; i++) sums[i]! -= mean * counts[i]!;
  return sums;
}

const NEIGHBOURS = 0.4;
const ROUNDS = 6;

/** A vote compares a block with its eight neighbours, whose bits lower it. This adds what they took. */
function withoutNeighbours(sums: Float64Array, columns: number, share: number): Float64Array {
  if (share === 0) return sums;
  const { length } = sums;
  const steps = [1, columns - 1, columns, columns + 1].flatMap((step) => [
    step % length,
    (length - (step % length)) % length,
  ]);
  let apart: Float64Array = sums;
  for (let round = 0; round < ROUNDS; round++) {
    const before = apart;
    apart = new Float64Array(length);
    for (let i = 0; i < length; i++) {
      let around = 0;
      for (const step of steps) around += before[i + step < length ? i + step : i + step - length]!;
      apart[i] = sums[i]! + (share * around) / steps.length;
    }
  }
  return apart;
}

/**
 * A bound for the share of random messages that fit the sums as well: the least over t of exp(−t · fit) · Π cosh(t · sum), by
 * Chernoff. Sums that are close to zero count little, whichever bit they say.
 */
function chanceOf(sums: Float64Array, bits: readonly number[]): number {
  let [fit, squares] = [0, 0];
  for (const [i, sum] of sums.entries()) {
    fit += bits[i] === 1 ? sum : -sum;
    squares += sum * sum;
  }
  if (fit <= 0 || fit * fit < 6 * squares) return 1; // the bound is at most exp(−fit² / (2 · squares))
  const spread = Math.sqrt(squares / sums.length);
  let least = 0;
  for (let t = 0.1; t < 200; t *= 1.3) {
    let bound = (-t * fit) / spread;
    for (const sum of sums) {
      const size = Math.abs((t * sum) / spread);
      bound += size + Math.log1p(Math.exp(-2 * size)) - Math.LN2;
    }
    if (bound > least + 1) break; // it falls, then rises
    least = Math.min(least, bound);
  }
  return Math.exp(least);
}

/** The share of the bits on the right side. With fewer ones than zeros the mean lies below the middle between both. */
function agreementOf(sums: Float64Array, bits: readonly number[]): number {
  const share = bits.reduce((sum, bit) => sum + bit, 0) / bits.length;
  const spread = Math.sqrt(sums.reduce((sum, value) => sum + value * value, 0) / bits.length);
  const limit = ((0.5 - share) * spread) / Math.sqrt(share * (1 - share));
  return bits.filter((bit, i) => (sums[i]! > limit ? 1 : 0) === bit).length / bits.length;
}
