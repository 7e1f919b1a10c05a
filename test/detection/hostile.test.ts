// tier: all (networks of the detectors)
/** Whatever is sent, the answer is a result or a refusal with words; the worker may die of it, and comes back. */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { tempDir } from "../harness.ts";
import { SEED, seedFor, sweep } from "../sweep.ts";
import { Detector } from "./detector.ts";
import { FAKES, writeModels } from "./fake_models.ts";
import { type Hostile, hostileFiles } from "./hostile_files.ts";

const COUNT = sweep({ quick: 400, full: 5_000 });
const SIDE_BY_SIDE = 6;
/** Nine bytes for each pixel of the largest image that is let in; the libraries, the models and what is not yet freed. */
const MOST_RSS_BYTES = 9 * 100e6 + 600e6;

const detector = new Detector({ modelsDir: writeModels(join(tempDir(), "models"), FAKES), maxPixels: 100e6 });
afterAll(() => detector.close());

type Ends = { results: number; refusals: Record<string, number>; deaths: string[]; wrong: string[]; rss: number };

/** Like the server, sends a file again when its worker died, and blames the file the second time. */
async function send({ name, bytes, models }: Hostile, ends: Ends) {
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      const { status, scored, refused } = await detector.score(bytes, { models });
      if (scored && status === 200) ends.results++;
      else if (refused && status === 422) ends.refusals[refused.code] = (ends.refusals[refused.code] ?? 0) + 1;
      else ends.wrong.push(`${name}: ${status}`);
      return;
    } catch (error) {
      if (detector.exits.length === 0) return void ends.wrong.push(`${name}: ${error}`);
      ends.deaths.push(name);
    }
  }
}

test(`${COUNT} hostile files: a result or a refusal, and bounded memory (seed ${SEED})`, async () => {
  const ends: Ends = { results: 0, refusals: {}, deaths: [], wrong: [], rss: 0 };
  const files = hostileFiles(seedFor("hostile files"), COUNT);
  const client = async () => {
    for (let next = await files.next(); !next.done; next = await files.next()) {
      await send(next.value, ends);
      if (ends.results % 50 === 0) ends.rss = Math.max(ends.rss, await detector.peakBytes().catch(() => 0));
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, client));
  ends.rss = Math.max(ends.rss, await detector.peakBytes());
  expect(ends.wrong).toEqual([]);
  expect(ends.results).toBeGreaterThan(COUNT / 10); // some are only a little wrong
  expect(Object.keys(ends.refusals).sort()).toEqual(["IMAGE_TOO_LARGE", "INVALID_IMAGE", "UNSUPPORTED_FORMAT"]);
  expect(ends.rss).toBeLessThan(MOST_RSS_BYTES);
}, 600_000);
