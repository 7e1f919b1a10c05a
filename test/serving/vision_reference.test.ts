/**
 * The same models, projectors and pictures as libmtmd of llama.cpp read: the words around an image, its rows, and what the
 * model says after it. test/vision_reference.json has libmtmd's numbers, computed once without flash attention.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { toServed } from "../../src/workers/serving/request.ts";
import { withPictures } from "../../src/workers/serving/vision/prompt.ts";
import { openVision, type Vision } from "../../src/workers/serving/vision/vision.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { makePicture, makeProjector } from "../projectors.ts";
import { VISION_CASES } from "../vision_cases.ts";
import reference from "../vision_reference.json";
import { closeEngines, sayOne, testEngine } from "./engines.ts";

type Rows = { rows: number; sum: number; squares: number; some: number[] };
type Reference = { pieces: (number[] | Rows)[]; token: number; logprob: number };
const opened: Vision[] = [];
afterAll(async () => {
  for (const vision of opened) vision.close();
  await closeEngines();
});

describe.each(Object.entries(VISION_CASES))("%s", (name, { model, projector, picture }) => {
  const wanted = (reference as Record<string, Reference>)[name] as Reference;

  test("is read as llama.cpp reads it", async () => {
    const dir = tempDir();
    const engine = await testEngine(makeModel(dir, model), { contextLength: 512, images: true });
    const path = makeProjector(dir, projector);
    const vision = await openVision({ dataDir: dir, path, threads: 1, gpus: [], width: 64 });
    opened.push(vision);
    const served = toServed(engine, undefined, vision);
    const seen = makePicture(picture.width, picture.height, picture.seed);
    const { tokenize } = served.newQuotes();
    const reading = { pictures: [seen], tokenize, signal: new AbortController().signal };
    const { prompt, images } = await withPictures(served, "ab\uE0F30\uE0F4cd", reading);

    let at = 0;
    const rows = [...images];
    for (const piece of wanted.pieces) {
      if (Array.isArray(piece)) {
        expect([...prompt.subarray(at, at + piece.length)]).toEqual(piece);
        at += piece.length;
        continue;
      }
      const image = rows.shift();
      expect([image?.at, image?.rows]).toEqual([at, piece.rows]);
      const values = [...(image?.embeddings ?? [])];
      const sum = values.reduce((a, b) => a + b, 0);
      expect(Math.abs(sum - piece.sum)).toBeLessThan(0.2);
      expect(values.reduce((a, b) => a + b * b, 0) / piece.squares).toBeCloseTo(1, 2);
      for (const [i, value] of piece.some.entries())
        expect(Math.abs(values[Math.floor((i * (values.length - 1)) / 7)]! - value)).toBeLessThan(0.01);
      at += piece.rows;
    }
    expect([rows.length, prompt.length]).toEqual([0, at]);

    const said = await sayOne(engine, { prompt, images, maxTokens: 1, topLogprobs: 0 });
    expect(said.logprobs[0]?.token).toBe(wanted.token);
    expect(Math.abs((said.logprobs[0]?.logprob ?? 0) - wanted.logprob)).toBeLessThan(0.01);
  });
});
