import { afterAll, expect, test } from "bun:test";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { closeEngines, GREEDY, sayOne, testEngine } from "./engines.ts";

afterAll(closeEngines);
const model = makeModel(tempDir(), { arch: "llama", type: "F32", context: 512 });
const prompt = Int32Array.from({ length: 30 }, (_, i) => 10 + (i % 5));
/** Only these tokens can be drawn, so that the same three follow each other again and again. */
const few = [40, 41, 42].map((token) => [token, 100] as const);

const rows = [
  ["the likeliest tokens", { sampling: GREEDY }],
  ["random tokens", { sampling: { ...GREEDY, temperature: 1, seed: 7, logitBias: few } }],
  ["penalties", { sampling: { ...GREEDY, temperature: 1, seed: 8, logitBias: few, frequencyPenalty: 0.5 } }],
  ["a grammar", { sampling: GREEDY, grammar: 'root ::= ("abc" | "abd")+' }],
  ["log-probabilities", { sampling: { ...GREEDY, temperature: 1, seed: 9, logitBias: few }, topLogprobs: 2 }],
] as const;

test("guesses save steps and change no token", async () => {
  const guessing = await testEngine(model, { contextLength: 512, guesses: true });
  const plain = await testEngine(model, { contextLength: 512, guesses: false });
  for (const [name, wanted] of rows) {
    const before = guessing.stats().decodeCalls;
    const generation = { prompt, maxTokens: 200, ignoreEos: true, ...wanted };
    const [got, expected] = [await sayOne(guessing, generation), await sayOne(plain, generation)];
    expect([name, got.tokens]).toEqual([name, expected.tokens]);
    expect([name, got.finish, got.completionTokens]).toEqual([name, "length", 200]);
    got.logprobs.forEach((each, i) => {
      expect(each.logprob).toBeCloseTo(expected.logprobs[i]!.logprob, 2); // several tokens at once are rounded otherwise
    });
    expect([name, guessing.stats().decodeCalls - before < 200]).toEqual([name, true]);
  }
});

test("after guesses the cache holds the text alone", async () => {
  const engine = await testEngine(model, { contextLength: 512, parallel: 1 });
  const first = await sayOne(engine, { prompt, maxTokens: 60, ignoreEos: true });
  const longer = Int32Array.from([...prompt, ...first.tokens, 12]);
  const before = engine.stats().cachedTokens;
  const second = await sayOne(engine, { prompt: longer, maxTokens: 20, ignoreEos: true });
  expect(engine.stats().cachedTokens - before).toBe(prompt.length + 59); // the last token was not decoded
  await engine.clear();
  expect(second.tokens).toEqual((await sayOne(engine, { prompt: longer, maxTokens: 20, ignoreEos: true })).tokens);
});

test("guesses stop at the end of the context, and a second stream stops them", async () => {
  const engine = await testEngine(model, { contextLength: 64, parallel: 2 });
  const whole = await sayOne(engine, { prompt, maxTokens: 500, ignoreEos: true });
  expect([whole.finish, whole.completionTokens]).toEqual(["length", 64 - 30 + 1]);
  const [a, b] = await Promise.all([
    sayOne(engine, { prompt, maxTokens: 30, ignoreEos: true }),
    sayOne(engine, { prompt: prompt.slice(3), maxTokens: 30, ignoreEos: true }),
  ]);
  expect(a.tokens).toEqual(whole.tokens.slice(0, 30));
  expect(b.completionTokens).toBe(30);
});
