// tier: all (serves models)
/** The behaviour of an engine that every backend must have: the library, and our own kernels in emulation. */
import { afterAll, describe, expect, test } from "bun:test";
import { ContextOverflow, type EngineOptions } from "../../src/workers/serving/engine/types.ts";
import { decodeOne } from "../../src/workers/serving/health.ts";
import { tempDir, until } from "../harness.ts";
import { makeAdapter, makeModel } from "../models.ts";
import { canCompute } from "../native/emulation/choice.ts";
import { ask, closeEngines, GREEDY, RANDOM, refusal, say, sayOne, testEngine, tokens } from "./engines.ts";

const dir = tempDir();
afterAll(closeEngines);
const SIZE = { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1 } as const;
const path = makeModel(dir, { ...SIZE, extraVocab: ["🙂"] });

describe.each(canCompute ? (["own", "library"] as const) : (["library"] as const))("decoded by %s", (decoder) => {
  const open = (options: Partial<EngineOptions> = {}) => testEngine(path, { decoder, ...options });
  const shared = open({ parallel: 6 });

  test("greedy text is the library's; the facts are the same and name what decodes", async () => {
    const [engine, library] = [await shared, await testEngine(path, { parallel: 6 })];
    const { memoryBytes, decoder: by } = engine.facts;
    expect(engine.facts).toEqual({ ...library.facts, memoryBytes, decoder: by });
    expect(by).toBe(
      decoder === "own"
        ? "Verk's own kernels decode. No answer depends on what is decoded beside it"
        : 'libllama decodes: serving.decoder is "library", or llama.cpp was measured to be faster. Answers may depend on what is decoded beside it',
    );
    const prompt = tokens(engine, "once upon a time there was");
    const [said, expected] = [await sayOne(engine, { prompt }), await sayOne(library, { prompt })];
    expect([said.tokens, said.text]).toEqual([expected.tokens, expected.text]);
  });

  test("a seed gives the same text beside requests with other parameters, and from the cache", async () => {
    const engine = await shared;
    const prompt = tokens(engine, ask("dice"));
    const roll = (seed: number, more: object = {}) =>
      sayOne(engine, { prompt, sampling: { ...RANDOM, seed, ...more }, maxTokens: 10 });
    const alone = await roll(7);
    const [again, ...others] = await Promise.all([
      roll(7),
      roll(1, { temperature: 2, topK: 5 }),
      roll(2, { topP: 0.7, minP: 0.01 }),
      roll(3, { frequencyPenalty: 1, presencePenalty: 1 }),
      sayOne(engine, { prompt, maxTokens: 10, grammar: 'root ::= [a-z]{4} "." ' }),
      sayOne(engine, { prompt, maxTokens: 10, topLogprobs: 3, sampling: { ...GREEDY, logitBias: [[70, 9]] } }),
    ]);
    expect(again!.tokens).toEqual(alone.tokens);
    expect(new Set(others.map((other) => other.text)).size).toBe(5);
    expect(others[3]!.text).toMatch(/^[a-z]{4}\.$/);
  });

  test("the samples of a request share its prompt and draw with seed, seed + 1, …", async () => {
    const engine = await shared;
    const prompt = tokens(engine, ask("once upon a time in the west, where the sun goes down"));
    const before = engine.stats().promptTokens;
    const sampling = { ...RANDOM, temperature: 2 };
    const three = await say(engine, { prompt, samples: 3, maxTokens: 8, sampling: { ...sampling, seed: 100 } });
    expect(engine.stats().promptTokens - before).toBeLessThan(prompt.length + 3); // read once
    const second = await sayOne(engine, { prompt, maxTokens: 8, sampling: { ...sampling, seed: 101 } });
    expect(three[1]!.tokens).toEqual(second.tokens);
    expect(new Set(three.map((one) => one.text)).size).toBe(3);
  });

  test("log-probabilities are the model's own, whatever changes the draw", async () => {
    const engine = await shared;
    const prompt = tokens(engine, ask("odds"));
    const scored = (sampling: object) =>
      sayOne(engine, { prompt, maxTokens: 4, topLogprobs: 20, sampling: { ...GREEDY, ...sampling } });
    const [plain, biased] = await Promise.all([scored({}), scored({ logitBias: [[70, 100]] })]);
    for (const { token, logprob, top } of plain.logprobs) {
      expect(top).toHaveLength(20);
      expect([top[0]!.token, top[0]!.logprob]).toEqual([token, logprob]);
      expect(top.map((t) => t.logprob)).toEqual(top.map((t) => t.logprob).sort((a, b) => b - a));
      expect(top.reduce((sum, t) => sum + Math.exp(t.logprob), 0)).toBeLessThanOrEqual(1.0001);
    }
    expect(biased.tokens).toEqual([70, 70, 70, 70]);
    expect(biased.logprobs[0]!.top[0]!.token).toBe(plain.logprobs[0]!.token);
    expect(biased.logprobs[0]!.top[0]!.logprob).toBeCloseTo(plain.logprobs[0]!.logprob, 1);
    expect(biased.logprobs[0]!.logprob).toBeLessThan(plain.logprobs[0]!.logprob);
  });

  test("a stop string ends the text before it; a grammar holds with penalties; characters arrive whole", async () => {
    const engine = await shared;
    const prompt = tokens(engine, ask("stop"));
    const free = await sayOne(engine, { prompt, maxTokens: 16 });
    const stop = free.text.slice(5, 8);
    const { text, finish } = await sayOne(engine, { prompt, maxTokens: 16, stop: [stop, "never said"] });
    expect({ text, finish }).toEqual({ text: free.text.slice(0, free.text.indexOf(stop)), finish: "stop" });
    const grammar = 'root ::= "né" "⚓" "🙂" "x"';
    for (const frequencyPenalty of [0, 0.5]) {
      const said = await sayOne(engine, { prompt, grammar, sampling: { ...RANDOM, frequencyPenalty, seed: 1 } });
      expect([said.text, said.finish]).toEqual(["né⚓🙂x", "stop"]);
      expect(said.parts.join("|")).not.toContain("\ufffd");
    }
    // The limit cuts the third character: its first bytes are not shown.
    expect((await sayOne(engine, { prompt, grammar, maxTokens: 4 })).text).toBe("né");
  });

  test("the end token ends the text, is not shown and not counted; ignoreEos continues", async () => {
    const engine = await shared;
    const prompt = tokens(engine, ask("end"));
    const [end] = tokens(engine, "<|im_end|>") as unknown as [number];
    const sampling = { ...GREEDY, logitBias: [[end, 100]] as const };
    const said = await sayOne(engine, { prompt, sampling, wantTokens: false });
    expect(said).toMatchObject({ text: "", finish: "stop", completionTokens: 0, tokens: [] });
    const on = await sayOne(engine, { prompt, sampling, ignoreEos: true, maxTokens: 3 });
    expect(on).toMatchObject({ finish: "length", completionTokens: 3 });
  });

  test("aborting frees the room for the next in line; a full context ends the text; a probe loses no cache", async () => {
    const engine = await open({ parallel: 1, contextLength: 512 }); // the first is still running when it is aborted
    const prompt = tokens(engine, "wait for it");
    const abort = new AbortController();
    const first = say(engine, { prompt, maxTokens: 100_000, ignoreEos: true }, abort.signal);
    const second = sayOne(engine, { prompt, maxTokens: 4 });
    await until("the first runs", () => engine.stats().completionTokens > 2);
    expect(engine.stats()).toMatchObject({ active: 1, waiting: 1 });
    abort.abort();
    expect((await first)[0]!.finish).toBe("cancelled");
    expect((await second).finish).toBe("length");
    await decodeOne(engine);
    const again = engine.generate({ prompt, maxTokens: 1, sampling: GREEDY, samples: 1, stop: [] });
    for await (const _ of again);
    expect(await again.cachedTokens).toBe(prompt.length - 1);
    const short = await open({ parallel: 1, contextLength: 64 });
    const long = new Int32Array(64).fill(65);
    expect(() => short.generate({ prompt: long, maxTokens: 5, sampling: GREEDY, samples: 1, stop: [] })).toThrow(
      ContextOverflow,
    );
    const full = await sayOne(short, { prompt: long.slice(0, 63), maxTokens: 100, ignoreEos: true });
    expect(full).toMatchObject({ finish: "length", completionTokens: 2 });
  });

  test("an adapter and an embedding work while streams run and wait", async () => {
    const engine = await open({ parallel: 2 });
    const prompt = tokens(engine, ask("who are you"));
    const bare = await sayOne(engine, { prompt, maxTokens: 8 });
    const streams = [1, 2, 3].map(() => sayOne(engine, { prompt, maxTokens: 8 }));
    const adapter = makeAdapter(dir, { ...SIZE, strength: 2, adapterSeed: 1 });
    const [vectors] = await Promise.all([engine.embed([prompt]), engine.attach("a", adapter)]);
    expect(vectors[0]).toHaveLength(128);
    for (const said of await Promise.all(streams)) expect(said.tokens).toEqual(bare.tokens);
    const dressed = await sayOne(engine, { prompt, maxTokens: 8, adapter: "a" });
    expect(dressed.tokens).not.toEqual(bare.tokens);
    expect((await sayOne(engine, { prompt, maxTokens: 8 })).tokens).toEqual(bare.tokens);
  });
});

