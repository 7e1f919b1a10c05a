// tier: all (networks of the detectors)
/** Images whose rows take the memory, not their number of pixels. */
import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import sharp from "sharp";
import { mostBytesHeld } from "../../src/workers/detector/image/decode.ts";
import { tempDir } from "../harness.ts";
import { Detector } from "./detector.ts";
import { FAKES, writeModels } from "./fake_models.ts";

const AT_ONCE = 4;
const SLACK_BYTES = 150e6; // the request's bytes, the runtime's heap, what the allocator keeps
const modelsDir = writeModels(join(tempDir(), "models"), FAKES);
let detector: Detector;
afterEach(() => detector.close());

/** How much the process grows, at most, over `AT_ONCE` of these together. */
async function growth(bytes: Uint8Array, maxPixels?: number) {
  detector = new Detector({ threads: 1, modelsDir, ...(maxPixels ? { maxPixels } : {}) });
  await detector.open();
  const before = await detector.peakBytes();
  const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => detector.score(bytes)));
  return { answers, bytes: (await detector.peakBytes()) - before };
}

/** A PNG of 1 × 1 pixels whose header says otherwise. */
async function claiming(width: number, height: number): Promise<Uint8Array> {
  const png = Buffer.from(
    await sharp({ create: { width: 1, height: 1, channels: 3, background: "red" } })
      .png()
      .toBuffer(),
  );
  png.writeUInt32BE(width, 16);
  png.writeUInt32BE(height, 20);
  png.writeUInt32BE(Bun.hash.crc32(png.subarray(12, 29)), 29);
  return png;
}

test.each([
  [100_000_000, 1],
  [1, 100_000_000],
  [65_536, 1],
])(
  "L1: a header of %d × %d pixels is refused before anything is decoded",
  async (width, height) => {
    const { answers, bytes } = await growth(await claiming(width, height));
    for (const { refused } of answers) {
      expect(refused).toMatchObject({ code: "IMAGE_TOO_LARGE", error: expect.stringContaining("65535") });
    }
    expect(bytes).toBeLessThan(SLACK_BYTES);
  },
  120_000,
);

test("L1: the widest images, four together, stay below the budget of the gate", async () => {
  const [width, height] = [65_535, 512];
  const create = { width, height, channels: 3 as const, background: "grey" };
  const png = await sharp({ create, limitInputPixels: false }).png({ compressionLevel: 1 }).toBuffer();
  const maxPixels = width * height;
  const { answers, bytes } = await growth(png, maxPixels);
  expect(answers.map(({ status }) => status)).toEqual(Array(AT_ONCE).fill(200));
  expect(bytes).toBeLessThan(mostBytesHeld({ maxPixels }));
}, 120_000);
