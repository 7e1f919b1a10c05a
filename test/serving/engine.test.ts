// tier: all (serves models)
import { afterAll, describe, expect, test } from "bun:test";
import { BadGrammar } from "../../src/workers/serving/engine/types.ts";
import { tempDir, until } from "../harness.ts";
import { type ModelOptions, makeModel } from "../models.ts";
import { ask, closeEngines, GREEDY, RANDOM, say, sayOne, testEngine, tokens } from "./engines.ts";
import { greedy, type Reference } from "./reference.ts";

afterAll(closeEngines);
const dir = tempDir();
const model = makeModel(dir, { arch: "llama", type: "F32" });
const COUNT = 40;

/** A model whose greedy text is unambiguous: if two tokens tie, either is right. */
async function clearModel(options: Omit<ModelOptions, "seed">, text: string) {
  for (let seed = 1; ; seed++) {
    const path = makeModel(dir, { ...options, seed });
    const engine = await testEngine(path, { parallel: 9 });
    const prompt = tokens(engine, text);
    const reference: Reference = greedy(path, prompt, COUNT);
    if (reference.lead > 0.03) return { engine, prompt, reference };
    await engine.close();
    if (seed === 40) throw new Error("no clear model among 40");
  }
}

describe("greedy text equals llama.cpp's own", () => {
  const kinds = (["llama", "qwen2", "qwen3"] as const).flatMap((arch) =>
    (["F32", "F16", "Q8_0"] as const).map((type) => [arch, type] as const),
  );
  test.each(kinds)(
    "%s %s: alone, beside eight others, and from the cache",
    async (arch, type) => {
      const { engine, prompt, reference } = await clearModel({ arch, type }, ask("Tell me of the sea and of the land"));
      expect((await sayOne(engine, { prompt, maxTokens: COUNT })).tokens).toEqual(reference.tokens);
      const others = Array.from({ length: 8 }, (_, i) =>
        say(engine, { prompt: tokens(engine, ask(`${i} things`.repeat(i + 1))), sampling: RANDOM, maxTokens: 60 }),
      );
      const beside = await sayOne(engine, { prompt, maxTokens: COUNT });
      await Promise.all(others);
      expect(beside.tokens).toEqual(reference.tokens);
      const before = engine.stats().cachedTokens;
      expect((await sayOne(engine, { prompt, maxTokens: COUNT })).tokens).toEqual(reference.tokens);
      expect(engine.stats().cachedTokens).toBeGreaterThan(before);
      await engine.close();
    },
    60_000,
  );
});

test("a long prompt is read in parts beside a running stream and answered the same", async () => {
  const path = makeModel(dir, { arch: "qwen3", type: "F32", context: 2048 });
  const engine = await testEngine(path, { contextLength: 2048, parallel: 2 });
  const long = tokens(engine, "the and ing hello ".repeat(200)).slice(0, 500);
  const bare = await testEngine(path, { contextLength: 2048, parallel: 1 });
  const alone = await sayOne(bare, { prompt: long, maxTokens: 12 });
  const prompt = tokens(engine, ask("go on"));
  const stream = say(engine, { prompt, maxTokens: 400, sampling: RANDOM, ignoreEos: true });
  await until("the stream runs", () => engine.stats().completionTokens > 3);
  expect((await sayOne(engine, { prompt: long, maxTokens: 12 })).tokens).toEqual(alone.tokens);
  await stream;
});

test("the beginning that two prompts share is computed once, also from another slot that is still busy", async () => {
  const engine = await testEngine(model);
  const shared = "A long beginning that both of them have, word for word. ".repeat(2);
  const busy = new AbortController();
  const first = say(engine, { prompt: tokens(engine, `${shared}One`), maxTokens: 100, ignoreEos: true }, busy.signal);
  await until("the first runs", () => engine.stats().completionTokens > 0);
  const prompt = tokens(engine, `${shared}Two`);
  const run = engine.generate({ prompt, maxTokens: 8, sampling: GREEDY, samples: 1, stop: [] });
  let text = "";
  for await (const deltas of run) for (const delta of deltas) text += delta.text;
  expect(await run.cachedTokens).toBeGreaterThanOrEqual(tokens(engine, shared).length - 1);
  busy.abort();
  await first;
  const fresh = await testEngine(model, { parallel: 1 });
  expect(text).toBe((await sayOne(fresh, { prompt, maxTokens: 8 })).text);
});