test.skipIf(!canCompute)(
  "our kernels decode adapters and combinations of them in one batch with the base; the library takes them over",
  async () => {
    const names = [undefined, "four", "sixteen", "both"] as const;
    const ranks = { four: 4, sixteen: 16 };
    const engines = await Promise.all(
      (["own", "library"] as const).map((decoder) => testEngine(path, { decoder, parallel: 4 })),
    );
    const mixed = (engine: (typeof engines)[0]) => {
      const prompt = tokens(engine, ask("who is there"));
      return Promise.all(names.map((name) => sayOne(engine, { prompt, maxTokens: 5, ...(name && { adapter: name }) })));
    };
    const texts: string[][] = [];
    const calls: number[] = [];
    for (const engine of engines) {
      for (const [name, rank] of Object.entries(ranks))
        await engine.attach(name, makeAdapter(dir, { ...SIZE, rank, strength: 1, adapterSeed: rank }));
      await engine.combine("both", [
        { name: "four", scale: 1 },
        { name: "sixteen", scale: 0.5 },
      ]);
      await mixed(engine); // prompts are in the cache afterwards
      const before = engine.stats().decodeCalls;
      texts.push((await mixed(engine)).map(({ text }) => text));
      calls.push(engine.stats().decodeCalls - before);
    }
    const [own, library] = engines as [(typeof engines)[0], (typeof engines)[0]];
    expect(texts[0]).toEqual(texts[1]!);
    expect(new Set(texts[0]).size).toBe(4);
    expect(calls[0]).toBeLessThan(10);
    expect(calls[1]).toBeGreaterThan(15); // the library decodes one adapter at a time
    await own.detach("four");
    expect(() =>
      own.generate({
        prompt: Int32Array.of(70),
        maxTokens: 1,
        sampling: GREEDY,
        samples: 1,
        stop: [],
        adapter: "four",
      }),
    ).toThrow('no adapter "four"');
    expect(await refusal(own.attach("bad", path))).toThrow("The file is not an adapter");
    await own.attach("four", makeAdapter(dir, { ...SIZE, rank: 4, strength: 1, adapterSeed: 4 }));
    await own.embed([Int32Array.of(70, 71)]); // the library takes over
    expect((await mixed(own)).map(({ text }) => text)).toEqual((await mixed(library)).map(({ text }) => text));
  },
);

test.skipIf(!canCompute)(
  "our kernels are refused by name where they cannot decode the model; `auto` takes the library then",
  async () => {
    const small = makeModel(dir, { arch: "llama", type: "F16" });
    const forced = await refusal(testEngine(small, { decoder: "own" }));
    expect(forced).toThrow(
      'serving.decoder is "own", but the library must decode this model: Verk\'s kernels do not decode 2 and 1 heads of 32 numbers',
    );
    const { facts } = await testEngine(small, { decoder: "auto" });
    expect(facts.decoder).toStartWith("libllama decodes: there is no GPU");
  },
);
