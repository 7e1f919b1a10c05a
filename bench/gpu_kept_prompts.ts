/**
 * Prompts on the disk, on one GPU: the first token of a conversation's next turn after its engine was closed, against
 * reading the prompt; how fast blocks come by the number of threads; and what writing blocks costs running streams.
 * `bun bench/gpu_kept_prompts.ts [--shape 8B] [--tokens 1000,8000,32000] [--streams 128] [--rounds 3] [--threads 1,4,8,12]
 * [--alone] [--emulated]`. `--alone` measures the decoder without engines, `--emulated` only shows that it runs. Files are in
 * the page cache.
 */
import { mkdirSync, readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Device, PAGE } from "../src/native/cuda/decode/kernels.ts";
import { openDecoder } from "../src/workers/decoder/decoder.ts";
import { PLAIN } from "../src/workers/decoder/drawing.ts";
import { headerOf } from "../src/workers/decoder/header.ts";
import { type DecoderModel, loadModel } from "../src/workers/decoder/model.ts";
import type { Decoder } from "../src/workers/decoder/types.ts";
import { PrefixFolder } from "../src/workers/serving/engine/prefixes/folder.ts";
import type { Engine, EngineOptions } from "../src/workers/serving/engine/types.ts";
import { openBenchDevice } from "./decode/device.ts";
import { SHAPES } from "./decode/shapes.ts";
import { generate, open, promptOf } from "./kept_engines.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import { median, type Row, remove, tempDir } from "./tools.ts";

const NEW_TOKENS = 30; // of the next turn
const BLOCK = 64;
const AIMS = [
  { tokens: 1_000, times: 3 },
  { tokens: 8_000, times: 10 },
  { tokens: 32_000, times: 20 },
];
const LONGEST_MS = 1_000; // at 32,000 tokens
const BUSY = { prompt: 200, tokens: 256 };
const PATIENCE_MS = 120_000;

type Options = {
  shape: string;
  tokens: readonly number[];
  streams: number;
  rounds: number;
  threads: readonly number[];
  alone: boolean;
  emulated: boolean;
};

