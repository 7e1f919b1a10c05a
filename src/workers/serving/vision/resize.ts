/**
 * Resizes images as Pillow does, with the same integers: the models were trained on its pixels. Two passes, first along the
 * rows, with weights of 22 fractional bits. Pure.
 */

/** Tightly packed RGB. */
export type Picture = { pixels: Uint8Array; width: number; height: number };
export type Size = { width: number; height: number };
export type Filter = "bilinear" | "bicubic" | "lanczos";

const BITS = 22;
const HALF = 1 << (BITS - 1);
const SUPPORT: Record<Filter, number> = { bilinear: 1, bicubic: 2, lanczos: 3 };

const sinc = (x: number) => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI));

const CURVES: Record<Filter, (x: number) => number> = {
  bilinear: (x) => Math.max(0, 1 - Math.abs(x)),
  bicubic(distance) {
    const x = Math.abs(distance);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
  },
  lanczos: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0),
};

/** `starts[i]` is the first input of output i; its weights are `weights[i * most, i * most + counts[i])`. */
type Weights = { starts: Int32Array; counts: Int32Array; weights: Int32Array; most: number };

function weightsFor(from: number, to: number, filter: Filter): Weights {
  const scale = from / to;
  const wide = Math.max(scale, 1);
  const support = SUPPORT[filter] * wide;
  const most = Math.ceil(support) * 2 + 1;
  const [starts, counts, weights] = [new Int32Array(to), new Int32Array(to), new Int32Array(to * most)];
  for (let i = 0; i < to; i++) {
    const center = (i + 0.5) * scale;
    const start = Math.max(0, Math.trunc(center - support + 0.5));
    const count = Math.min(from, Math.trunc(center + support + 0.5)) - start;
    const raw = Array.from({ length: count }, (_, x) => CURVES[filter]((x + start - center + 0.5) / wide));
    const sum = raw.reduce((total, each) => total + each, 0);
    for (const [x, each] of raw.entries()) {
      const share = (sum === 0 ? each : each / sum) * 2 ** BITS;
      weights[i * most + x] = Math.trunc(share + (share < 0 ? -0.5 : 0.5));
    }
    starts[i] = start;
    counts[i] = count;
  }
  return { starts, counts, weights, most };
}

const toByte = (sum: number) => Math.min(255, Math.max(0, sum >> BITS));

function alongRows({ pixels, width, height }: Picture, to: number, filter: Filter): Picture {
  const { starts, counts, weights, most } = weightsFor(width, to, filter);
  const out = new Uint8Array(to * height * 3);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < to; x++) {
      let [red, green, blue] = [HALF, HALF, HALF];
      let at = (y * width + starts[x]!) * 3;
      for (let i = 0; i < counts[x]!; i++, at += 3) {
        const weight = weights[x * most + i]!;
        red += pixels[at]! * weight;
        green += pixels[at + 1]! * weight;
        blue += pixels[at + 2]! * weight;
      }
      const put = (y * to + x) * 3;
      out[put] = toByte(red);
      out[put + 1] = toByte(green);
      out[put + 2] = toByte(blue);
    }
  return { pixels: out, width: to, height };
}

function alongColumns({ pixels, width, height }: Picture, to: number, filter: Filter): Picture {
  const { starts, counts, weights, most } = weightsFor(height, to, filter);
  const row = width * 3;
  const out = new Uint8Array(row * to);
  const sums = new Int32Array(row);
  for (let y = 0; y < to; y++) {
    sums.fill(HALF);
    for (let i = 0; i < counts[y]!; i++) {
      const weight = weights[y * most + i]!;
      const at = (starts[y]! + i) * row;
      for (let x = 0; x < row; x++) sums[x]! += pixels[at + x]! * weight;
    }
    for (let x = 0; x < row; x++) out[y * row + x] = toByte(sums[x]!);
  }
  return { pixels: out, width, height: to };
}

export function resize(picture: Picture, { width, height }: Size, filter: Filter): Picture {
  const wide = picture.width === width ? picture : alongRows(picture, width, filter);
  return wide.height === height ? wide : alongColumns(wide, height, filter);
}

/** Resizes with the same proportions into the middle of a square or rectangle of one colour. */
export function resizeInto(
  picture: Picture,
  { width, height }: Size,
  filter: Filter,
  colour: readonly number[],
): Picture {
  if (picture.width === width && picture.height === height) return picture;
  const f = Math.fround; // the reference computes in 32 bits, and rounds up what they give
  const scale = Math.min(f(width / picture.width), f(height / picture.height));
  const fit = (side: number, most: number) => Math.min(Math.ceil(f(side * scale)), most);
  const inner = resize(picture, { width: fit(picture.width, width), height: fit(picture.height, height) }, filter);
  const pixels = new Uint8Array(width * height * 3);
  for (let i = 0; i < pixels.length; i++) pixels[i] = colour[i % 3]!;
  const [left, top] = [Math.trunc((width - inner.width) / 2), Math.trunc((height - inner.height) / 2)];
  const row = inner.width * 3;
  for (let y = 0; y < inner.height; y++)
    pixels.set(inner.pixels.subarray(y * row, (y + 1) * row), ((top + y) * width + left) * 3);
  return { pixels, width, height };
}

export function crop({ pixels, width }: Picture, at: { x: number; y: number }, size: Size): Picture {
  const out = new Uint8Array(size.width * size.height * 3);
  const row = size.width * 3;
  for (let y = 0; y < size.height; y++) {
    const from = ((at.y + y) * width + at.x) * 3;
    out.set(pixels.subarray(from, from + row), y * row);
  }
  return { pixels: out, ...size };
}
