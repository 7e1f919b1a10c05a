/**
 * Scrolling over more rows than a browser can draw as one element. The scroll bar spans a shorter element; a small move
 * goes pixel by pixel, and a large one (the bar is dragged) goes to the same share of the list.
 */
export const TALLEST_PX = 8_000_000;
const SPARE = 6; // rows above and below

export type Size = { rows: number; rowHeight: number; height: number };
/** `top`: pixels above the view in the whole list. `at`: the browser's own position for it. */
export type Scroll = { top: number; at: number };

const realOf = ({ rows, rowHeight }: Size) => rows * rowHeight;
export const totalOf = (size: Size) => Math.min(realOf(size), TALLEST_PX);
const furthest = (size: Size) => Math.max(0, realOf(size) - size.height);
const reachOf = (size: Size) => Math.max(1, totalOf(size) - size.height);
const clamp = (value: number, most: number) => Math.min(Math.max(0, value), most);

export function scrolledTo(at: number, before: Scroll, size: Size): Scroll {
  if (realOf(size) <= TALLEST_PX) return { top: clamp(at, furthest(size)), at };
  const delta = at - before.at;
  if (Math.abs(delta) <= size.height) return { top: clamp(before.top + delta, furthest(size)), at };
  return { top: (clamp(at, reachOf(size)) / reachOf(size)) * furthest(size), at };
}

/** The position of the scroll bar that belongs to `top`: it is set when scrolling pauses. */
export function barOf(top: number, size: Size): number {
  if (realOf(size) <= TALLEST_PX) return top;
  return Math.round((top / Math.max(1, furthest(size))) * reachOf(size));
}

export const topOf = (row: number, size: Size) => clamp(row * size.rowHeight, furthest(size));

/** The rows to draw, and the pixels above the first of them in the browser's own element. */
export function shownRows({ top, at }: Scroll, size: Size): { first: number; count: number; offset: number } {
  const first = Math.max(0, Math.floor(top / size.rowHeight) - SPARE);
  const count = Math.min(size.rows - first, Math.ceil(size.height / size.rowHeight) + 2 * SPARE);
  return { first, count: Math.max(0, count), offset: Math.max(0, at - (top - first * size.rowHeight)) };
}
