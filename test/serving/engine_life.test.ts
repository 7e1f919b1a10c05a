/** Streams, adapters and embeddings over the life of an engine. */
import { afterAll, expect, test } from "bun:test";
import { ContextOverflow } from "../../src/workers/serving/engine/types.ts";
import { decodeOne } from "../../src/workers/serving/health.ts";
import { tempDir, until } from "../harness.ts";
import { makeAdapter, makeModel } from "../models.ts";
import { ask, closeEngines, GREEDY, refusal, say, sayOne, testEngine, tokens } from "./engines.ts";
import { meanState } from "./reference.ts";

afterAll(closeEngines);
const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32" });

test("aborting frees the slot for the next in line; leaving the loop does too", async () => {
  const engine = await testEngine(model, { parallel: 1, contextLength: 512 });
  const prompt = tokens(engine, ask("wait"));
  const abort = new AbortController();
  const endless = { prompt, maxTokens: 100_000, ignoreEos: true };
  const first = say(engine, endless, abort.signal);
  const second = sayOne(engine, { prompt, maxTokens: 4 });
  await until("the first runs", () => engine.stats().completionTokens > 2);
  expect(engine.stats()).toMatchObject({ active: 1, waiting: 1 });
  abort.abort();
  expect((await first)[0]!.finish).toBe("cancelled");
  expect((await second).finish).toBe("length");
  for await (const _ of engine.generate({ ...endless, sampling: GREEDY, samples: 1, stop: [] })) break;
  expect((await sayOne(engine, { prompt, maxTokens: 4 })).finish).toBe("length");
  await until("all is quiet", () => engine.stats().active + engine.stats().waiting === 0);
});

test("64 streams over 16 slots finish complete and unmixed", async () => {
  const engine = await testEngine(model, { parallel: 16 });
  const prompts = Array.from({ length: 64 }, (_, i) => tokens(engine, ask(`stream ${i} of many`)));
  const together = await Promise.all(prompts.map((prompt) => sayOne(engine, { prompt, maxTokens: 20 })));
  expect(together.every((one) => one.completionTokens === 20 && one.finish === "length")).toBe(true);
  const single = await testEngine(model, { parallel: 1 });
  for (const i of [0, 13, 40, 63]) {
    expect((await sayOne(single, { prompt: prompts[i]!, maxTokens: 20 })).tokens).toEqual(together[i]!.tokens);
  }
});

test("streams that end between running ones disturb neither the running streams nor the cache", async () => {
  const engine = await testEngine(model, { parallel: 7 });
  const prompts = Array.from({ length: 7 }, (_, i) => tokens(engine, ask(`number ${i} of a row of seven people`)));
  const length = (i: number) => (i % 2 === 0 ? 60 : 6); // every other one ends early
  const together = await Promise.all(prompts.map((prompt, i) => sayOne(engine, { prompt, maxTokens: length(i) })));
  const again = await Promise.all(prompts.map((prompt, i) => sayOne(engine, { prompt, maxTokens: length(i) })));
  const single = await testEngine(model, { parallel: 1 });
  for (const [i, prompt] of prompts.entries()) {
    const alone = await sayOne(single, { prompt, maxTokens: length(i) });
    expect([together[i]!.tokens, again[i]!.tokens]).toEqual([alone.tokens, alone.tokens]);
  }
});

test("adapters change the text of requests that name them, can be replaced, and leave no trace", async () => {
  const engine = await testEngine(model);
  const prompt = tokens(engine, ask("who are you, and what do you know of the sea?"));
  const bare = await sayOne(engine, { prompt });
  const options = { arch: "llama", type: "F32", strength: 2 } as const;
  await engine.attach("a", makeAdapter(dir, { ...options, adapterSeed: 1 }));
  const [a, still, b] = await Promise.all([
    sayOne(engine, { prompt, adapter: "a" }),
    sayOne(engine, { prompt }),
    sayOne(engine, { prompt, adapter: "a" }),
  ]);
  expect([still.text, b.text]).toEqual([bare.text, a.text]);
  expect(a.text).not.toBe(bare.text);
  await engine.attach("a", makeAdapter(dir, { ...options, adapterSeed: 2 }));
  const replaced = await sayOne(engine, { prompt, adapter: "a" });
  expect([a.text, bare.text]).not.toContain(replaced.text);
  await engine.detach("a");
  expect((await sayOne(engine, { prompt })).text).toBe(bare.text);
  expect(() => engine.generate({ prompt, maxTokens: 1, sampling: GREEDY, samples: 1, stop: [], adapter: "a" })).toThrow(
    'no adapter "a"',
  );
  expect(await refusal(engine.attach("b", model))).toThrow("is not an adapter of this model");
});

