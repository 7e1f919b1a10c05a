/**
 * Does a row keep its bits whatever the number of rows, if cublasLt computes with one algorithm? And at what speed, next
 * to the algorithm that cuBLAS chooses? `bun bench/gpu_rows.ts [--shapes 0.5B,8B] [--seconds 60]` prints a table for one
 * GPU. The first eight rows are also the last eight: a row's place must not matter either.
 */
import { parseArgs } from "node:util";
import type { Algorithm } from "../src/native/cuda/cublaslt.ts";
import { openProducts, type Products } from "../src/native/cuda/kernel_products.ts";
import { SHAPES } from "./decode/shapes.ts";
import { type Card, openCard } from "./products/card.ts";
import { type Lt, openLt } from "./products/lt.ts";
import { FEW, flop, type Result, report, rowsOf, type Shape, table } from "./products/same_bits.ts";
import type { Row } from "./tools.ts";

const NUMBERS = [8, 64, 100, 128, 256, 1024]; // of rows; 100 fills no tile
const MANY = 16_384; // rows of a step of training, timed
const MANY_OF_HEAD = 2048; // the trainer computes logits in chunks
const SAME = 8; // rows that are compared
const ALGORITHMS = 32; // asked for, for few rows and for many
const WORKSPACE = 32 << 20;
const WEIGHTS = 1.2e9; // bytes: launches take turns at matrices, so weights of few rows come from memory as in decoding
const BLOCK = 1 << 22; // about as many numbers are written; the rest of the memory repeats them
const TIMED_FLOP = 1.5e12; // in a graph: some milliseconds
const SIGN = 0x8000;
const LAST_BIT = 1;

type Addresses = { x: number; weights: number; to: number };
/** `bytes`: the room at each place. */
type Bench = { card: Card; lt: Lt; products: Products; place: Addresses; bytes: Addresses };
type Run = (weights: number) => void;

