/** Writes views.json: the crop plans that training and the product must agree on. */
import { join } from "node:path";
import { cutCrop, planCrops, reflected } from "../../../src/workers/detector/image/views.ts";

// biome-ignore format: a table should look like one
const SIZES: [width: number, height: number][] = [
  [1, 1], [2, 255], [7, 300], [64, 64], [255, 255], [256, 256], [257, 256], [258, 258], [259, 259], [260, 300],
  [300, 300], [447, 447], [448, 448], [449, 640], [512, 512], [512, 768], [500, 375], [640, 480], [640, 640], [700, 700],
  [768, 768], [800, 600], [900, 700], [1000, 450], [1024, 768], [1024, 1024], [1000, 1000], [1152, 896], [896, 1152],
  [1280, 720], [720, 1280], [1344, 768], [1920, 1080], [1080, 1920], [2048, 2048], [2600, 600], [3000, 2000], [4000, 3000],
  [3024, 4032], [4032, 3024], [6000, 4000], [10_000, 10_000], [2500, 460], [460, 2500], [10_000, 600], [65_500, 200],
  [200, 65_500], [65_500, 1], [12_000, 8_000], [1023, 769], [1025, 1031],
];

const plans = SIZES.map(([width, height]) => ({
  width,
  height,
  crops: planCrops(width, height).map(({ x, y }) => [x, y]),
}));
const reflections = [1, 2, 3, 4, 7, 100, 255].map((length) => ({
  length,
  sources: Array.from({ length: 32 }, (_, i) => reflected(i * 11, length)),
}));

/** pixel (x, y, c) = (7x + 13y + 101c) mod 256; the sha256 is over the crops in order, (N, 256, 256, 3). */
function pixelsHash(width: number, height: number): string {
  const pixels = new Uint8Array(width * height * 3);
  for (let i = 0; i < pixels.length; i++) {
    const at = Math.floor(i / 3);
    pixels[i] = (7 * (at % width) + 13 * Math.floor(at / width) + 101 * (i % 3)) % 256;
  }
  const crops = planCrops(width, height);
  const batch = new Uint8Array(crops.length * 256 * 256 * 3);
  crops.forEach((crop, i) => {
    cutCrop({ pixels, width, height }, crop, batch, i * 256 * 256 * 3);
  });
  return new Bun.CryptoHasher("sha256").update(batch).digest("hex");
}
const hashed = SIZES.filter(([w, h]) => w * h < 1_100_000).map(([width, height]) => ({
  width,
  height,
  sha256: pixelsHash(width, height),
}));

const lines = (rows: object[]) => rows.map((row) => `    ${JSON.stringify(row)}`).join(",\n");
await Bun.write(
  join(import.meta.dir, "views.json"),
  `{\n  "plans": [\n${lines(plans)}\n  ],\n  "reflections": [\n${lines(reflections)}\n  ],\n  "pixels": [\n${lines(hashed)}\n  ]\n}\n`,
);
