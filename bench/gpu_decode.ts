/**
 * Decoding by our own kernels against the library's batched decode, on one GPU: 1, 32, 128 and 256 streams after prompts
 * of 128, and the share of the memory's limit. `bun bench/gpu_decode.ts [--shape 0.5B] [--type BF16] [--streams 1,32]
 * [--wide off,64,128/0] [--kernels] [--library]` prints more. `--wide` are the least rows of a pass, and multiplications
 * of a product, that cuBLAS is used for; each is measured, and compared with our kernels alone. `--adapters 0,1,16 [--rank
 * 16]` spreads the streams over so many adapters of all seven matrices. `--repack` keeps a copy of quantized weights in BF16.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Device, PAGE } from "../src/native/cuda/decode/kernels.ts";
import { openDecoder } from "../src/workers/decoder/decoder.ts";
import { PLAIN } from "../src/workers/decoder/drawing.ts";
import { headerOf } from "../src/workers/decoder/header.ts";
import { type DecoderModel, loadModel } from "../src/workers/decoder/model.ts";
import { WIDE, WIDE_ROLLOUTS, type Wide } from "../src/workers/decoder/plan.ts";
import { rollGroups } from "../src/workers/decoder/roll.ts";
import { holdDecoded } from "../src/workers/decoder/steps/wide.ts";
import type { Decoder } from "../src/workers/decoder/types.ts";
import { writeRandomAdapter } from "./decode/adapter.ts";
import { compareWide, wideOf } from "./decode/compare_wide.ts";
import { hasDevice, openBenchDevice } from "./decode/device.ts";
import { timingDevice } from "./decode/kernel_times.ts";
import { libraryRate } from "./decode/library.ts";
import { roof, SHAPES, WEIGHT_BYTES } from "./decode/shapes.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import { type Row, remove, tempDir } from "./tools.ts";

const PROMPT = 128;
const TOKENS = 128;
const STREAMS = [1, 32, 128, 256];
const BYTES_PER_SECOND = 4.3e12; // copies on an H200, measured

type Options = {
  shape: string;
  type: keyof typeof WEIGHT_BYTES;
  streams: readonly number[];
  wides: readonly (Wide | null)[];
  kernels: boolean;
  library: boolean;
  adapters: readonly number[];
  rank: number;
  repack: boolean;
};

export async function run(_: { quick: boolean }): Promise<Row[]> {
  if (!hasDevice()) return [];
  const plain = { shape: "0.5B", type: "BF16", streams: STREAMS, wides: [WIDE_ROLLOUTS], kernels: false } as const;
  return measure({ ...plain, library: true, adapters: [0], rank: 16, repack: false });
}

async function measure(options: Options): Promise<Row[]> {
  const { shape: name, type, streams, wides, kernels, library, adapters, rank, repack } = options;
  const shape = SHAPES[name];
  if (!shape) throw new Error(`There is no shape ${name}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
  const dataDir = tempDir();
  const modelPath = join(dataDir, "model.gguf");
  await writeRolloutModel(modelPath, shape, type);
  const adapterPath = join(dataDir, "adapter.gguf");
  if (Math.max(...adapters) > 0) await writeRandomAdapter(adapterPath, shape, rank);
  const device = openBenchDevice();
  const model = loadModel(device, { path: modelPath, header: headerOf(modelPath) }, PROMPT + 2 * TOKENS);
  const copies = repack ? holdDecoded(device, model) : null;
  const rows: Row[] = [];
  const add = (what: string, value: string, target = "", ok: boolean | null = null) => {
    rows.push({ bench: "gpu_decode", what: `${name} ${type}, ${what}`, value, target, ok });
    console.error(`${value}\t${name} ${type}, ${what}`);
  };
  for (const count of streams) {
    const peer = library ? libraryRate({ dataDir, modelPath, streams: count, prompt: PROMPT, tokens: TOKENS }) : 0;
    const limit = roof(shape, count, PROMPT + TOKENS / 2, BYTES_PER_SECOND, WEIGHT_BYTES[type]);
    for (const [wide, spread] of wides.flatMap((wide) => adapters.map((each) => [wide, each] as const))) {
      const own = ownRate(device, model, { streams: count, kernels, wide, adapters: spread, adapterPath });
      const loads =
        spread === 0 ? "" : ` over ${spread} adapters of rank ${rank} (each in ${own.attachMs.toFixed(1)} ms)`;
      const what = `${count} streams${loads}, cuBLAS ${nameOf(wide)}: ${own.usOfStep.toFixed(0)} µs a step, prompts ${Math.round(own.promptRate)} tok/s, ${((100 * own.rate) / limit).toFixed(0)} % of the memory's limit; the library ${Math.round(peer)} tok/s`;
      add(what, `${Math.round(own.rate)} tok/s`, "≥ the library", peer === 0 ? null : own.rate >= peer);
    }
  }
  for (const wide of streams.includes(256) ? wides : []) {
    const what = `rollouts: 256 samples of ${TOKENS} tokens in groups of 8, prompts of ${PROMPT} included, cuBLAS ${nameOf(wide)}`;
    const rate = Math.round(rolloutRate(device, model, wide));
    add(what, `${rate} tok/s`, "≥ 100000", rate >= 100_000);
    if (wide) add(`the same step with and without cuBLAS ${nameOf(wide)}`, compareWide(device, model, wide));
  }
  copies?.free();
  model.free();
  device.close();
  remove(dataDir);
  return rows;
}

const nameOf = (wide: Wide | null) => (wide ? `from ${wide.rows} rows and ${wide.work} multiplications on` : "off");

type RateOptions = {
  streams: number;
  kernels: boolean;
  wide: Wide | null;
  adapters: number;
  adapterPath: string;
};

/** Wall-clock rates, with the host's part. Prompts are read first. */
function ownRate(device: Device, model: DecoderModel, { streams, kernels, wide, adapters, adapterPath }: RateOptions) {
  const contextLength = PROMPT + (kernels ? 2 : 1) * TOKENS; // timing kernels moves positions on
  const perStream = Math.ceil(contextLength / PAGE);
  const decoder = openDecoder(kernels ? timingDevice(device) : device, model, {
    slots: streams,
    contextLength,
    pages: streams * perStream,
    promptTokens: 4096,
    ahead: true,
    wide,
    adapters: { most: Math.max(1, adapters) },
  });
  const attached = Array.from({ length: adapters }, () => attach(decoder, adapterPath));
  device.wait();
  const drawing = (seed: number) => ({ ...PLAIN, seed, topLogprobs: 0 });
  const begin = performance.now();
  for (let stream = 0; stream < streams; stream++) {
    const prompt = Int32Array.from({ length: PROMPT }, (_, i) => 300 + ((stream * 613 + i * 31) % 1700));
    const adapter = attached[stream % Math.max(1, adapters)]?.adapter;
    const admission = { prompt, maxTokens: TOKENS, drawing: drawing(stream), adapter };
    if (decoder.admit(admission) === null) throw new Error("no room");
  }
  while (decoder.stats().reading > 0) decoder.step();
  device.wait();
  const promptMs = performance.now() - begin;
  for (let i = 0; i < 16; i++) decoder.step(); // graphs are captured
  const { drawn, ms, steps } = timed(decoder);
  decoder.close();
  const read = streams * (PROMPT - 1);
  const attachMs = Math.min(...attached.map(({ ms }) => ms));
  return { rate: (1000 * drawn) / ms, usOfStep: (1000 * ms) / steps, promptRate: (1000 * read) / promptMs, attachMs };
}

