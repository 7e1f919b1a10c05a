/**
 * Measures the cost of answers that do not depend on each other, on a CPU: `bun bench/batch_invariant.ts`. Both settings take turns; the
 * best round of each counts.
 */
import { join } from "node:path";
import { quantizeModel } from "../src/native/llama/quantize.ts";
import { openEngine } from "../src/workers/serving/engine/engine.ts";
import type { Engine } from "../src/workers/serving/engine/types.ts";
import { makeModel } from "../test/models.ts";
import { SAMPLING } from "./peers/plain_decode.ts";
import { remove, tempDir } from "./tools.ts";

const SHAPE = { layers: 6, width: 512, heads: 8, kvHeads: 4, ff: 1536, vocabSize: 8_000, context: 1024 } as const;
const CASES = [
  { streams: 1, prompt: 16, tokens: 48 },
  { streams: 8, prompt: 16, tokens: 48 },
  { streams: 32, prompt: 16, tokens: 32 },
  { streams: 8, prompt: 400, tokens: 16 },
] as const;
const ROUNDS = 5;

async function roundMs(engine: Engine, { streams, prompt, tokens }: (typeof CASES)[number], round: number) {
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: streams }, async (_, stream) => {
      const text = Int32Array.from(
        { length: prompt },
        (__, i) => 300 + ((round * 7919 + stream * 613 + i * 31) % 7_000),
      );
      const sampling = { ...SAMPLING, minP: 0, frequencyPenalty: 0, presencePenalty: 0, logitBias: [], seed: stream };
      const request = { prompt: text, maxTokens: tokens, sampling, samples: 1, stop: [], ignoreEos: true };
      for await (const _deltas of engine.generate(request));
    }),
  );
  return performance.now() - begun;
}

const dataDir = tempDir();
const plain = makeModel(dataDir, { arch: "llama", type: "F16", ...SHAPE });
for (const type of ["F16", "Q8_0", "Q4_K_M"] as const) {
  const modelPath = type === "F16" ? plain : join(dataDir, `${type}.gguf`);
  if (type !== "F16")
    quantizeModel(dataDir, { cuda: false }, { from: plain, to: modelPath, quantization: type, threads: 1 });
  const open = (batchInvariant: "on" | "off", parallel: number) =>
    openEngine({
      dataDir,
      modelPath,
      contextLength: 1024,
      parallel,
      threads: 1,
      gpus: [],
      guesses: false,
      batchInvariant,
    });
  for (const of of CASES) {
    const engines = { on: await open("on", of.streams), off: await open("off", of.streams) };
    const best = { on: Number.POSITIVE_INFINITY, off: Number.POSITIVE_INFINITY };
    for (let round = 0; round < ROUNDS; round++)
      for (const setting of ["on", "off"] as const)
        best[setting] = Math.min(best[setting], await roundMs(engines[setting], of, round));
    await Promise.all([engines.on.close(), engines.off.close()]);
    const rate = (ms: number) => Math.round((of.streams * of.tokens * 1000) / ms);
    console.log(
      `${type}, ${of.streams} streams, prompts of ${of.prompt}, ${of.tokens} tokens: ${rate(best.on)} against ${rate(best.off)} tokens/s, ${(best.off / best.on).toFixed(2)}`,
    );
  }
}
remove(dataDir);