test("a seed gives the same text again, also beside other requests; another seed gives another text", async () => {
  const engine = await testEngine(model, { parallel: 8 });
  const prompt = tokens(engine, ask("dice"));
  const roll = (seed: number) => sayOne(engine, { prompt, sampling: { ...RANDOM, seed }, maxTokens: 32 });
  const alone = await roll(7);
  const [again, ...others] = await Promise.all([7, 1, 2, 3, 4, 5].map(roll));
  expect(again!.tokens).toEqual(alone.tokens);
  expect(new Set(others.map((other) => other.text)).size).toBe(5);
  const free = await Promise.all([1, 2].map(() => sayOne(engine, { prompt, sampling: RANDOM, maxTokens: 32 })));
  expect(free[0]!.text).not.toBe(free[1]!.text);
});

test("the samples of a request share its prompt and draw with seed, seed + 1, …", async () => {
  const engine = await testEngine(model, { parallel: 4 });
  const prompt = tokens(engine, ask("once upon a time in the west"));
  const before = engine.stats().promptTokens;
  const three = await say(engine, { prompt, samples: 3, sampling: { ...RANDOM, seed: 100 } });
  expect(engine.stats().promptTokens - before).toBe(prompt.length + 2); // the last token's logits are computed thrice
  const second = await sayOne(engine, { prompt, sampling: { ...RANDOM, seed: 101 } });
  expect(three[1]!.tokens).toEqual(second.tokens);
  expect(new Set(three.map((one) => one.text)).size).toBe(3);
});

test("rollouts: more samples than slots over one shared pool, the prompt read once, ids and logprobs of every token", async () => {
  const engine = await testEngine(model, { parallel: 4, unified: true });
  const prompt = tokens(engine, ask("seven times eight is"));
  const sampling = { ...RANDOM, seed: 3 };
  const group = await say(engine, { prompt, samples: 10, sampling, topLogprobs: 0, maxTokens: 16 });
  expect(engine.stats().promptTokens).toBe(prompt.length + 9);
  for (const { tokens: ids, logprobs, completionTokens, finish } of group) {
    expect(ids).toHaveLength(completionTokens + (finish === "stop" ? 1 : 0));
    expect(logprobs.map((one) => one.token)).toEqual(ids);
    expect(logprobs.every((one) => one.logprob < 0)).toBe(true);
  }
  const separate = await testEngine(model, { parallel: 10 });
  const same = await say(separate, { prompt, samples: 10, sampling, maxTokens: 16 });
  expect(same.map((one) => one.text)).toEqual(group.map((one) => one.text));
});

test("tokens drawn inside the graph: the same greedy text, seeds that hold, beside requests that need their logits", async () => {
  const engine = await testEngine(model, { parallel: 6, deviceSampling: true });
  const prompt = tokens(engine, ask("device"));
  const { tokens: expected } = greedy(model, prompt, 24);
  const roll = (seed: number) => sayOne(engine, { prompt, sampling: { ...RANDOM, topK: 20, topP: 0.9, seed } });
  const alone = await roll(5);
  const [again, other, plain, scored] = await Promise.all([
    roll(5),
    roll(6),
    sayOne(engine, { prompt }),
    sayOne(engine, { prompt, topLogprobs: 1, sampling: { ...GREEDY, presencePenalty: 1e-6 } }),
  ]);
  expect([again.tokens, plain.tokens, scored.tokens]).toEqual([alone.tokens, expected, expected]);
  expect(other.tokens).not.toEqual(alone.tokens);
  const many = await Promise.all([1, 2, 3, 4, 5, 6, 5, 5].map(roll)); // more than slots: their chains are reused
  for (const i of [4, 6, 7]) expect(many[i]!.tokens).toEqual(alone.tokens);
});

test("logprobs come from the raw logits and form a distribution, for every kind of sampling", async () => {
  const engine = await testEngine(model);
  const prompt = tokens(engine, ask("odds"));
  const { logits, tokens: ids } = greedy(model, prompt, 6);
  const sampling = { ...GREEDY, frequencyPenalty: 1e-6 };
  const { logprobs } = await sayOne(engine, { prompt, maxTokens: 6, topLogprobs: 20, sampling });
  logprobs.forEach(({ token, logprob, top }, i) => {
    const norm = Math.log(logits[i]!.reduce((sum, logit) => sum + Math.exp(logit), 0));
    expect(token).toBe(ids[i]!);
    expect(logprob).toBeCloseTo(logits[i]![token]! - norm, 3);
    expect(top).toHaveLength(20);
    expect(top[0]!.token).toBe(token);
    for (const other of top) expect(other.logprob).toBeCloseTo(logits[i]![other.token]! - norm, 3);
    expect(top.map((t) => t.logprob)).toEqual(top.map((t) => t.logprob).sort((a, b) => b - a));
    expect(top.reduce((sum, t) => sum + Math.exp(t.logprob), 0)).toBeLessThanOrEqual(1);
  });
});

