import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Engine, Generation, PromptRows } from "../../src/workers/serving/engine/types.ts";
import { tempDir } from "../harness.ts";
import { gaussian, type ModelOptions, makeModel } from "../models.ts";
import { closeEngines, GREEDY, testEngine } from "./engines.ts";

const WIDTH = 64;
const MODEL: ModelOptions = { arch: "llama", type: "F32", context: 2048, width: WIDTH };
let engine: Engine;

beforeAll(async () => {
  engine = await testEngine(makeModel(tempDir(), MODEL), { contextLength: 1024, parallel: 2, images: true });
});
afterAll(closeEngines);

/** The model's own embeddings: the first numbers that its maker draws. */
const embedding = gaussian(1)(400 * WIDTH, 1);
const rowsOf = (tokens: readonly number[]) =>
  Float32Array.from(tokens.flatMap((token) => [...embedding.subarray(token * WIDTH, (token + 1) * WIDTH)]));

async function answer(given: Pick<Generation, "prompt" | "images">, samples = 1, sampling = GREEDY) {
  const run = engine.generate({
    ...given,
    maxTokens: 12,
    sampling,
    samples,
    stop: [],
    topLogprobs: 0,
    wantTokens: true,
  });
  const logprobs: number[] = [];
  const tokens: number[] = [];
  for await (const deltas of run)
    for (const delta of deltas)
      for (const { token, logprob } of delta.logprobs ?? []) {
        tokens.push(token);
        logprobs.push(logprob);
      }
  return { tokens, logprobs, cached: await run.cachedTokens };
}

/** The prompt with the tokens of `at … at + rows` as rows of an image. `key` stands for the hash of the image. */
function asImage(
  prompt: readonly number[],
  at: number,
  rows: number,
  key: number,
): Pick<Generation, "prompt" | "images"> {
  const image: PromptRows = { at, rows, embeddings: rowsOf(prompt.slice(at, at + rows)), together: false };
  const ids = prompt.map((token, i) => (i >= at && i < at + rows ? -key : token));
  return { prompt: Int32Array.from(ids), images: [image] };
}

const text = (length: number, seed: number) =>
  Array.from({ length }, (_, i) => 33 + ((i * 7919 + seed * 104_729) % 90));

test("rows are read like the tokens whose embeddings they are, also over several batches", async () => {
  for (const [length, at, rows] of [
    [40, 5, 20],
    [40, 0, 30],
    [900, 100, 700],
  ] as const) {
    const prompt = text(length, length + at);
    const wanted = await answer({ prompt: Int32Array.from(prompt) });
    await engine.clear();
    const got = await answer(asImage(prompt, at, rows, 1));
    expect(got.tokens).toEqual(wanted.tokens);
    for (const [i, logprob] of wanted.logprobs.entries()) expect(got.logprobs[i]!).toBeCloseTo(logprob, 2);
    await engine.clear();
  }
});

test("the first token of the vocabulary may stand before an image and follow it, as every other one", async () => {
  const prompt = [0, ...text(40, 4), 0, 0, 33];
  const { tokens } = await answer(asImage(prompt, 5, 20, 2), 1, { ...GREEDY, logitBias: [[0, 1_000]] });
  expect(tokens).toEqual(Array(12).fill(0));
  await engine.clear();
});

test("the cache knows an image by its hash, and keeps it whole or not at all", async () => {
  const prompt = text(100, 3);
  const first = await answer(asImage(prompt, 40, 40, 7));
  expect(first.cached).toBe(0);
  const again = await answer(asImage(prompt, 40, 40, 7));
  expect([again.cached, again.tokens]).toEqual([99, first.tokens]);
  const other = [...prompt.slice(0, 40), ...text(40, 99), ...prompt.slice(80)];
  expect((await answer(asImage(other, 40, 40, 8))).cached).toBe(40);
  const alike = asImage(prompt, 40, 40, 7);
  alike.prompt[60] = -9; // the hash begins alike, and the image is another one
  expect((await answer(alike)).cached).toBe(40);
  await engine.clear();
});

test("samples of one request share the image, and running texts go on beside it", async () => {
  const prompt = text(700, 5);
  const alone = await answer({ prompt: Int32Array.from(prompt) });
  await engine.clear();
  const [beside, both] = await Promise.all([
    answer({ prompt: Int32Array.from(text(20, 8)) }),
    answer(asImage(prompt, 50, 600, 3), 2),
  ]);
  expect(beside.tokens).toHaveLength(12);
  expect(both.tokens).toHaveLength(24);
  expect([...both.tokens].sort()).toEqual([...alone.tokens, ...alone.tokens].sort());
  await engine.clear();
});

test("a request that is cancelled amid an image frees its slot, and a probe uses no slot with an image", async () => {
  const stop = new AbortController();
  const sampling = GREEDY;
  const given = { ...asImage(text(900, 6), 10, 800, 4), maxTokens: 500, sampling, samples: 1, stop: [] };
  const run = engine.generate(given, stop.signal);
  stop.abort();
  for await (const _ of run);
  const probe = engine.generate({ ...given, prompt: Int32Array.of(40), images: [], maxTokens: 1, probe: true });
  for await (const _ of probe);
  expect((await answer({ prompt: Int32Array.from(text(30, 2)) })).tokens).toHaveLength(12);
});

test("a prompt must not end with an image", () => {
  expect(() =>
    engine.generate({ ...asImage(text(10, 1), 5, 5, 2), maxTokens: 1, sampling: GREEDY, samples: 1, stop: [] }),
  ).toThrow("ends with an image");
});
