import { afterAll, expect, test } from "bun:test";
import { decodeOne } from "../../src/workers/serving/health.ts";
import { tempDir } from "../harness.ts";
import { makeAdapter, makeModel } from "../models.ts";
import { closeEngines, GREEDY, say, sayOne, testEngine } from "./engines.ts";

afterAll(closeEngines);
const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32", context: 4096 });
const numbers = (count: number, step: number) => Int32Array.from({ length: count }, (_, i) => 10 + ((i * step) % 200));

test("a batch stays within its size when a long prompt, a stream and the idle slot between them share it", async () => {
  const engine = await testEngine(model, { contextLength: 4096, parallel: 3 });
  // now its speed is known: the next prompts come in large parts
  await say(engine, { prompt: numbers(600, 3), maxTokens: 1 });
  const [, stream, long] = await Promise.all([
    sayOne(engine, { prompt: numbers(8, 7), maxTokens: 1 }), // the slot in the middle, idle soon
    sayOne(engine, { prompt: numbers(8, 5), maxTokens: 100, ignoreEos: true }),
    sayOne(engine, { prompt: numbers(3000, 11), maxTokens: 4, ignoreEos: true }),
  ]);
  expect([stream.completionTokens, long.completionTokens]).toEqual([100, 4]);
});

test("a temperature close to 0 takes the likeliest token, as 0 does", async () => {
  const engine = await testEngine(model);
  const prompt = numbers(20, 13);
  const greedy = await sayOne(engine, { prompt });
  for (const temperature of [1e-300, 1e-40, 1e-38, 1e-6]) {
    const { tokens } = await sayOne(engine, { prompt, sampling: { ...GREEDY, temperature } });
    expect(tokens).toEqual(greedy.tokens);
  }
});

test("a health probe does not lose the cache of an adapter's conversation either", async () => {
  const options = { arch: "llama", type: "F32", context: 4096 } as const;
  const engine = await testEngine(model, { parallel: 1 });
  await engine.attach("a", makeAdapter(dir, options));
  const prompt = numbers(50, 3);
  await sayOne(engine, { prompt, adapter: "a", maxTokens: 4 });
  await decodeOne(engine);
  const before = engine.stats().cachedTokens;
  await sayOne(engine, { prompt, adapter: "a", maxTokens: 4 });
  expect(engine.stats().cachedTokens - before).toBe(49);
  await engine.detach("a");
  expect(await decodeOne(engine)).toBeGreaterThan(0);
});