test("a stop string ends the text before it, and no part of it is shown", async () => {
  const engine = await testEngine(model, { contextLength: 16_384, parallel: 1 });
  const prompt = tokens(engine, ask("stop"));
  const free = await sayOne(engine, { prompt, maxTokens: 40 });
  const stop = free.text.slice(10, 14);
  const before = engine.stats().completionTokens;
  const { text, finish, parts } = await sayOne(engine, { prompt, maxTokens: 16_000, stop: [stop, "never said"] });
  expect({ text, finish }).toEqual({ text: free.text.slice(0, free.text.indexOf(stop)), finish: "stop" });
  expect(parts.join("")).toBe(text);
  const drawn = await sayOne(engine, { prompt, maxTokens: 16_000, stop: [stop], wantTokens: true });
  expect(drawn.text).toBe(text);
  expect(engine.detokenize(Int32Array.from(drawn.tokens))).toEndWith(stop); // drawn, though it is not shown
  await until("all is quiet", () => engine.stats().active === 0);
  expect(engine.stats().completionTokens - before).toBeLessThan(8_000); // the slot was freed, not filled
});

test("characters of several tokens arrive whole; one that is cut off at the end is dropped", async () => {
  const path = makeModel(dir, { arch: "llama", type: "F32", extraVocab: ["🙂"] });
  const engine = await testEngine(path);
  const prompt = tokens(engine, ask("smile"));
  const grammar = 'root ::= "né" "⚓" "🙂" "🦊" "x"'; // only 🙂 is one token
  const { parts, text } = await sayOne(engine, { prompt, grammar });
  expect(text).toBe("né⚓🙂🦊x");
  expect(parts.join("|")).not.toContain("\ufffd");
  const cut = await sayOne(engine, { prompt, grammar, maxTokens: 3 }); // n, two bytes of é
  expect(cut.text).toBe("né");
  expect((await sayOne(engine, { prompt, grammar, maxTokens: 4 })).text).toBe("né");
});

test("a grammar holds at any temperature, ends the text, and is explained when it does not parse", async () => {
  const engine = await testEngine(model, { parallel: 8 });
  const prompt = tokens(engine, ask("json"));
  const grammar = String.raw`root ::= "{\"a\": [" number ("," number){0,3} "]}"
number ::= "-"? [1-9] [0-9]{0,2}`;
  const sampling = { ...RANDOM, temperature: 1.5, frequencyPenalty: 0.2, seed: 1 };
  const all = await say(engine, { prompt, samples: 8, grammar, sampling, maxTokens: 60, topLogprobs: 0 });
  for (const { text, finish, logprobs } of all) {
    expect(JSON.parse(text).a.length).toBeGreaterThan(0);
    expect(finish).toBe("stop");
    expect(logprobs.length).toBeGreaterThan(8);
  }
  expect(() =>
    engine.generate({ prompt, maxTokens: 1, sampling, samples: 1, stop: [], grammar: "root ::= (" }),
  ).toThrow(BadGrammar);
});

test("biases, penalties and cuts have their documented effect", async () => {
  const engine = await testEngine(model);
  const prompt = tokens(engine, ask("bias"));
  const [x] = tokens(engine, "x") as unknown as [number];
  const biased = await sayOne(engine, { prompt, maxTokens: 5, sampling: { ...GREEDY, logitBias: [[x, 100]] } });
  expect(biased.text).toBe("xxxxx");
  const repelled = { ...GREEDY, logitBias: [[x, 4]] as const, presencePenalty: 2, frequencyPenalty: 2 };
  const spread = await sayOne(engine, { prompt, maxTokens: 30, sampling: repelled });
  const plain = await sayOne(engine, { prompt, maxTokens: 30 });
  expect(new Set(spread.tokens).size).toBeGreaterThan(new Set(plain.tokens).size);
  for (const cut of [{ topK: 1 }, { topP: 1e-6 }, { minP: 1 }]) {
    expect((await sayOne(engine, { prompt, sampling: { ...RANDOM, ...cut } })).tokens).toEqual(
      plain.tokens.slice(0, 24),
    );
  }
});

test("the end token ends the text, is not shown and not counted; ignoreEos continues", async () => {
  const engine = await testEngine(model);
  const prompt = tokens(engine, ask("end"));
  const [end] = tokens(engine, "<|im_end|>") as unknown as [number];
  const sampling = { ...GREEDY, logitBias: [[end, 100]] as const };
  const said = await sayOne(engine, { prompt, sampling, wantTokens: false });
  expect(said).toMatchObject({ text: "", finish: "stop", completionTokens: 0, tokens: [] });
  expect((await sayOne(engine, { prompt, sampling })).tokens).toEqual([end]); // a rollout needs it
  expect(await sayOne(engine, { prompt, sampling, ignoreEos: true, maxTokens: 9 })).toMatchObject({
    finish: "length",
    completionTokens: 9,
  });
});
