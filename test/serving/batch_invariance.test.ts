// tier: all (decodes a thousand answers)
/**
 * Greedy answers and their log-probabilities are the same alone, among 8, among 32 and after a restart. This measures the
 * embedded version of the library: it promises nothing.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { quantizeModel } from "../../src/native/llama/quantize.ts";
import type { Engine } from "../../src/workers/serving/engine/types.ts";
import { tempDir } from "../harness.ts";
import { sweep } from "../sweep.ts";
import { ask, closeEngines, sayOne, testEngine, tokens } from "./engines.ts";

afterAll(closeEngines);

const TINY = join(import.meta.dir, "../../models/verk-tiny/verk-tiny.gguf");
const WORDS = "the sea and land of three small dogs who count to nine while rain falls on a red house near old trees";

/** Prompts from a few tokens to far beyond what one call reads. Some begin alike. */
function promptOf(i: number): string {
  const words = WORDS.split(" ");
  const said = Array.from(
    { length: 2 + ((i * 7) % 90) },
    (_, k) => words[(Math.floor(i / 3) + k * k * 5 + k) % words.length],
  );
  return ask(`${said.join(" ")} ${i}?`);
}

/** Tokens and log-probabilities of each answer, by `width` clients at once. */
async function answers(engine: Engine, count: number, width: number): Promise<string[]> {
  const all: string[] = [];
  let next = 0;
  const client = async () => {
    while (next < count) {
      const i = next++;
      const said = await sayOne(engine, { prompt: tokens(engine, promptOf(i)), maxTokens: 12, topLogprobs: 0 });
      all[i] = said.logprobs.map(({ token, logprob }) => `${token} ${logprob}`).join();
    }
  };
  await Promise.all(Array.from({ length: width }, client));
  return all;
}

const differing = (a: readonly string[], b: readonly string[]) => a.filter((each, i) => each !== b[i]).length;

function quantized(quantization: "Q8_0" | "Q4_K_M"): string {
  const to = join(tempDir(), `${quantization}.gguf`);
  quantizeModel(tempDir(), { cuda: false }, { from: TINY, to, quantization, threads: 1 });
  return to;
}

describe.each([
  ["F16", () => TINY, "on"],
  ["Q8_0", () => quantized("Q8_0"), "auto"],
  ["Q4_K_M", () => quantized("Q4_K_M"), "on"],
] as const)("%s on the processor", (_, model, batchInvariant) => {
  test("no answer depends on the others, nor on a restart or the number of threads", async () => {
    const modelPath = model();
    const count = sweep({ quick: 24, full: 1_000 });
    const options = { contextLength: 512, batchInvariant } as const;
    const alone = await testEngine(modelPath, { ...options, parallel: 1 });
    const expected = await answers(alone, count, 1);
    expect(new Set(expected).size).toBeGreaterThan(count / 2);
    await alone.close();
    for (const [width, threads] of [
      [8, 1],
      [32, 2],
    ] as const) {
      const engine = await testEngine(modelPath, { ...options, parallel: 32, threads });
      expect([width, differing(expected, await answers(engine, count, width))]).toEqual([width, 0]);
      await engine.close();
    }
  }, 3_600_000);
});

test("without the setting they do depend on the others", async () => {
  const options = { contextLength: 512, batchInvariant: "off", parallel: 32 } as const;
  const engine = await testEngine(TINY, options);
  const alone = await answers(engine, 32, 1);
  expect(differing(alone, await answers(engine, 32, 32))).toBeGreaterThan(0);
}, 120_000);
