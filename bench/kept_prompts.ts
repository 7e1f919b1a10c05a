/**
 * Prompts on the disk: the first token of a conversation's next turn in a new engine, with blocks and without; and what it
 * costs the running streams that blocks are written. The aims are checked by processor time, as a busy machine moves the clock.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { EngineOptions } from "../src/workers/serving/engine/types.ts";
import { makeModel } from "../test/models.ts";
import { generate, open, promptOf } from "./kept_engines.ts";
import { median, ROOT, type Row, remove, tempDir } from "./tools.ts";

const PROMPT = 4_096;
const ROUNDS = 3;
const STREAMS = 16;
const TOKENS = 64;

export async function run({ quick }: { quick: boolean }): Promise<Row[]> {
  const rounds = quick ? 1 : ROUNDS;
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
    const read = await wakes(options, null, rounds);
    const kept = await wakes(options, join(dir, `kept-${name}`), rounds);
    const ratio = read.cpuMs / kept.cpuMs;
    const times = ({ cpuMs, ms }: Wake) => `${cpuMs.toFixed(0)} ms of a processor (${ms.toFixed(0)} ms on the clock)`;
    const what = `${name}, 1 thread: first token after a wake at ${PROMPT} tokens: ${times(kept)}; without blocks ${times(read)}`;
    rows.push({ bench: "kept_prompts", what, value: `${ratio.toFixed(1)}×`, target: "≥ 3×", ok: ratio >= 3 });
  }
  const busy = { dataDir: dir, modelPath: random, contextLength: 1024, parallel: STREAMS, threads: 1, gpus: [] };
  const speeds: Awaited<ReturnType<typeof speed>>[][] = [[], []];
  for (let round = 0; round < rounds; round++)
    for (const [i, prefixes] of [null, join(dir, `busy-${round}`)].entries())
      speeds[i]!.push(await speed(busy, prefixes, round));
  const [without, beside] = speeds.map((some) => ({
    cpu: median(some.map(({ cpu }) => cpu)),
    clock: median(some.map(({ clock }) => clock)),
  })) as [{ cpu: number; clock: number }, { cpu: number; clock: number }];
  const loss = 1 - beside.cpu / without.cpu;
  const rates = ({ cpu, clock }: typeof beside) =>
    `${cpu.toFixed(1)} tokens in a second of a processor (${clock.toFixed(1)} on the clock)`;
  const what = `60M F16, ${STREAMS} streams: ${rates(beside)} with blocks, ${rates(without)} without`;
  rows.push({ bench: "kept_prompts", what, value: `${(100 * loss).toFixed(1)} %`, target: "≤ 3 %", ok: loss <= 0.03 });
  remove(dir);
  return rows;
}

type Wake = { cpuMs: number; ms: number };

/** Medians until the first token of a turn in an engine that has just been opened. */
async function wakes(options: EngineOptions, dir: string | null, rounds: number): Promise<Wake> {
  const talk = promptOf(PROMPT, 1);
  if (dir !== null) {
    const before = await open(options, dir);
    await generate(before, talk, 8);
    const isThere = () => readdirSync(dir).filter((name) => name.length === 64).length >= PROMPT / 64;
    while (!isThere()) await Bun.sleep(20); // an engine writes while it is idle
    await before.close();
  }
  const all: Wake[] = [];
  for (let round = 0; round < rounds; round++) {
    const engine = await open(options, dir);
    await generate(engine, promptOf(40, 2), 2); // the first batch also reads the weights
    const next = Int32Array.from([...talk, ...promptOf(30, round + 3)]);
    const cpuBefore = process.cpuUsage();
    const ms = await generate(engine, next, 1);
    all.push({ cpuMs: cpuMsSince(cpuBefore), ms });
    await engine.close();
  }
  return { cpuMs: median(all.map(({ cpuMs }) => cpuMs)), ms: median(all.map(({ ms }) => ms)) };
}

/** Tokens that a second of processor time makes, and one on the clock. */
async function speed(options: EngineOptions, dir: string | null, round: number) {
  const engine = await open(options, dir);
  await generate(engine, promptOf(40, 2), 2);
  const [begun, cpuBefore] = [performance.now(), process.cpuUsage()];
  const all = Array.from({ length: 2 * STREAMS }, (_, i) => generate(engine, promptOf(200, round * 1000 + i), TOKENS));
  await Promise.all(all);
  const tokens = 2 * STREAMS * TOKENS * 1000;
  const rates = { cpu: tokens / cpuMsSince(cpuBefore), clock: tokens / (performance.now() - begun) };
  await engine.close();
  return rates;
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
