/** Scores of a grid of squares show where in an image the evidence is. The grid becomes a transparent picture. */
import type { Heatmap } from "../../protocol_detector.ts";
import type { SharpLibrary } from "./decode.ts";
import { CROP, type Crop } from "./views.ts";

const MOST_CELLS = 8; // along a side: at most 64 squares, a second of work
const STEP = CROP / 2; // squares overlap by half
const MOST_SIDE = 512; // of the picture
const MOST_OPACITY = 160;

export type Grid = { columns: number; rows: number; squares: Crop[] };

/** Evenly over the image, row by row. */
export function planHeatmap(width: number, height: number): Grid {
  const along = (length: number) => {
    const room = Math.max(0, length - CROP);
    const count = Math.min(MOST_CELLS, 1 + Math.ceil(room / STEP));
    return Array.from({ length: count }, (_, i) => (count === 1 ? 0 : Math.round((i * room) / (count - 1))));
  };
  const [xs, ys] = [along(width), along(height)];
  return { columns: xs.length, rows: ys.length, squares: ys.flatMap((y) => xs.map((x) => ({ x, y }))) };
}

/** `scores` in the order of the squares; null where no model has a number. */
export async function drawHeatmap(
  sharp: SharpLibrary,
  size: { width: number; height: number },
  { columns, rows }: Grid,
  scores: readonly (number | null)[],
): Promise<Heatmap> {
  const pixels = Buffer.from(scores.flatMap(colourOf));
  const scale = Math.min(1, MOST_SIDE / Math.max(size.width, size.height));
  const side = (length: number) => Math.max(1, Math.round(length * scale));
  const picture = sharp(pixels, { raw: { width: columns, height: rows, channels: 4 } })
    .resize(side(size.width), side(size.height), { fit: "fill", kernel: "cubic" })
    .png({ compressionLevel: 9, palette: true });
  return { columns, rows, scores: [...scores], png: (await picture.toBuffer()).toString("base64") };
}

/** Red for generated, blue for real; the further from one half, the more opaque. */
function colourOf(score: number | null): [red: number, green: number, blue: number, alpha: number] {
  if (score === null) return [0, 0, 0, 0];
  const alpha = Math.round(Math.abs(score - 0.5) * 2 * MOST_OPACITY);
  return score >= 0.5 ? [220, 40, 30, alpha] : [30, 90, 220, alpha];
}
