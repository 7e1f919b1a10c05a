/** Borders, windows, blank images and screens, painted by code. */
import { expect, test } from "bun:test";
import { cutOut, layoutOf } from "../../src/workers/detector/image/layout.ts";

type Picture = { pixels: Uint8Array; width: number; height: number };
type Paint = (x: number, y: number) => number;

function paint(width: number, height: number, value: Paint): Picture {
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0, i = 0; y < height; y++) for (let x = 0; x < width; x++, i += 3) pixels.fill(value(x, y), i, i + 3);
  return { pixels, width, height };
}

const grain: Paint = (x, y) => 60 + (Math.imul((x * 73_856_093) ^ (y * 19_349_663), 2_246_822_519) >>> 25);
const photo = paint(600, 400, grain);
/** The picture in a window: a bar with an address above, margins around. */
const inWindow = (width: number, height: number, left: number, top: number) =>
  paint(width, height, (x, y) => {
    if (x >= left && x < left + 600 && y >= top && y < top + 400) return grain(x - left, y - top);
    if (y > 20 && y < 34 && x > 90 && x < 260 && grain(x, y) > 120) return 30; // letters of an address
    return y < 60 ? 222 : 250;
  });
const layout = (image: Picture, isPhoto = false) => layoutOf(image, { isPhoto });

test("the picture inside a window is found to the pixel, wherever it lies", () => {
  for (const [width, height, left, top] of [
    [900, 640, 150, 120],
    [901, 643, 151, 123],
    [1280, 720, 333, 217],
    [760, 560, 9, 99],
  ] as const) {
    const image = inWindow(width, height, left, top);
    const found = layout(image);
    expect(found).toEqual({ layout: "framed", inner: { x: left, y: top, width: 600, height: 400 } });
    expect(Buffer.from(cutOut(image, found.inner!).pixels).equals(Buffer.from(photo.pixels))).toBe(true);
  }
});

test("a picture without borders, one with thin ones and one with a smooth sky stay as they are", () => {
  expect(layout(photo)).toEqual({ layout: "plain" });
  expect(layout(inWindow(610, 420, 5, 10))).toEqual({ layout: "plain" });
  const sky = paint(800, 800, (x, y) => (y < 400 ? 120 + Math.floor(y / 6) : grain(x, y)));
  expect(layout(sky)).toEqual({ layout: "plain" });
});

test("blank and flat images are blank, and dark grain is not", () => {
  for (const value of [
    () => 0,
    () => 255,
    () => 128,
    (x: number) => x >> 2,
    (_x: number, y: number) => (y * 255) / 512,
  ])
    expect(layout(paint(512, 512, value))).toEqual({ layout: "blank" });
  expect(layout(paint(512, 512, (x, y) => grain(x, y) >> 4))).toEqual({ layout: "plain" });
});

test("a flat image of the size of a screen is a screenshot, unless a camera made it", () => {
  const desk = (width: number) =>
    paint(width, 1080, (x, y) => ((x >> 6) % 3 === 0 && y % 40 < 12 && grain(x, y) > 120 ? 20 : 240));
  expect(layout(desk(1920))).toEqual({ layout: "screenshot" });
  expect(layout(desk(1920), true)).toEqual({ layout: "plain" });
  expect(layout(desk(1900))).toEqual({ layout: "plain" });
});