async function measure({ shape: name, tokens, streams, rounds, threads, alone, emulated }: Options): Promise<Row[]> {
  const shape = SHAPES[name];
  if (!shape) throw new Error(`There is no shape ${name}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
  const dir = tempDir();
  const modelPath = join(dir, "model.gguf");
  await writeRolloutModel(modelPath, shape, "BF16");
  const rows: Row[] = [];
  const add = (what: string, value: string, target = "", ok: boolean | null = null) => {
    rows.push({ bench: "gpu_kept_prompts", what: `${name} BF16, ${what}`, value, target, ok });
    console.log(`${value}\t${name} BF16, ${what}${target ? ` (aim ${target}${ok ? "" : ", missed"})` : ""}`);
  };
  const longest = Math.max(...tokens);
  const contextLength = longest + 4 * BLOCK;
  const options = { dataDir: dir, modelPath, contextLength, parallel: 2, threads: 4, gpus: emulated ? [] : [0] };
  const talks = tokens.map((count, i) => promptOf(count, i + 1));
  const opening = (folder: string | null, more: Partial<EngineOptions> = {}) =>
    open({ ...options, decoder: "own", ...more }, folder, emulated);

  if (!alone) await parks();
  if (!emulated) {
    const device = openBenchDevice();
    const model = loadModel(device, { path: modelPath, header: headerOf(modelPath) }, contextLength);
    bringing({ device, model, dir, talk: talks.at(-1)!, contextLength, counts: threads }, add);
    model.free();
    device.close();
  }

  if (!alone && streams > 0) {
    if (emulated) BUSY.tokens = 4;
    const busy = { parallel: streams, contextLength: 2 * (BUSY.prompt + BUSY.tokens) };
    const engines = [await opening(null, busy), await opening(join(dir, "busy"), busy)];
    const speeds: number[][] = [[], []];
    for (const engine of engines) await speed(engine, streams, 0);
    for (let round = 1; round <= rounds + 2; round++)
      for (const [i, engine] of engines.entries()) speeds[i]!.push(await speed(engine, streams, round));
    for (const engine of engines) await engine.close();
    const [without, beside] = speeds.map(median) as [number, number];
    const loss = 1 - beside / without;
    const count = readdirSync(join(dir, "busy")).length;
    const each = speeds.map((some) => some.map((rate) => rate.toFixed(0)).join(", "));
    const what = `${streams} streams: ${beside.toFixed(0)} tok/s with blocks written (${each[1]}; ${count} blocks), ${without.toFixed(0)} without (${each[0]})`;
    add(what, `${(100 * loss).toFixed(1)} %`, "≤ 3 %", loss <= 0.03);
  }
  remove(dir);
  return rows;

  async function parks() {
    const kept = join(dir, "kept");
    await write(await opening(kept), talks, kept);
    const read = await opening(null);
    await warm(read);
    const [reads, wakes]: [number[][], number[][]] = [tokens.map(() => []), tokens.map(() => [])];
    for (let round = 0; round < rounds; round++)
      for (const [i, talk] of talks.entries()) reads[i]!.push(await generate(read, nextOf(talk, round), 1, true));
    await read.close();
    for (let round = 0; round < rounds; round++) {
      const engine = await opening(kept);
      await warm(engine);
      for (const [i, talk] of talks.entries()) wakes[i]!.push(await generate(engine, nextOf(talk, round), 1));
      await engine.close();
    }
    for (const [i, count] of tokens.entries()) {
      const [plain, woken] = [median(reads[i]!), median(wakes[i]!)];
      const aim = AIMS.findLast((each) => each.tokens <= count);
      const isLong = count >= 32_000;
      const what = `first token after a park at ${count} tokens: ${woken.toFixed(0)} ms (${wakes[i]!.map((ms) => ms.toFixed(0)).join(", ")}), ${plain.toFixed(0)} ms without blocks`;
      const isMet = aim ? plain / woken >= aim.times && (!isLong || woken <= LONGEST_MS) : null;
      add(what, `${(plain / woken).toFixed(1)}×`, aim ? `≥ ${aim.times}×${isLong ? ", ≤ 1 s" : ""}` : "", isMet);
    }
    remove(kept);
  }
}

const nextOf = (talk: Int32Array, round: number) => Int32Array.from([...talk, ...promptOf(NEW_TOKENS, 50 + round)]);

/** Graphs are recorded. */
async function warm(engine: Engine) {
  for (let i = 0; i < 2; i++) await generate(engine, promptOf(40, 90 + i), 4);
}

/** Has the conversations and closes the engine when all of their blocks are on the disk. */
async function write(engine: Engine, talks: readonly Int32Array[], folder: string) {
  await warm(engine);
  const begun = performance.now();
  for (const talk of talks) await generate(engine, talk, 4);
  const wanted = talks.reduce((sum, { length }) => sum + Math.floor((length - 1) / BLOCK), 0);
  const isThere = () => readdirSync(folder).filter((name) => name.length === 64).length >= wanted;
  while (!isThere() && performance.now() - begun < PATIENCE_MS) await Bun.sleep(20);
  console.log(`${wanted} blocks were on the disk ${(performance.now() - begun).toFixed(0)} ms after the first prompt`);
  await engine.close();
}

async function speed(engine: Engine, streams: number, round: number): Promise<number> {
  const begun = performance.now();
  const prompt = (i: number) => Int32Array.from([300 + i, 600 + round, ...promptOf(BUSY.prompt, round * 1000 + i)]);
  await Promise.all(Array.from({ length: 2 * streams }, (_, i) => generate(engine, prompt(i), BUSY.tokens)));
  return (2 * streams * BUSY.tokens * 1000) / (performance.now() - begun);
}

type Bringing = {
  device: Device;
  model: DecoderModel;
  dir: string;
  talk: Int32Array;
  contextLength: number;
  counts: readonly number[];
};

/** The decoder alone, with other numbers of threads. */
function bringing(of: Bringing, add: (what: string, value: string) => void) {
  const { device, model, talk, contextLength, counts } = of;
  const store = { dir: join(of.dir, "threads"), key: "11".repeat(32), identity: "bench" };
  mkdirSync(store.dir);
  const opened = (threads: number) => {
    const folder = new PrefixFolder(store, () => {}, { threads });
    folder.grant(1e12);
    const begun = performance.now();
    const pages = 2 * Math.ceil(contextLength / PAGE);
    const size = { slots: 2, contextLength, pages, promptTokens: 2048, ahead: true };
    const decoder = openDecoder(device, model, { ...size, blocks: folder });
    const openMs = performance.now() - begun;
    for (let i = 0; i < 2; i++) first(decoder, folder, promptOf(40, 90 + i));
    return { folder, decoder, openMs };
  };
  const writer = opened(Math.max(1, availableParallelism() - 2));
  first(writer.decoder, writer.folder, talk);
  const begun = performance.now();
  while (writer.decoder.keep());
  const blocks = Math.floor((talk.length - 1) / BLOCK);
  add(`${blocks} blocks written by an idle decoder`, `${(performance.now() - begun).toFixed(0)} ms`);
  writer.decoder.close();
  for (const threads of counts) {
    const times: number[] = [];
    let openMs = 0;
    for (let round = 0; round < 3; round++) {
      const { folder, decoder, openMs: ms } = opened(threads);
      times.push(first(decoder, folder, nextOf(talk, round)));
      openMs = ms;
      decoder.close();
    }
    const counted = times.map((ms) => ms.toFixed(0)).join(", ");
    add(
      `first token at ${talk.length} tokens, ${threads} threads (${counted}; opened in ${openMs.toFixed(0)} ms)`,
      `${median(times).toFixed(0)} ms`,
    );
  }
}

/** Milliseconds until the first token. */
function first(decoder: Decoder, folder: PrefixFolder, prompt: Int32Array): number {
  const begun = performance.now();
  const blocks = folder.names({ decoder: "bench", adapter: "" }, prompt, Math.floor((prompt.length - 1) / BLOCK));
  const id = decoder.admit({ prompt, maxTokens: 1, drawing: { ...PLAIN, temperature: 0 }, blocks });
  if (id === null) throw new Error("no room");
  while (decoder.step().length === 0);
  const ms = performance.now() - begun;
  decoder.release(id);
  return ms;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      shape: { type: "string", default: "8B" },
      tokens: { type: "string", default: "1000,8000,32000" },
      streams: { type: "string", default: "128" },
      rounds: { type: "string", default: "3" },
      threads: { type: "string", default: "1,4,8,12,14" },
      alone: { type: "boolean", default: false },
      emulated: { type: "boolean", default: false },
    },
  });
  await measure({
    shape: values.shape,
    tokens: values.tokens.split(",").map(Number),
    streams: Number(values.streams),
    rounds: Number(values.rounds),
    threads: values.threads.split(",").map(Number),
    alone: values.alone,
    emulated: values.emulated,
  });
}
