/**
 * Priorities: the first token of interactive requests beside a batch that takes every place, and in an idle engine. The
 * prompts of people differ, so that no cache helps; those of the batch come one after the other without an end.
 */
import { rankOf } from "../src/lib/chat/priority.ts";
import { openEngine } from "../src/workers/serving/engine/engine.ts";
import type { Engine } from "../src/workers/serving/engine/types.ts";
import { makeModel } from "../test/models.ts";
import { SAMPLING } from "./peers/plain_decode.ts";
import { median, type Row, remove, tempDir } from "./tools.ts";

const STREAMS = 8;
const PEOPLE = 24;
const PROMPT = 300;
const off = { minP: 0, frequencyPenalty: 0, presencePenalty: 0, logitBias: [] };

export async function run(): Promise<Row[]> {
  const dir = tempDir();
  const shape = { layers: 12, width: 512, heads: 8, kvHeads: 8, ff: 1408, vocabSize: 32_000 } as const;
  const modelPath = makeModel(dir, { arch: "llama", type: "F16", ...shape, context: 1024 });
  const options = { dataDir: dir, modelPath, contextLength: 1024, parallel: STREAMS, threads: 1, gpus: [] };
  const engine = await openEngine(options);
  await firstToken(engine, 1, "normal", 2);
  const times: { idle: number[]; busy: number[] } = { idle: [], busy: [] };
  const pieces = 4; // the speed of the machine changes: both kinds are measured in turn
  let seed = 1_000;
  for (let piece = 0; piece < pieces; piece++) {
    for (let i = 0; i < PEOPLE / pieces; i++) times.idle.push(await firstToken(engine, ++seed, "interactive", 1));
    const stop = new AbortController();
    const batch = Array.from({ length: 2 * STREAMS }, async (_, i) => {
      for (let turn = 0; !stop.signal.aborted; turn++)
        await firstToken(engine, 100_000 + 100 * turn + i, "batch", 64, stop.signal).catch(() => {});
    });
    while (engine.stats().active < STREAMS) await Bun.sleep(10);
    for (let i = 0; i < PEOPLE / pieces; i++) times.busy.push(await firstToken(engine, ++seed, "interactive", 1));
    stop.abort();
    await Promise.all(batch);
  }
  await engine.close();
  remove(dir);
  const p95 = (of: number[]) => of.sort((a, b) => a - b)[Math.ceil(0.95 * of.length) - 1]!;
  const [idle, busy] = [p95(times.idle), p95(times.busy)];
  const medians = `p50 ${median(times.busy).toFixed(0)} and ${median(times.idle).toFixed(0)} ms`;
  const what = `60M F16, 1 thread, ${STREAMS} places: first token of ${PROMPT} tokens beside a batch: p95 ${busy.toFixed(0)} ms, idle ${idle.toFixed(0)} ms; ${medians}`;
  const ratio = busy / idle;
  return [{ bench: "priorities", what, value: `${ratio.toFixed(2)}×`, target: "≤ 1.5×", ok: ratio <= 1.5 }];
}

async function firstToken(
  engine: Engine,
  seed: number,
  priority: "interactive" | "normal" | "batch",
  maxTokens: number,
  signal?: AbortSignal,
): Promise<number> {
  const begun = performance.now();
  const prompt = Int32Array.from({ length: PROMPT }, (_, i) => 300 + ((seed * 7919 + i * 31) % 20_000));
  const request = { prompt, maxTokens, samples: 1, stop: [], ignoreEos: true, rank: rankOf(priority) };
  let first = 0;
  for await (const _ of engine.generate({ ...request, sampling: { ...SAMPLING, ...off, seed } }, signal))
    first ||= performance.now() - begun;
  return first;
}
