// tier: all (serves models)
import { afterAll, expect, test } from "bun:test";
import { decodeOne } from "../../src/workers/serving/health.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { closeEngines, GREEDY, RANDOM, say, sayOne, testEngine, tokens } from "./engines.ts";
import { greedy, logpsOf } from "./reference.ts";

afterAll(closeEngines);
const model = makeModel(tempDir(), { arch: "qwen2", type: "F32" });
const ask = (text: string) => `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
const inGraph = (parallel: number) => testEngine(model, { parallel, deviceSampling: true, steady: true });

/** Log-probabilities of the logits divided by the temperature. */
function divided(logps: Float64Array, temperature: number): Float64Array {
  const scaled = logps.map((each) => each / temperature);
  const norm = Math.log(scaled.reduce((sum, each) => sum + Math.exp(each), 0));
  return scaled.map((each) => each - norm);
}

test.each([0.6, 1, 1.7])(
  "drawn together at temperature %p: as often as the model says",
  async (temperature) => {
    const engine = await inGraph(40);
    const prompt = tokens(engine, ask("how often"));
    const expected = divided(logpsOf(model, prompt).at(-1)!, temperature).map(Math.exp);
    const samples = 6000;
    const sampling = { ...RANDOM, temperature, seed: 11 };
    const said = await say(engine, { prompt, samples, sampling, maxTokens: 1 });
    const seen = new Float64Array(expected.length);
    for (const one of said) seen[one.tokens[0]!]!++;
    // Rare tokens form one class: a chi-square class needs five or more.
    const common = [...expected.keys()].filter((token) => expected[token]! * samples >= 5);
    const rest = (values: Float64Array) =>
      common.reduce(
        (left, token) => left - values[token]!,
        values.reduce((a, b) => a + b),
      );
    const classes = [...common.map((token) => [seen[token]!, expected[token]! * samples] as const)];
    if (rest(expected) * samples >= 5) classes.push([rest(seen), rest(expected) * samples]);
    const chi = classes.reduce((sum, [got, want]) => sum + (got - want) ** 2 / want, 0);
    const freedom = classes.length - 1;
    expect(freedom).toBeGreaterThan(5);
    // five deviations, which is safe because the seed is fixed
    expect(chi).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom));
  },
  120_000,
);

test("drawn together: the log-probability of every token is that of the logits divided by the temperature", async () => {
  const engine = await inGraph(5);
  const prompt = tokens(engine, ask("odds"));
  const sampling = { ...RANDOM, temperature: 1.4, seed: 5 };
  const said = await say(engine, {
    prompt,
    samples: 7,
    sampling,
    maxTokens: 12,
    topLogprobs: 0,
    logprobTemperature: 1.4,
  });
  for (const { tokens: ids, logprobs } of said) {
    const rows = logpsOf(model, Int32Array.of(...prompt, ...ids)).map((row) => divided(row, 1.4));
    ids.forEach((token, i) => {
      expect(Math.abs(logprobs[i]!.logprob - rows[prompt.length - 1 + i]![token]!)).toBeLessThan(2e-3);
    });
  }
});

test("drawn together: a seed gives the same text alone, beside others and with more requests than slots", async () => {
  const engine = await inGraph(6);
  const prompt = tokens(engine, ask("dice"));
  const roll = async (seed: number, temperature = 1) =>
    (await sayOne(engine, { prompt, sampling: { ...RANDOM, temperature, seed }, maxTokens: 20 })).tokens.join();
  const alone = await roll(7);
  const [again, ...others] = await Promise.all([
    roll(7),
    ...Array.from({ length: 14 }, (_, i) => roll(50 + i, 1 + i / 10)),
  ]);
  expect(again).toBe(alone);
  expect(new Set([alone, ...others]).size).toBe(15);
});

test("drawn together: later requests join the running ones", async () => {
  const engine = await inGraph(24);
  const prompt = tokens(engine, ask("one after the other"));
  const roll = (seed: number) => sayOne(engine, { prompt, sampling: { ...RANDOM, seed }, maxTokens: 60 });
  const running: ReturnType<typeof roll>[] = [];
  for (let seed = 0; seed < 20; seed++) {
    const before = engine.stats().completionTokens;
    running.push(roll(seed));
    await until("another token", () => engine.stats().completionTokens > before + 1);
  }
  const all = await Promise.all(running);
  for (const seed of [0, 7, 19]) expect((await roll(seed)).tokens).toEqual(all[seed]!.tokens);
});

test("a probe draws with its slot's sampler, and changes no tokens of others", async () => {
  const engine = await inGraph(2);
  const prompt = tokens(engine, ask("still there"));
  const roll = async () => (await sayOne(engine, { prompt, sampling: { ...RANDOM, seed: 9 } })).tokens;
  const before = await roll();
  for (let i = 0; i < 3; i++) expect(await decodeOne(engine)).toBeGreaterThanOrEqual(0);
  expect(await roll()).toEqual(before);
});

test("drawn together with chains and with samples that need logits: each gets its own tokens", async () => {
  const engine = await inGraph(8);
  const prompt = tokens(engine, ask("mixed company"));
  const { tokens: expected } = greedy(model, prompt, 16);
  const random = (seed: number) => sayOne(engine, { prompt, sampling: { ...RANDOM, seed }, maxTokens: 16 });
  const alone = await random(3);
  const plain = () => sayOne(engine, { prompt, maxTokens: 16 });
  const scored = () => sayOne(engine, { prompt, maxTokens: 16, topLogprobs: 2, sampling: GREEDY });
  for (let round = 0; round < 3; round++) {
    const all = await Promise.all([
      plain(),
      random(3),
      scored(),
      random(4),
      plain(),
      random(3),
      scored(),
      random(5),
      plain(),
    ]);
    for (const i of [0, 2, 4, 6, 8]) expect(all[i]!.tokens).toEqual(expected);
    for (const i of [1, 5]) expect(all[i]!.tokens).toEqual(alone.tokens);
  }
});

test("drawn together: long prompts are read in several batches beside running streams", async () => {
  const path = makeModel(tempDir(), { arch: "llama", type: "F32", context: 1024 });
  const engine = await testEngine(path, { parallel: 6, contextLength: 1024, deviceSampling: true });
  const prompts = [300, 20, 700, 5, 410].map((length, k) =>
    Int32Array.from({ length }, (_, i) => 97 + ((i * 3 + k) % 20)),
  );
  const roll = (prompt: Int32Array, seed: number) =>
    sayOne(engine, { prompt, sampling: { ...RANDOM, seed }, maxTokens: 30 });
  const together = await Promise.all(prompts.map(roll));
  for (const [i, prompt] of prompts.entries()) {
    expect((await roll(prompt, i)).tokens).toEqual(together[i]!.tokens);
  }
});
