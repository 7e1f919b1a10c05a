import { expect, test } from "bun:test";
import cases from "../../../../models/detector/cases/views.json";
import { CROP, cutCrop, MAX_CROPS, planCrops, reflected } from "./views.ts";

test.each(cases.plans)("$width × $height is cut at the same positions as in training", ({ width, height, crops }) => {
  expect(planCrops(width, height).map(({ x, y }) => [x, y])).toEqual(crops);
});

test.each(cases.reflections)("a side of $length is reflected as in training", ({ length, sources }) => {
  expect(sources.map((_, i) => reflected(i * 11, length))).toEqual(sources);
});

test.each(cases.pixels)("the crops of $width × $height hold the pixels that training sees", (at) => {
  const { width, height } = at;
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++) for (let c = 0; c < 3; c++) pixels[i++] = 7 * x + 13 * y + 101 * c;
  const crops = planCrops(width, height);
  const batch = new Uint8Array(crops.length * CROP * CROP * 3);
  for (const [i, crop] of crops.entries()) cutCrop({ pixels, width, height }, crop, batch, i * CROP * CROP * 3);
  expect(new Bun.CryptoHasher("sha256").update(batch).digest("hex")).toBe(at.sha256);
});

test("for every size there are at most 6 crops, all inside, and off the block grid if possible", () => {
  for (let width = 1; width < 3_000; width += 37)
    for (let height = 1; height < 3_000; height += 41) {
      const crops = planCrops(width, height);
      const [right, bottom] = [Math.max(width, CROP) - CROP, Math.max(height, CROP) - CROP];
      const isFine = (at: number, last: number) => at >= 0 && at <= last && (last < 3 ? at === last : at % 8 === 3);
      if (crops.length < 1 || crops.length > MAX_CROPS) throw new Error(`${width} × ${height}: ${crops.length} crops`);
      if (!crops.every(({ x, y }) => isFine(x, right) && isFine(y, bottom))) throw new Error(`${width} × ${height}`);
      if (new Set(crops.map(({ x, y }) => `${x},${y}`)).size !== crops.length) throw new Error("a crop twice");
    }
});
