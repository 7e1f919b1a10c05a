/**
 * Finds what surrounds the picture in an image: nothing, flat borders, or the window of a program. The
 * networks can say nothing of a blank image and of a screenshot without a picture. Borders are cut off, so that the picture alone is scored.
 *
 * The image is divided into cells of 16 × 16 pixels. A cell is flat if its sampled pixels have one colour, as borders and
 * windows have and photographs do not.
 */
import type { Layout } from "../../protocol_detector.ts";
import type { Pixels } from "./decode.ts";

export type Area = { x: number; y: number; width: number; height: number };
export type Framing = { layout: Layout; inner?: Area };

const CELL = 16;
const ROW_STEP = 4;
const LEAST_SIDE = 256; // of the picture inside
const LEAST_FLAT = 0.06; // surroundings are a tenth of the image, and mostly flat
const MOST_OUTSIDE_COLOURS = 0.5; // the share of the most common colour among flat cells
const SIZES =
  "1920x1080 2560x1440 3840x2160 1366x768 1536x864 1440x900 1680x1050 1280x720 1280x800 1280x1024 1600x900 1920x1200 2560x1600 2880x1800 3024x1964 3456x2234 3440x1440 750x1334 828x1792 1080x2340 1125x2436 1170x2532 1179x2556 1206x2622 1242x2688 1284x2778 1290x2796 1320x2868 1080x1920 1080x2400 1440x3200 1440x3120 1536x2048 1668x2388 2048x2732";
const SCREENS = new Set(SIZES.split(" ").flatMap((size) => [size, size.split("x").reverse().join("x")]));

type Cells = { columns: number; rows: number; isFlat: Uint8Array; colours: Int32Array; rough: number };

/** `isPhoto`: a camera is named, or the format is one of cameras, so the size of a screen says nothing. */
export function layoutOf(image: Pixels, { isPhoto }: { isPhoto: boolean }): Framing {
  const cells = readCells(image);
  if (cells.rough < 0.005) return { layout: "blank" };
  const flat = cells.isFlat.reduce((sum, each) => sum + each, 0) / Math.max(1, cells.isFlat.length);
  const inner = flat < LEAST_FLAT ? undefined : innerPicture(image, cells);
  if (inner) return { layout: "framed", inner };
  const isScreen = !isPhoto && SCREENS.has(`${image.width}x${image.height}`);
  return { layout: isScreen && flat >= 0.5 ? "screenshot" : "plain" };
}

function readCells({ pixels, width, height }: Pixels): Cells {
  const [columns, rows] = [Math.floor(width / CELL), Math.floor(height / CELL)];
  const isFlat = new Uint8Array(columns * rows);
  const colours = new Int32Array(columns * rows);
  let [rough, seen] = [0, 0];
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      const corner = (row * CELL * width + column * CELL) * 3;
      const middle = corner + (CELL / 2) * width * 3 + 1; // green
      for (let x = 1, at = middle + 3; x < CELL - 1; x++, at += 3) {
        seen++;
        if (Math.abs(pixels[at - 3]! - 2 * pixels[at]! + pixels[at + 3]!) > 1) rough++;
      }
      const isOne = hasOneColour(pixels, corner, width * 3);
      isFlat[row * columns + column] = isOne ? 1 : 0;
      colours[row * columns + column] = (pixels[corner]! << 16) | (pixels[corner + 1]! << 8) | pixels[corner + 2]!;
    }
  return { columns, rows, isFlat, colours, rough: seen === 0 ? 1 : rough / seen };
}

function hasOneColour(pixels: Uint8Array, corner: number, line: number): boolean {
  const [red, green, blue] = [pixels[corner]!, pixels[corner + 1]!, pixels[corner + 2]!];
  for (let y = 0; y < CELL; y += ROW_STEP) {
    const end = corner + y * line + CELL * 3;
    for (let at = end - CELL * 3; at < end; at += 3) {
      if (Math.abs(pixels[at]! - red) > 1 || Math.abs(pixels[at + 1]! - green) > 1) return false;
      if (Math.abs(pixels[at + 2]! - blue) > 1) return false;
    }
  }
  return true;
}

