import { openEngine } from "../src/workers/serving/engine/engine.ts";
import type { Engine } from "../src/workers/serving/engine/types.ts";
import { makeModel } from "../test/models.ts";
import { openPlain, SAMPLING } from "./peers/plain_decode.ts";
import { type Row, remove, tempDir } from "./tools.ts";

/** Streams and rounds. Of each side the best round counts: what a neighbour on the machine takes is not our cost. */
const CASES = [
  [1, 20],
  [8, 12],
  [32, 8],
] as const;
const TOKENS = 64;
const PROMPT = 16;
const CONTEXT = 256;

/** The engine without HTTP against the library in a plain loop: same file, batch, chains and threads, turn by turn. */
export async function run(): Promise<Row[]> {
  const dataDir = tempDir();
  const shape = { layers: 6, width: 384, heads: 6, kvHeads: 6, ff: 1024, vocabSize: 32_000 } as const;
  const modelPath = makeModel(dataDir, { arch: "llama", type: "F16", ...shape, context: CONTEXT });
  const rows: Row[] = [];
  for (const [streams, rounds] of CASES) {
    const sizes = { dataDir, modelPath, contextLength: CONTEXT, threads: 1 };
    const engine = await openEngine({ ...sizes, parallel: streams, gpus: [], guesses: false });
    const plain = openPlain({ ...sizes, streams });
    let oursMs = Number.POSITIVE_INFINITY;
    let floorMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < rounds; round++) {
      const prompts = makePrompts(streams, round);
      floorMs = Math.min(floorMs, plain.round(prompts, TOKENS));
      oursMs = Math.min(oursMs, await engineRound(engine, prompts));
    }
    plain.close();
    await engine.close();
    const ratio = floorMs / oursMs;
    const rate = (ms: number) => Math.round((1000 * streams * TOKENS) / ms);
    const what = `${streams} streams, 35M F16, 1 thread: ${rate(oursMs)} tok/s against ${rate(floorMs)} of the plain loop`;
    rows.push({ bench: "engine", what, value: `${ratio.toFixed(3)}×`, target: "≥ 0.97×", ok: ratio >= 0.97 });
  }
  remove(dataDir);
  return rows;
}

/** No two begin alike: nothing may come from the cache. */
const makePrompts = (streams: number, round: number) =>
  Array.from({ length: streams }, (_, stream) =>
    Int32Array.from({ length: PROMPT }, (_, i) => 300 + ((round * 7919 + stream * 613 + i * 31) % 30_000)),
  );

async function engineRound(engine: Engine, prompts: readonly Int32Array[]): Promise<number> {
  const off = { minP: 0, frequencyPenalty: 0, presencePenalty: 0, logitBias: [] };
  const startedAt = performance.now();
  await Promise.all(
    prompts.map(async (prompt, i) => {
      const sampling = { ...SAMPLING, ...off, seed: i + 1 };
      const request = { prompt, maxTokens: TOKENS, sampling, samples: 1, stop: [], ignoreEos: true };
      let tokens = 0;
      for await (const deltas of engine.generate(request)) {
        for (const delta of deltas) tokens += delta.completionTokens ?? 0;
      }
      if (tokens !== TOKENS) throw new Error(`${tokens} tokens instead of ${TOKENS}`);
    }),
  );
  return performance.now() - startedAt;
}