function attach(decoder: Decoder, path: string) {
  const before = performance.now();
  const load = decoder.attach([{ path, header: headerOf(path), scale: 1 }]);
  if (typeof load === "string") throw new Error(load);
  while (load.more());
  return { adapter: load.adapter, ms: performance.now() - before };
}

/** Rollouts as in bench/rollouts.ts: 32 groups of 8 samples, prompts included. The best of some rounds. */
function rolloutRate(device: Device, model: DecoderModel, wide: Wide | null): number {
  const contextLength = PROMPT + TOKENS;
  const slots = 256;
  const pages = slots * Math.ceil(contextLength / PAGE);
  const decoder = openDecoder(device, model, { slots, contextLength, pages, promptTokens: 4096, ahead: true, wide });
  const sampling = { temperature: 1, topP: 1, topK: 0, minP: 0, maxTokens: TOKENS };
  let best = 0;
  for (let round = 0; round < 5; round++) {
    const requests = Array.from({ length: 32 }, (_, group) => {
      const token = (i: number) => 300 + ((round * 7919 + group * 613 + i * 31) % 1700);
      return { prompt: Int32Array.from({ length: PROMPT }, (_, i) => token(i)), samples: 8, seed: round * 100 + group };
    });
    const before = performance.now();
    const rolled = rollGroups(decoder, requests, sampling, () => false).flat();
    const drawn = rolled.reduce((sum, { tokens }) => sum + tokens.length, 0);
    best = Math.max(best, (1000 * drawn) / (performance.now() - before));
    decoder.clear();
  }
  decoder.close();
  return best;
}

function timed(decoder: Decoder) {
  const before = { at: performance.now(), steps: decoder.stats().steps };
  let drawn = 0;
  while (decoder.stats().active > 0) drawn += decoder.step().length;
  return { drawn, ms: performance.now() - before.at, steps: decoder.stats().steps - before.steps };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      shape: { type: "string", default: "0.5B" },
      type: { type: "string", default: "BF16" },
      streams: { type: "string", default: STREAMS.join() },
      wide: { type: "string", default: `${WIDE.rows}` },
      kernels: { type: "boolean", default: false },
      library: { type: "boolean", default: false },
      adapters: { type: "string", default: "0" },
      rank: { type: "string", default: "16" },
      repack: { type: "boolean", default: false },
    },
  });
  const { shape, kernels, library } = values;
  const [streams, adapters] = [values.streams, values.adapters].map((list) => list.split(",").map(Number)) as [
    number[],
    number[],
  ];
  const type = values.type as Options["type"];
  await measure({
    shape,
    type,
    streams,
    wides: values.wide.split(",").map(wideOf),
    kernels,
    library,
    adapters,
    rank: Number(values.rank),
    repack: values.repack,
  });
}
