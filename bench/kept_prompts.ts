/**
 * Prompts on the disk: the first token of a conversation's next turn in a new process, with blocks and without; and what it
 * costs the running streams that blocks are written.
 */
import { join } from "node:path";
import type { EngineOptions } from "../src/workers/serving/engine/types.ts";
import { makeModel } from "../test/models.ts";
import { generate, open, promptOf } from "./kept_engines.ts";
import { median, ROOT, type Row, remove, tempDir } from "./tools.ts";

const PROMPT = 4_096;
const ROUNDS = 3;
const STREAMS = 16;
const TOKENS = 64;

export async function run(): Promise<Row[]> {
  const dir = tempDir();
  const shape = { layers: 12, width: 512, heads: 8, kvHeads: 8, ff: 1408, vocabSize: 32_000 } as const;
  const random = makeModel(dir, { arch: "llama", type: "F16", ...shape, context: 8192 });
  const tiny = join(ROOT, "models/verk-tiny/verk-tiny.gguf");
  const rows: Row[] = [];
  for (const [name, modelPath] of [
    ["60M F16", random],
    ...((await Bun.file(tiny).exists()) ? [["verk-tiny", tiny]] : []),
  ] as [string, string][]) {
    const options = { dataDir: dir, modelPath, contextLength: 8192, parallel: 2, threads: 1, gpus: [] };
    const [read, kept] = [await wakes(options, null), await wakes(options, join(dir, `kept-${name}`))];
    const ratio = read / kept;
    const what = `${name}, 1 thread: first token after a wake at ${PROMPT} tokens: ${kept.toFixed(0)} ms, ${read.toFixed(0)} ms without blocks`;
    rows.push({ bench: "kept_prompts", what, value: `${ratio.toFixed(1)}×`, target: "≥ 3×", ok: ratio >= 3 });
  }
  const busy = { dataDir: dir, modelPath: random, contextLength: 1024, parallel: STREAMS, threads: 1, gpus: [] };
  const speeds: number[][] = [[], []];
  for (let round = 0; round < ROUNDS; round++)
    for (const [i, prefixes] of [null, join(dir, `busy-${round}`)].entries())
      speeds[i]!.push(await speed(busy, prefixes, round));
  const loss = 1 - median(speeds[1]!) / median(speeds[0]!);
  const what = `60M F16, ${STREAMS} streams: ${median(speeds[1]!).toFixed(0)} tok/s with blocks, ${median(speeds[0]!).toFixed(0)} without`;
  rows.push({ bench: "kept_prompts", what, value: `${(100 * loss).toFixed(1)} %`, target: "≤ 3 %", ok: loss <= 0.03 });
  remove(dir);
  return rows;
}

/** The median time to the first token of a turn in an engine that has just been opened. */
async function wakes(options: EngineOptions, dir: string | null): Promise<number> {
  const talk = promptOf(PROMPT, 1);
  if (dir !== null) {
    const before = await open(options, dir);
    await generate(before, talk, 8);
    await before.close();
  }
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const engine = await open(options, dir);
    await generate(engine, promptOf(40, 2), 2); // the first batch also reads the weights
    const next = Int32Array.from([...talk, ...promptOf(30, round + 3)]);
    times.push(await generate(engine, next, 1));
    await engine.close();
  }
  return median(times);
}

async function speed(options: EngineOptions, dir: string | null, round: number): Promise<number> {
  const engine = await open(options, dir);
  await generate(engine, promptOf(40, 2), 2);
  const begun = performance.now();
  const all = Array.from({ length: 2 * STREAMS }, (_, i) => generate(engine, promptOf(200, round * 1000 + i), TOKENS));
  await Promise.all(all);
  const rate = (2 * STREAMS * TOKENS * 1000) / (performance.now() - begun);
  await engine.close();
  return rate;
}
