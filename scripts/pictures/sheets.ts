/** Contact sheets: many pictures on one, to look at all of them in a short time. */
import { basename, join } from "node:path";
import sharp, { type OverlayOptions } from "sharp";

const GAP = 12;
const NAME_PX = 22;
const SHEET = { width: 1960, height: 1960 };

/** Writes `sheet-NAME-1.png` and so on, with the pictures in their order, each `across` to a line. */
export async function writeSheets(dir: string, name: string, files: readonly string[], across: number) {
  const width = Math.floor((SHEET.width - GAP * (across + 1)) / across);
  const tiles = await Promise.all(files.map((file) => tileOf(file, width)));
  let sheet: OverlayOptions[] = [];
  let [left, top, lineHeight, sheets] = [GAP, GAP, 0, 0];
  const end = async () => {
    if (sheet.length === 0) return;
    sheets += 1;
    const empty = { create: { ...SHEET, height: top + lineHeight + GAP, channels: 3, background: "#777" } } as const;
    await sharp(empty)
      .composite(sheet)
      .png()
      .toFile(join(dir, `sheet-${name}-${sheets}.png`));
    sheet = [];
  };
  for (const { input, height } of tiles) {
    if (left + width > SHEET.width) [left, top, lineHeight] = [GAP, top + lineHeight + GAP, 0];
    if (top + height > SHEET.height && sheet.length > 0) {
      await end();
      [left, top, lineHeight] = [GAP, GAP, 0];
    }
    sheet.push({ input, left, top });
    left += width + GAP;
    lineHeight = Math.max(lineHeight, height);
  }
  await end();
}

/** A picture with its name above. The lower part of a long page is left out. */
async function tileOf(file: string, width: number): Promise<{ input: Buffer; height: number }> {
  const scaled = await sharp(file).resize({ width }).png().toBuffer({ resolveWithObject: true });
  const height = Math.min(scaled.info.height, SHEET.height - NAME_PX - 2 * GAP);
  const page = await sharp(scaled.data).extract({ left: 0, top: 0, width, height }).toBuffer();
  const title = `<svg width="${width}" height="${NAME_PX}"><text x="4" y="16" font-size="14" font-family="sans-serif" fill="#fff">${basename(file, ".png")}</text></svg>`;
  const input = await sharp(page)
    .extend({ top: NAME_PX, background: "#333" })
    .composite([{ input: Buffer.from(title), left: 0, top: 0 }])
    .png()
    .toBuffer();
  return { input, height: height + NAME_PX };
}
