/**
 * `verk worker speed`: reads one line of JSON from the standard input, loads the model, measures how fast one decoder is,
 * and writes one line of JSON. A process of its own, so that a fault of a driver ends it alone and its memory is free again.
 */
import { errorText } from "../../lib/error_text.ts";
import type { Speed } from "../../lib/serving/measured_speed.ts";
import { type SpeedReport, SpeedTask } from "../../lib/serving/speed_task.ts";
import { openEngine } from "./engine/engine.ts";
import { type Engine, type Generation, UnusableModel } from "./engine/types.ts";

const STREAMS = [32, 8, 1] as const;
const PROMPT = 1024;
const SHORT = 16;
const TOKENS = 128;
const CONTEXT = PROMPT + 2 * TOKENS;
const ROUNDS = 3; // the fastest counts: neighbours only make it slower

export async function runSpeed(): Promise<void> {
  const report = await measured(SpeedTask.parse(JSON.parse(await Bun.stdin.text())));
  await Bun.write(Bun.stdout, `${JSON.stringify(report)}\n`);
  process.exit(0);
}

async function measured(task: SpeedTask): Promise<SpeedReport> {
  const begun = performance.now();
  try {
    const { engine, most } = await opened(task);
    const loadMs = performance.now() - begun;
    const answers = STREAMS.filter((streams) => streams <= most).reverse();
    await answer(engine, promptOf(SHORT, 0), TOKENS); // the first requests compile and fill caches
    const prompt = PROMPT / (await fastest((round) => answer(engine, promptOf(PROMPT, 1 + round), 1)));
    const rates: Speed["answers"] = [];
    for (const streams of answers)
      rates.push({ streams, rate: (streams * TOKENS) / (await fastest((round) => together(engine, streams, round))) });
    await engine.close();
    return { ok: true, speed: { prompt, answers: rates }, load_ms: loadMs };
  } catch (error) {
    return { ok: false, error: errorText(error) };
  }
}

/** With as many sequences as the memory holds. */
async function opened(task: SpeedTask): Promise<{ engine: Engine; most: number }> {
  const { data_dir: dataDir, model_path: modelPath, threads, gpus, decoder } = task;
  const options = { dataDir, modelPath, threads, gpus, decoder, contextLength: CONTEXT, guesses: false } as const;
  for (const most of STREAMS)
    try {
      return { engine: await openEngine({ ...options, repack: "auto", parallel: most }), most };
    } catch (error) {
      if (error instanceof UnusableModel || most === 1) throw error;
    }
  throw new Error("no sequence fits");
}

async function fastest(round: (index: number) => Promise<unknown>): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < ROUNDS; i++) {
    const begun = performance.now();
    await round(i);
    best = Math.min(best, (performance.now() - begun) / 1000);
  }
  return best;
}

const together = (engine: Engine, streams: number, round: number) =>
  Promise.all(Array.from({ length: streams }, (_, i) => answer(engine, promptOf(SHORT, 100 + round * 64 + i), TOKENS)));

/** No two begin alike: nothing may come from the cache. Tokens that every vocabulary has. */
const promptOf = (length: number, seed: number) =>
  Int32Array.from({ length }, (_, i) => 3 + ((seed * 7919 + i * 31) % 200));

const GREEDY = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
} as const;

async function answer(engine: Engine, prompt: Int32Array, maxTokens: number): Promise<void> {
  const request: Generation = {
    prompt,
    maxTokens,
    sampling: GREEDY,
    samples: 1,
    stop: [],
    ignoreEos: true,
    fresh: true,
  };
  for await (const _ of engine.generate(request));
}
