/**
 * Serving over HTTP on one GPU, by our own kernels and by the library, beside the library's bare decode loop: tokens a
 * second at 1, 32, 128 and 256 streams, the first token of an idle engine, and the gaps of running streams while prompts
 * of 32,000 tokens arrive. The engine and the HTTP side of a serving worker run here; clients run in other processes.
 * `bun bench/gpu_serving.ts [--shape 0.5B] [--type BF16] [--streams 1,32] [--decoder own,library] [--no-loop] [--no-long] [--cpu]`
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openEngine } from "../src/workers/serving/engine/engine.ts";
import type { DecoderChoice, Engine } from "../src/workers/serving/engine/types.ts";
import { createRequestHandler, listen } from "../src/workers/serving/http.ts";
import { toServed } from "../src/workers/serving/request.ts";
import { libraryRate } from "./decode/library.ts";
import { SHAPES } from "./decode/shapes.ts";
import { type RolloutType, writeRolloutModel } from "./peers/rollout_model.ts";
import type { StreamJob, StreamOutcome } from "./peers/stream_clients.ts";
import { median, type Row, remove, tempDir } from "./tools.ts";

export const PROMPT = 31;
export const TOKENS = 256;
export const CONTEXT = 512;
const PROCESSES = 4;
const FIRSTS = 30;
const LONG = { prompt: 32_000, prompts: 4, apartMs: 250, streams: 8, tokens: 2000, context: 33_792 };

type Options = {
  shape: string;
  type: RolloutType;
  streams: readonly number[];
  decoders: readonly DecoderChoice[];
  loop: boolean;
};
type All = Options & { long: boolean; gpus: readonly number[] };

async function measure({ shape: name, type, streams, decoders, loop, long, gpus }: All): Promise<Row[]> {
  const shape = SHAPES[name];
  if (!shape) throw new Error(`There is no shape ${name}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
  const dataDir = tempDir();
  const modelPath = join(dataDir, "model.gguf");
  await writeRolloutModel(modelPath, shape, type);
  const rows: Row[] = [];
  const add = (what: string, value: string) => {
    console.error(`${value}\t${name} ${type}, ${what}`);
    rows.push({ bench: "gpu_serving", what: `${name} ${type}, ${what}`, value, target: "", ok: null });
  };
  for (const decoder of decoders) {
    const parallel = Math.max(...streams);
    await served({ dataDir, modelPath, decoder, gpus, parallel, contextLength: CONTEXT }, async (socket, engine) => {
      console.error(engine.facts.decoder);
      for (const count of streams) add(`${decoder}, ${count} streams over HTTP`, await rates(socket, count));
      add(`${decoder}, first token of an idle engine`, await firsts(socket));
    });
    if (!long) continue;
    const { context: contextLength, streams: running, prompts } = LONG;
    const size = { parallel: running + prompts, contextLength };
    await served({ dataDir, modelPath, decoder, gpus, ...size }, async (socket) => {
      add(
        `${decoder}, ${running} streams while ${prompts} prompts of ${LONG.prompt} arrive`,
        await longPrompts(socket),
      );
    });
  }
  for (const count of loop ? streams : []) {
    const rate = libraryRate({ dataDir, modelPath, streams: count, prompt: PROMPT, tokens: TOKENS });
    add(`the library's decode loop without drawing, ${count} streams`, `${Math.round(rate)} tok/s`);
  }
  remove(dataDir);
  return rows;
}

type Case = {
  dataDir: string;
  modelPath: string;
  decoder: DecoderChoice;
  gpus: readonly number[];
  parallel: number;
  contextLength: number;
};

export async function served(of: Case, body: (socket: string, engine: Engine) => Promise<void>) {
  const engine = await openEngine({ ...of, repack: "auto", threads: of.gpus.length > 0 ? 4 : 1 });
  const socket = join(of.dataDir, `${crypto.randomUUID().slice(0, 8)}.sock`);
  const stopping = new AbortController();
  const server = listen(socket, createRequestHandler(toServed(engine), () => {}, stopping.signal).fetch);
  try {
    await body(socket, engine);
  } finally {
    await server.stop(true);
    await engine.close();
  }
}

async function run(job: StreamJob): Promise<StreamOutcome> {
  const command = [process.execPath, join(import.meta.dir, PEER), JSON.stringify(job)];
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const [out, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(error.slice(-2000));
  return JSON.parse(out) as StreamOutcome;
}
const PEER = import.meta.file.endsWith(".js") ? "stream_clients.js" : "peers/stream_clients.ts"; // packed or not

async function together(socket: string, count: number, round: number): Promise<StreamOutcome[]> {
  const processes = Math.min(count, PROCESSES);
  const clients = (i: number) => Math.floor((count * (i + 1)) / processes) - Math.floor((count * i) / processes);
  const job = { socket, path: "/completions" as const, prompt: PROMPT, tokens: TOKENS };
  return Promise.all(
    Array.from({ length: processes }, (_, i) => run({ ...job, clients: clients(i), seed: round * 10 + i + 1 })),
  );
}

/** Whole answers; the best of some rounds. */
export async function bestRound(socket: string, count: number, rounds = 4) {
  let best = { whole: 0, gap50: 0, gap99: 0, first: 0, perEvent: 0 };
  for (let round = 0; round < rounds; round++) {
    const all = await together(socket, count, round);
    const tokens = all.reduce((sum, each) => sum + each.tokens, 0);
    const ms = Math.max(...all.map(({ end }) => end)) - Math.min(...all.map(({ begun }) => begun));
    const whole = (1000 * tokens) / ms;
    const gaps = all.flatMap(({ gaps }) => gaps);
    const events = all.reduce((sum, each) => sum + each.events, 0);
    const first = median(all.flatMap(({ firstMs }) => firstMs));
    if (round > 0 && whole > best.whole)
      best = { whole, gap50: quantile(gaps, 0.5), gap99: quantile(gaps, 0.99), first, perEvent: tokens / events };
  }
  return best;
}

