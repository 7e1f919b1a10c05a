/** The rows of a long list that are on the screen. */

/** Browsers cannot draw elements taller than about 16 million pixels: a longer list is scaled. */
export const TALLEST_PX = 8_000_000;

export type Viewport = { scrollTop: number; height: number };
export type Rows = { first: number; count: number /** Pixels above the first row. */; offset: number; total: number };

const SPARE = 8; // rows above and below

/** `rows`: how many there are; `rowHeight` in pixels. */
export function visibleRows(rows: number, rowHeight: number, { scrollTop, height }: Viewport): Rows {
  const real = rows * rowHeight;
  const total = Math.min(real, TALLEST_PX);
  const reach = Math.max(1, total - height);
  const top = real === total ? scrollTop : (Math.min(scrollTop, reach) / reach) * Math.max(0, real - height);
  const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
  const count = Math.min(rows - first, Math.ceil(height / rowHeight) + 2 * SPARE);
  return { first, count: Math.max(0, count), offset: scrollTop - (top - first * rowHeight), total };
}
