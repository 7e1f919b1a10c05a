/**
 * Log-probabilities with keys and values in 8 bits against those in 16: `bun bench/kv_types.ts [MODEL.gguf]`. Greedy answers of the built-in
 * model in f16 and q8_0, by the library on the processor and by our kernels in emulation. Log-probabilities are compared up to
 * the first token that differs, where both still have the same text before them.
 */
import { join } from "node:path";
import type { KvType } from "../src/lib/gguf/memory.ts";
import type { Engine } from "../src/workers/serving/engine/types.ts";
import { ask, closeEngines, sayOne, testEngine, tokens } from "../test/serving/engines.ts";

const MODEL = process.argv[2] ?? join(import.meta.dir, "../models/verk-tiny/verk-tiny.gguf");
const SIZES = { library: { answers: 40, tokens: 64 }, own: { answers: 6, tokens: 24 } } as const;
const WORDS = "the sea and land of three small dogs who count to nine while rain falls on a red house near old trees";

const promptOf = (i: number) => {
  const words = WORDS.split(" ");
  return ask(Array.from({ length: 20 + 3 * i }, (_, k) => words[(i + k * k * 5 + k) % words.length]).join(" "));
};
type Said = Awaited<ReturnType<typeof sayOne>>;

async function answers(decoder: "library" | "own", kvType: KvType): Promise<Said[]> {
  const engine: Engine = await testEngine(MODEL, { decoder, kvType, contextLength: 512, parallel: 1 });
  const { answers: count, tokens: maxTokens } = SIZES[decoder];
  const all: Said[] = [];
  for (let i = 0; i < count; i++)
    all.push(await sayOne(engine, { prompt: tokens(engine, promptOf(i)), maxTokens, topLogprobs: 0, ignoreEos: true }));
  await engine.close();
  return all;
}

for (const decoder of ["library", "own"] as const) {
  const [wide, narrow] = [await answers(decoder, "f16"), await answers(decoder, "q8_0")];
  const apart: number[] = [];
  let [alike, all] = [0, 0];
  wide.forEach((said, i) => {
    const other = narrow[i]!;
    const end = said.tokens.findIndex((token, k) => token !== other.tokens[k]);
    const count = end < 0 ? said.tokens.length : end;
    alike += count;
    all += said.tokens.length;
    for (let k = 0; k < count; k++) apart.push(Math.abs(said.logprobs[k]!.logprob - other.logprobs[k]!.logprob));
  });
  const mean = apart.reduce((sum, each) => sum + each / apart.length, 0);
  console.log(
    `${decoder}: ${apart.length} tokens, |Δ log p| mean ${mean.toExponential(1)}, most ${Math.max(...apart).toExponential(1)}; ${alike} of ${all} tokens before the first difference of an answer`,
  );
}
await closeEngines();