/** The largest group of touching cells that are not flat, if it is a rectangle with flat surroundings. */
function innerPicture(image: Pixels, cells: Cells): Area | undefined {
  const group = largestGroup(cells);
  if (!group) return undefined;
  const { left, right, top, bottom, count } = group;
  const inside = (right - left + 1) * (bottom - top + 1);
  const all = cells.columns * cells.rows;
  if (count < 0.92 * inside || inside < 0.2 * all || inside > 0.9 * all) return undefined;
  const outside: number[] = [];
  for (let i = 0; i < all; i++) {
    const [column, row] = [i % cells.columns, Math.floor(i / cells.columns)];
    if (column < left || column > right || row < top || row > bottom) outside.push(i);
  }
  const flat = outside.filter((i) => cells.isFlat[i] === 1);
  if (flat.length < 0.6 * outside.length) return undefined;
  const counts = new Map<number, number>();
  for (const i of flat) counts.set(cells.colours[i]!, (counts.get(cells.colours[i]!) ?? 0) + 1);
  if (Math.max(...counts.values()) < MOST_OUTSIDE_COLOURS * flat.length) return undefined;
  const area = refined(image, group);
  return Math.min(area.width, area.height) >= LEAST_SIDE ? area : undefined;
}

type Group = { left: number; right: number; top: number; bottom: number; count: number };

function largestGroup({ columns, rows, isFlat }: Cells): Group | undefined {
  const seen = Uint8Array.from(isFlat);
  let largest: Group | undefined;
  for (let start = 0; start < seen.length; start++) {
    if (seen[start]) continue;
    const group: Group = { left: columns, right: 0, top: rows, bottom: 0, count: 0 };
    const pending = [start];
    seen[start] = 1;
    for (let i = pending.pop(); i !== undefined; i = pending.pop()) {
      const [column, row] = [i % columns, Math.floor(i / columns)];
      group.count++;
      group.left = Math.min(group.left, column);
      group.right = Math.max(group.right, column);
      group.top = Math.min(group.top, row);
      group.bottom = Math.max(group.bottom, row);
      for (const next of [column > 0 ? i - 1 : -1, column + 1 < columns ? i + 1 : -1, i - columns, i + columns])
        if (next >= 0 && next < seen.length && seen[next] === 0) {
          seen[next] = 1;
          pending.push(next);
        }
    }
    if (group.count > (largest?.count ?? 0)) largest = group;
  }
  return largest;
}

/** The exact edges: the outermost lines of pixels near the cells' edges that have more than one colour. */
function refined({ pixels, width, height }: Pixels, { left, right, top, bottom }: Group): Area {
  const [x0, x1] = [left * CELL, Math.min(width, (right + 1) * CELL)];
  const [y0, y1] = [top * CELL, Math.min(height, (bottom + 1) * CELL)];
  const isBusy = (from: number, step: number, count: number) => {
    let changes = 0;
    for (let i = 1, at = from + step; i < count; i++, at += step) {
      const before = at - step;
      for (let c = 0; c < 3; c++) if (Math.abs(pixels[at + c]! - pixels[before + c]!) > 1) changes++;
    }
    return changes > count / 10;
  };
  const isRow = (y: number) => isBusy((y * width + x0) * 3, 3, x1 - x0);
  const isColumn = (x: number) => isBusy((y0 * width + x) * 3, width * 3, y1 - y0);
  const first = (from: number, is: (at: number) => boolean) => {
    for (let at = from; at < from + 2 * CELL; at++) if (is(at)) return at;
    return from;
  };
  const last = (from: number, most: number, is: (at: number) => boolean) => {
    for (let at = Math.min(most, from) - 1; at >= from - 2 * CELL; at--) if (is(at)) return at + 1;
    return Math.min(most, from);
  };
  const [x, y] = [first(Math.max(0, x0 - CELL), isColumn), first(Math.max(0, y0 - CELL), isRow)];
  return {
    x,
    y,
    width: last(x1 + CELL, width, isColumn) - x,
    height: last(y1 + CELL, height, isRow) - y,
  };
}

/** Moves the area to the begin of the buffer: the rest of the image is lost, and no more memory is used. */
export function cutOut({ pixels, width }: Pixels, area: Area): Pixels {
  const line = area.width * 3;
  for (let row = 0; row < area.height; row++) {
    const from = ((area.y + row) * width + area.x) * 3;
    pixels.copyWithin(row * line, from, from + line);
  }
  return { pixels: pixels.subarray(0, area.height * line), width: area.width, height: area.height };
}