async function rates(socket: string, count: number): Promise<string> {
  const { whole, gap50, gap99, first, perEvent } = await bestRound(socket, count);
  return `${Math.round(whole)} tok/s; first token ${first.toFixed(1)} ms; between events p50 ${gap50.toFixed(2)}, p99 ${gap99.toFixed(2)} ms; ${perEvent.toFixed(1)} tokens an event`;
}

async function firsts(socket: string): Promise<string> {
  const job = { socket, path: "/completions" as const, clients: FIRSTS, prompt: PROMPT, tokens: 2, apartMs: 40 };
  const { firstMs } = await run({ ...job, seed: 77 });
  return `p50 ${median(firstMs).toFixed(2)} ms, p99 ${quantile(firstMs, 0.99).toFixed(2)} ms`;
}

async function longPrompts(socket: string): Promise<string> {
  const base = { socket, path: "/completions" as const };
  await run({ ...base, clients: LONG.streams, prompt: PROMPT, tokens: 64, seed: 1 }); // records graphs
  const running = run({ ...base, clients: LONG.streams, prompt: PROMPT, tokens: LONG.tokens, seed: 2 });
  await Bun.sleep(300);
  const long = { clients: LONG.prompts, prompt: LONG.prompt, tokens: 8, seed: 3, apartMs: LONG.apartMs };
  const [{ gaps }, { firstMs }] = await Promise.all([running, run({ ...base, ...long })]);
  const [p50, p99] = [quantile(gaps, 0.5), quantile(gaps, 0.99)];
  return `gaps p50 ${p50.toFixed(2)}, p99 ${p99.toFixed(2)} ms = ${(p99 / p50).toFixed(1)}×, longest ${Math.max(...gaps).toFixed(1)} ms; first tokens of the prompts after ${firstMs.map((ms) => ms.toFixed(0)).join(", ")} ms`;
}

const quantile = (values: readonly number[], q: number) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(q * values.length))] ?? Number.NaN;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      shape: { type: "string", default: "0.5B" },
      type: { type: "string", default: "BF16" },
      streams: { type: "string", default: "1,32,128,256" },
      decoder: { type: "string", default: "own,library" },
      "no-loop": { type: "boolean", default: false },
      "no-long": { type: "boolean", default: false },
      cpu: { type: "boolean", default: false },
    },
  });
  const rows = await measure({
    shape: values.shape,
    type: values.type as RolloutType,
    streams: values.streams.split(",").map(Number),
    decoders: values.decoder.split(",") as DecoderChoice[],
    loop: !values["no-loop"],
    long: !values["no-long"],
    gpus: values.cpu ? [] : [0],
  });
  for (const { what, value } of rows) console.log(`${value}\t${what}`);
}
