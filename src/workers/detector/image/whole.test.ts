import { expect, test } from "bun:test";
import cases from "../../../../models/detector/cases/whole_view.json";
import { smallPicture, WHOLE_SIDE } from "./whole.ts";

/** The same pixels as `pattern` in models/detector/networks/whole_view.py. */
function patternOf(width: number, height: number) {
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const pixel = Math.floor(i / 3);
    const [x, y] = [pixel % width, Math.floor(pixel / width)];
    return 7 * x + 13 * y + 101 * (i % 3) + ((x * y) % 251);
  });
  return { pixels, width, height };
}

const never = new AbortController().signal;
const hashOf = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

test.each(cases)("the small picture of $width × $height holds the bytes that training sees", async (at) => {
  expect(hashOf(await smallPicture(patternOf(at.width, at.height), never))).toBe(at.sha256);
});

test("an image of 128 × 128 stays as it is", async () => {
  const image = patternOf(WHOLE_SIDE, WHOLE_SIDE);
  expect(await smallPicture(image, never)).toEqual(image.pixels);
});

test("the sums of a white image of many rows do not overflow", async () => {
  const image = { pixels: new Uint8Array(2 * 40_000 * 3).fill(255), width: 2, height: 40_000 };
  expect(new Set(await smallPicture(image, never))).toEqual(new Set([255]));
});

test("an image that is read in several strips has the same small picture, and others get their turn", async () => {
  const [width, height] = [5_000, 1_280];
  const image = { pixels: new Uint8Array(width * height * 3), width, height };
  image.pixels.fill(200, 0, (width * height * 3) / 2); // the upper half
  let turns = 0;
  setImmediate(() => turns++);
  const small = await smallPicture(image, never);
  const half = small.length / 2;
  expect([new Set(small.subarray(0, half)), new Set(small.subarray(half))]).toEqual([new Set([200]), new Set([0])]);
  expect(turns).toBe(1);
});

const hasNumpy = Bun.which("python3") !== null && Bun.spawnSync(["python3", "-c", "import numpy"]).success;

test.skipIf(!hasNumpy)(
  "the script for training satisfies the same cases",
  () => {
    const script = `${import.meta.dir}/../../../../models/detector/networks/whole_view.py`;
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const { exitCode, stdout } = Bun.spawnSync(["python3", script], { env });
    expect([exitCode, stdout.toString()]).toEqual([0, `${cases.length} small pictures: the same\n`]);
  },
  60_000,
);