test("an embedding is the mean of the last hidden states, of length 1, in the order asked", async () => {
  const engine = await testEngine(model, { contextLength: 256 });
  const prompts = ["hello", "a much longer text, ".repeat(12)].map((text) => tokens(engine, text)); // more than one part
  const stream = say(engine, { prompt: tokens(engine, ask("meanwhile")), maxTokens: 50 });
  const vectors = await engine.embed(prompts);
  await stream;
  vectors.forEach((vector, i) => {
    const direct = meanState(model, prompts[i]!);
    expect(vector).toHaveLength(64);
    vector.forEach((value, k) => {
      expect(value).toBeCloseTo(direct[k]!, 4);
    });
    expect(Math.hypot(...vector)).toBeCloseTo(1, 5);
  });
});

test("a prompt that does not fit is refused with both numbers; a full context ends the text", async () => {
  const engine = await testEngine(model, { contextLength: 32, parallel: 2 });
  const prompt = new Int32Array(32).fill(65);
  const request = { prompt, maxTokens: 5, sampling: GREEDY, samples: 1, stop: [] };
  expect(() => engine.generate(request)).toThrow(new ContextOverflow(32, 5, 32));
  expect(() => engine.generate(request)).toThrow("32 tokens, but the context holds 32");
  expect(await refusal(engine.embed([new Int32Array(33).fill(65)]))).toThrow(ContextOverflow);
  const said = await sayOne(engine, { prompt: prompt.slice(0, 31), maxTokens: 100, ignoreEos: true });
  expect(said).toMatchObject({ finish: "length", completionTokens: 2 }); // one in the last position, one beyond it
});

test("a file that is no model is refused with the library's reason", async () => {
  expect(await refusal(testEngine(import.meta.path))).toThrow(/cannot be loaded: .*GGUF/);
});

test("closing ends running requests, and says so", async () => {
  const engine = await testEngine(model);
  const running = say(engine, { prompt: tokens(engine, ask("bye")), maxTokens: 100_000, ignoreEos: true });
  running.catch(() => {});
  await until("it runs", () => engine.stats().completionTokens > 2);
  await engine.close();
  expect(await refusal(running)).toThrow("the engine is closed");
});

test("a probe loses no cache, and changes nothing in it", async () => {
  const engine = await testEngine(model, { parallel: 1 });
  const prompt = tokens(engine, ask("Remember this for the next turn"));
  const first = await sayOne(engine, { prompt, maxTokens: 12 });
  const calls = engine.stats().decodeCalls;
  for (let i = 0; i < 3; i++) await decodeOne(engine);
  expect(engine.stats().decodeCalls).toBe(calls + 3);
  const again = engine.generate({ prompt, maxTokens: 12, sampling: GREEDY, samples: 1, stop: [], wantTokens: true });
  const said: number[] = [];
  for await (const deltas of again) for (const delta of deltas) said.push(...(delta.tokens ?? []));
  expect(said).toEqual([...first.tokens]);
  expect(await again.cachedTokens).toBe(prompt.length - 1);
  await engine.close();
});

test("closing fails the requests that still wait for an embedding", async () => {
  const engine = await testEngine(model, { parallel: 1 });
  const waiting = refusal(engine.embed([tokens(engine, "one"), tokens(engine, "two")]));
  await engine.close();
  expect(await waiting).toThrow("closed");
});
