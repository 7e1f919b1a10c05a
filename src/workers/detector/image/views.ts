/**
 * Chooses the crops of an image by its width and height alone, in integers, exactly as in training
 * (`models/detector/networks/views.py`). Both must satisfy the cases in `models/detector/cases/views.json`.
 *
 * Crops are squares of native pixels: nothing is resized. A side under 256 is first reflected to 256, at its end and
 * without repeating the border pixel. The grid has as many crops as fit 96 pixels apart, at most 6. Among grids of the
 * same number the one with the squarest cells wins, then the wider one. Each crop is in the middle of its cell and
 * begins at 3 modulo 8, so that it never lies on the block grid of a JPEG.
 */
import { CROP_SIZE } from "../../protocol_detector.ts";

export const CROP = CROP_SIZE;
export const MAX_CROPS = 6;
const LEAST_STEP = 96; // small images are covered completely, and plain crops are outvoted
const BLOCK = 8;
const PHASE = 3;

export type Crop = { x: number; y: number };

/** Row by row, left to right. `x` and `y` are coordinates after reflection. */
export function planCrops(width: number, height: number): Crop[] {
  const [w, h] = [Math.max(width, CROP), Math.max(height, CROP)];
  const [columns, rows] = planGrid(w, h);
  const crops: Crop[] = [];
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++)
      crops.push({ x: offset(column, columns, w), y: offset(row, rows, h) });
  return crops;
}

function planGrid(w: number, h: number): [columns: number, rows: number] {
  let best: [columns: number, rows: number] = [1, 1];
  for (let columns = 1; columns <= Math.min(fitting(w), MAX_CROPS); columns++) {
    const rows = Math.min(fitting(h), Math.floor(MAX_CROPS / columns));
    const [count, most] = [columns * rows, best[0] * best[1]];
    if (count > most || (count === most && !isSquarer(best, [columns, rows], w, h))) best = [columns, rows];
  }
  return best;
}

const fitting = (length: number) => 1 + Math.floor((length - CROP) / LEAST_STEP);

/** True if the cells of `a` are strictly closer to squares than those of `b`, by the ratio of their sides. */
function isSquarer(a: readonly [number, number], b: readonly [number, number], w: number, h: number): boolean {
  const sides = ([columns, rows]: readonly [number, number]) => {
    const [wide, high] = [w * rows, h * columns]; // width : height of a cell, times columns × rows
    return wide > high ? [wide, high] : [high, wide];
  };
  const [[longA, shortA], [longB, shortB]] = [sides(a), sides(b)] as [[number, number], [number, number]];
  return longA * shortB < longB * shortA;
}

function offset(i: number, n: number, length: number): number {
  const last = length - CROP;
  const centred = Math.floor(((2 * i + 1) * length) / (2 * n)) - CROP / 2;
  const wanted = Math.min(Math.max(centred, 0), last);
  const shifted = Math.floor(wanted / BLOCK) * BLOCK + PHASE;
  if (shifted <= last) return shifted;
  return shifted >= BLOCK ? shifted - BLOCK : last; // with fewer than 3 pixels of room, as far as possible
}

/** Maps position `i` of a reflected side to its source: 0 1 2 3 2 1 0 1 … for a length of 4. */
export function reflected(i: number, length: number): number {
  if (length === 1) return 0;
  const period = 2 * (length - 1);
  const at = i % period;
  return at < length ? at : period - at;
}

/** Copies one crop of tightly packed RGB to `begin` of `into`: (256, 256, 3). */
export function cutCrop(
  image: { pixels: Uint8Array; width: number; height: number },
  crop: Crop,
  into: Uint8Array,
  begin: number,
) {
  const { pixels, width, height } = image;
  const bytes = CROP * 3;
  const [source, target] = [bufferOf(pixels), bufferOf(into)];
  for (let row = 0; row < CROP; row++) {
    const from = reflected(crop.y + row, height) * width;
    const to = begin + row * bytes;
    if (width >= CROP) {
      source.copy(target, to, (from + crop.x) * 3, (from + crop.x) * 3 + bytes);
      continue;
    }
    for (let column = 0; column < CROP; column++) {
      const at = (from + reflected(crop.x + column, width)) * 3;
      for (let c = 0; c < 3; c++) into[to + column * 3 + c] = pixels[at + c]!;
    }
  }
}

/** Copying rows with `subarray` is half as fast. */
const bufferOf = ({ buffer, byteOffset, length }: Uint8Array) => Buffer.from(buffer, byteOffset, length);
