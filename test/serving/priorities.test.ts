// tier: all (serves models)
import { afterAll, describe, expect, test } from "bun:test";
import { rankOf } from "../../src/lib/chat/priority.ts";
import type { Engine, Generation } from "../../src/workers/serving/engine/types.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { canCompute } from "../native/emulation/choice.ts";
import { ask, closeEngines, RANDOM, say, sayOne, testEngine, tokens } from "./engines.ts";

afterAll(closeEngines);
const model = makeModel(tempDir(), { arch: "llama", type: "F32", context: 1024 });
const [INTERACTIVE, NORMAL, BATCH] = [rankOf("interactive"), rankOf("normal"), rankOf("batch")];

/** Notes the order in which requests end. */
function asking(engine: Engine) {
  const ended: string[] = [];
  const start = (name: string, rank: number, more: Partial<Generation> = {}) =>
    say(engine, { prompt: tokens(engine, ask(name)), rank, maxTokens: 8, ignoreEos: true, ...more }).then((said) => {
      ended.push(name);
      return said;
    });
  return { ended, start };
}

const KINDS: [string, Partial<Generation>][] = [
  ["greedy", {}],
  ["a seed", { sampling: { ...RANDOM, seed: 7 } }],
  ["penalties", { sampling: { ...RANDOM, seed: 8, frequencyPenalty: 0.5, presencePenalty: 0.5 } }],
  ["a grammar", { grammar: "root ::= [a-z ]+", sampling: { ...RANDOM, seed: 9 } }],
  ["log-probabilities", { topLogprobs: 2 }],
];
const DECODERS = canCompute ? (["library", "own"] as const) : (["library"] as const);
const own = makeModel(tempDir(), { arch: "llama", type: "F16", width: 128, heads: 2, kvHeads: 1, context: 256 });
const [files, contexts] = [
  { library: model, own },
  { library: 1024, own: 256 },
];

describe.each(DECODERS)("decoded by %s", (decoder) => {
  // bits depend on no batch
  const open = () =>
    testEngine(files[decoder], {
      decoder,
      contextLength: contexts[decoder],
      parallel: 2,
      batchInvariant: "on",
    });
  const [count, moments] = decoder === "own" ? [30, [3, 12]] : [200, [10, 120]]; // the emulation is slow

  test.each(KINDS)("a request that gave its place away goes on with the same tokens: %s", async (_kind, more) => {
    const long = { ...more, maxTokens: count };
    const names = ["a long answer", "another long answer"];
    const bare = asking(await open());
    const alone = [await bare.start(names[0]!, BATCH, long), await bare.start(names[1]!, BATCH, long)];
    const engine = await open();
    const { ended, start } = asking(engine);
    const batch = names.map((name) => start(name, BATCH, long));
    for (const at of moments) {
      await until("the batch runs", () => engine.stats().completionTokens > at);
      await Promise.all([start(`a person ${at}`, INTERACTIVE), start(`a guest ${at}`, NORMAL)]);
    }
    const said = await Promise.all(batch);
    const urgent = moments.flatMap((at) => [`a guest ${at}`, `a person ${at}`]);
    expect(ended.slice(0, 4).sort()).toEqual(urgent.sort());
    for (const [i, [one]] of said.entries()) {
      const [expected] = alone[i]!;
      expect([one!.tokens, one!.text, one!.completionTokens]).toEqual([expected!.tokens, expected!.text, count]);
      expect(one!.logprobs.map(({ token }) => token)).toEqual(expected!.logprobs.map(({ token }) => token));
    }
  });
});

test("waiting requests begin in the order of their priorities, and among equals in that of their arrival", async () => {
  const engine = await testEngine(model, { contextLength: 1024, parallel: 1 });
  const { ended, start } = asking(engine);
  const all = [start("first", INTERACTIVE, { maxTokens: 60 })];
  await until("the first runs", () => engine.stats().completionTokens > 0);
  all.push(start("b1", BATCH), start("n1", NORMAL), start("b2", BATCH), start("i1", INTERACTIVE), start("n2", NORMAL));
  await Promise.all(all);
  expect(ended).toEqual(["first", "i1", "n1", "n2", "b1", "b2"]);
});

test("an equal priority takes no place, and several samples of a request get theirs", async () => {
  const engine = await testEngine(model, { contextLength: 1024, parallel: 2 });
  const { ended, start } = asking(engine);
  const long = { maxTokens: 100 };
  const all = [start("one", NORMAL, long), start("two", NORMAL, long), start("three", NORMAL)];
  await until("both run", () => engine.stats().completionTokens > 10);
  all.push(start("many", INTERACTIVE, { samples: 4, sampling: { ...RANDOM, seed: 1 } }));
  await Promise.all(all);
  expect(ended[0]).toBe("many");
  expect(ended.indexOf("three")).toBeGreaterThan(Math.min(ended.indexOf("one"), ended.indexOf("two")));
});

test("a request that gave its place away can be cancelled, and the engine goes on", async () => {
  const engine = await testEngine(model, { contextLength: 1024, parallel: 1 });
  const { start } = asking(engine);
  const leave = new AbortController();
  const prompt = tokens(engine, ask("a long answer"));
  const batch = say(engine, { prompt, rank: BATCH, maxTokens: 900, ignoreEos: true }, leave.signal);
  await until("the batch runs", () => engine.stats().completionTokens > 3);
  const person = start("a person", INTERACTIVE, { maxTokens: 80 });
  await until("the person is answered", () => engine.stats().active === 2 || engine.stats().completionTokens > 20);
  leave.abort();
  await Promise.all([batch, person]);
  expect((await sayOne(engine, { prompt, rank: BATCH, maxTokens: 5 })).tokens.length).toBeGreaterThan(0);
  expect(engine.stats()).toMatchObject({ active: 0, waiting: 0 });
});