const shapesOf = (model: string): Shape[] => {
  const shape = SHAPES[model];
  if (!shape) throw new Error(`There is no shape ${model}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
  const { vocab, width, heads, keyHeads, forward } = shape;
  const layer = { many: MANY, f32: false };
  return [
    { name: `${model} qkv`, columns: (width / heads) * (heads + 2 * keyHeads), depth: width, ...layer },
    { name: `${model} out`, columns: width, depth: width, ...layer },
    { name: `${model} gate+up`, columns: 2 * forward, depth: width, ...layer },
    { name: `${model} down`, columns: width, depth: forward, ...layer },
    { name: `${model} head`, columns: vocab, depth: width, many: MANY_OF_HEAD, f32: true },
  ];
};
const rowBytes = ({ columns, f32 }: Shape) => columns * (f32 ? 4 : 2);

export async function run(_: { quick: boolean }): Promise<Row[]> {
  if (Bun.which("nvidia-smi") === null) return [];
  return measure(["0.5B", "8B"], 60).flatMap(rowsOf);
}

/** A shape that fails is reported and left out. */
function measure(models: readonly string[], seconds: number): Result[] {
  const end = performance.now() + seconds * 1000;
  const shapes = models.flatMap(shapesOf);
  const card = openCard();
  const most = (bytes: (shape: Shape) => number) => Math.max(...shapes.map(bytes));
  const bytes = {
    x: most(({ many, depth }) => many * depth * 2),
    weights: Math.max(
      WEIGHTS,
      most(({ columns, depth }) => columns * depth * 2),
    ),
    to: most((shape) => shape.many * rowBytes(shape)),
  };
  const place = { x: card.allocate(bytes.x), weights: card.allocate(bytes.weights), to: card.allocate(bytes.to) };
  const queue = { stream: card.stream, workspace: card.allocate(WORKSPACE), workspaceBytes: WORKSPACE };
  const bench = { card, lt: openLt(queue), products: openProducts(queue), place, bytes };
  console.error(`cublasLt ${bench.lt.version}`);
  return shapes.flatMap((shape, i) => {
    try {
      const result = measureShape(bench, shape, performance.now() + (end - performance.now()) / (shapes.length - i));
      report(result);
      return [result];
    } catch (error) {
      console.error(`${shape.name}: ${error instanceof Error ? error.message : error}`);
      return [];
    }
  });
}

function measureShape(bench: Bench, shape: Shape, end: number): Result {
  const { card, lt, products, place, bytes } = bench;
  const { columns, depth, many, f32 } = shape;
  const numbers = [...NUMBERS, many];
  card.fill(place.x, bytes.x, mirrored(depth, SIGN));
  card.fill(place.weights, bytes.weights, mirrored(depth, LAST_BIT));
  for (const rows of numbers.slice(1)) card.copy(place.x + (rows - SAME) * depth * 2, place.x, SAME * depth * 2);
  const plans = new Map(numbers.map((rows) => [rows, lt.productOf({ rows, columns, depth }, f32)]));
  const plan = (rows: number) => plans.get(rows) as NonNullable<ReturnType<typeof plans.get>>;
  const byCublas = (rows: number) => (weights: number) => {
    const to = { at: place.to, stride: columns, f32 };
    products.byRows({ at: place.x, stride: depth }, { at: weights, stride: depth }, to, { rows, columns, depth });
  };
  const by = (algorithm: Algorithm, rows: number) => (weights: number) =>
    plan(rows).run(algorithm, { ...place, weights });

  const bits = new Map(numbers.map((rows) => [rows, bitsOf(bench, shape, rows, byCublas(rows))[0]]));
  const right = firstRows(bench, shape); // of the last product; timing overwrites it
  const usual = {
    bits,
    few: timed(bench, shape, FEW, byCublas(FEW)),
    many: timed(bench, shape, many, byCublas(many)),
  };
  const lists = [plan(many).algorithms(ALGORITHMS), plan(FEW).algorithms(ALGORITHMS)] as const;
  const mixed = Array.from({ length: ALGORITHMS }, (_, i) => lists.flatMap((list) => list[i] ?? [])).flat();
  const found = [...new Map(mixed.map((algorithm) => [Buffer.from(algorithm).toString("hex"), algorithm])).values()];
  const result: Result = { shape, usual, kept: [], found: found.length, tried: 0, refused: [], byNumber: 0 };
  const tryOut = (algorithm: Algorithm) => {
    result.tried++;
    const refused = numbers.find((rows) => !plan(rows).takes(algorithm));
    if (refused !== undefined) {
      result.refused.push(refused);
      return;
    }
    const seen = numbers.map((rows) => bitsOf(bench, shape, rows, by(algorithm, rows)));
    mustBeClose(firstRows(bench, shape), right);
    const [bits] = seen[0] as (typeof seen)[0];
    if (!seen.every(([first]) => first === bits)) return;
    result.byNumber++;
    if (!seen.every(([, last]) => last === bits)) return;
    const best = (key: "few" | "many") => Math.min(...result.kept.map((one) => one[key]));
    const few = timed(bench, shape, FEW, by(algorithm, FEW), best("few"));
    const long = timed(bench, shape, many, by(algorithm, many), best("many"));
    result.kept.push({ few, many: long, bits, settings: lt.describe(algorithm) });
  };
  for (const algorithm of found) {
    if (performance.now() > end) break;
    try {
      tryOut(algorithm);
    } catch (error) {
      console.error(`${shape.name}, ${lt.describe(algorithm)}: ${error instanceof Error ? error.message : error}`);
    }
  }
  for (const one of plans.values()) one.close();
  return result;
}

/**
 * Rows of BF16 numbers below 2 whose second half is the first one with `flip`. If x turns signs and the weights their last
 * bits, products almost cancel: most of what is left is how sums were rounded, so another order shows even in BF16.
 */
function mirrored(depth: number, flip: number): Uint8Array {
  const rows = new Uint16Array(Math.floor(BLOCK / depth) * depth);
  const half = depth / 2;
  for (let row = 0; row < rows.length; row += depth)
    for (let i = row; i < row + half; i++) {
      const random = Math.random() * 0x10000;
      rows[i] = 0x3c00 | (random & 0x83ff); // sign, three bits of the exponent, mantissa: 1/128 to 2, so that sums do round
      rows[i + half] = (rows[i] as number) ^ flip;
    }
  return new Uint8Array(rows.buffer);
}

/** Hashes of the first and of the last rows. They are cleared before: an algorithm that writes nothing must not pass. */
function bitsOf({ card, place }: Bench, shape: Shape, rows: number, run: Run): readonly [bigint, bigint] {
  const bytes = SAME * rowBytes(shape);
  const addresses = [place.to, place.to + (rows - SAME) * rowBytes(shape)] as const;
  for (const at of addresses) card.clear(at, bytes);
  run(place.weights);
  card.wait();
  const some = new Uint8Array(bytes);
  const hashAt = (at: number) => {
    card.read(at, some);
    return Bun.hash(some) as bigint;
  };
  return [hashAt(addresses[0]), hashAt(addresses[1])];
}

function firstRows({ card, place }: Bench, shape: Shape): Float32Array {
  const bytes = new Uint8Array(SAME * rowBytes(shape));
  card.read(place.to, bytes);
  if (shape.f32) return new Float32Array(bytes.buffer);
  return new Float32Array(Uint32Array.from(new Uint16Array(bytes.buffer), (bits) => bits << 16).buffer);
}

function mustBeClose(own: Float32Array, right: Float32Array) {
  const size = right.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const apart = right.reduce((most, value, i) => Math.max(most, Math.abs(value - (own[i] as number))), 0);
  if (!(size > 0 && apart < 0.25 * size)) throw new Error(`${apart} apart from cuBLAS, whose values go to ${size}`);
}

function timed({ card, place }: Bench, shape: Shape, rows: number, run: Run, best?: number): number {
  const each = shape.columns * shape.depth * 2;
  const matrices = Math.max(1, Math.floor(WEIGHTS / each));
  const count = Math.min(24, Math.max(2, Math.round(TIMED_FLOP / flop(shape, rows))));
  return card.time(count, (i) => run(place.weights + (i % matrices) * each), best);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { shapes: { type: "string", default: "0.5B,8B" }, seconds: { type: "string", default: "60" } },
  });
  const results = measure(values.shapes.split(","), Number(values.seconds));
  console.log(table(results));
  process.exit(results.length > 0 ? 0 : 1);
}
