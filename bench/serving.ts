/**
 * Tokens per second through the whole product (HTTP, server, worker) against the bare library on the same file with
 * the same threads and sampler chain; the time to the first token; a wake. By itself:
 * `bun bench/serving.ts --gpu` takes a model of Qwen2.5-0.5B's shape and N = 1, 32, 128; VERK_BINARY names the build.
 */
import { closeSync, existsSync, globSync, mkdirSync, openSync, readSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { platform } from "../src/native/platform/index.ts";
import { type ModelOptions, makeModel } from "../test/models.ts";
import type { First as ClientFirst, Job as ClientJob, Outcome as ClientOutcome } from "./peers/chat_clients.ts";
import type { First as EngineFirst, Job as EngineJob } from "./peers/engine_first.ts";
import type { Job as PlainJob, Outcome as PlainOutcome } from "./peers/library.ts";
import { BINARY, makeKey, median, pinned, ROOT, type Row, type Running, remove, startVerk, tempDir } from "./tools.ts";

type Plan = { model: ModelOptions; counts: number[]; tokens: number; rounds: number; threads: number };

const CPU: Plan = {
  // 60 million parameters, 120 MB.
  model: {
    arch: "llama",
    type: "F16",
    layers: 8,
    width: 640,
    heads: 10,
    kvHeads: 5,
    ff: 1920,
    context: 4096,
    vocabSize: 16_000,
  },
  counts: [1, 8, 32],
  tokens: 128,
  rounds: 5,
  threads: 1,
};
const GPU: Plan = {
  // The shape of Qwen2.5-0.5B with an output layer of its own: 630 million parameters, 1.26 GB.
  model: {
    arch: "qwen2",
    type: "F16",
    layers: 24,
    width: 896,
    heads: 14,
    kvHeads: 2,
    ff: 4864,
    context: 32_768,
    vocabSize: 151_936,
  },
  counts: [1, 32, 128],
  tokens: 256,
  rounds: 5,
  threads: 4,
};

const CONTEXT = 512;
const FIRSTS = 100;
const WAKES = 5;
const READY_MS = 300_000;

type Bench = { plan: Plan; verk: Running; key: string; file: string; libraries: string };
type Deployment = { id: string; name: string; status: string; parked: boolean; error: string | null };

const QUICK: Plan = { ...CPU, counts: [1, 8], tokens: 64, rounds: 3 };

export const run = ({ quick = false } = {}): Promise<Row[]> => withModel(quick ? QUICK : CPU, measure);

async function withModel(plan: Plan, body: (bench: Bench) => Promise<Row[]>): Promise<Row[]> {
  const dir = tempDir();
  mkdirSync(join(dir, "models"));
  const made = makeModel(join(dir, "made"), plan.model);
  const file = join(dir, "models", "bench.gguf");
  renameSync(made, file);
  await Bun.write(join(dir, "bench.toml"), `offline = true\n[serving]\nthreads = ${plan.threads}\n`);
  const verk = await startVerk(dir, [], ["--config", join(dir, "bench.toml")]);
  try {
    const key = await makeKey(dir, "*");
    const bench: Bench = { plan, verk, key, file, libraries: "" };
    await known(bench);
    const { id } = await create(bench, { name: "warm", parallel: 1 }); // extracts the libraries
    await call(bench, "POST", `/v1/deployments/${id}/stop`);
    bench.libraries = librariesIn(dir);

    return await body(bench);
  } finally {
    await verk.stop();
    remove(dir);
  }
}

async function measure(bench: Bench): Promise<Row[]> {
  const { counts } = bench.plan;
  const served = await create(bench, { name: "served", parallel: Math.max(...counts) });
  const rows: Row[] = [];
  for (const count of counts) rows.push(...(await throughput(bench, served, count)));
  await call(bench, "POST", `/v1/deployments/${served.id}/stop`);
  if (bench.plan !== GPU) rows.push(await firstToken(bench));
  rows.push(await wake(bench));
  return rows;
}

/** Decoding against decoding, and the same runs with the reading of all prompts. */
async function throughput(bench: Bench, served: Deployment, count: number): Promise<Row[]> {
  const { tokens, rounds } = bench.plan;
  const steady: Pair[] = [];
  const whole: Pair[] = [];
  for (let round = -1; round < rounds; round++) {
    const through = await clients(bench, served, { clients: count, tokens });
    if (through.tokens !== count * tokens) throw new Error(`${through.tokens} tokens instead of ${count * tokens}`);
    const plain = await library(bench, { sequences: count, promptTokens: through.promptTokens, tokens });
    if (round < 0) continue; // warms both
    steady.push({ ours: through.steadyPerSecond, bare: (1000 * count) / plain.stepMs });
    whole.push({ ours: through.perSecond, bare: plain.perSecond });
  }
  const aim = (ratio: number) => ratio >= 0.95;
  return [rateRow(`${count} streams`, steady, aim), rateRow(`${count} streams, their prompts included`, whole, aim)];
}

type Pair = { ours: number; bare: number };

function rateRow(name: string, pairs: readonly Pair[], aim?: (ratio: number) => boolean): Row {
  const ratio = median(pairs.map(({ ours, bare }) => ours / bare));
  const [ours, bare] = [median(pairs.map((pair) => pair.ours)), median(pairs.map((pair) => pair.bare))];
  const what = `${name}: ${Math.round(ours)} tokens/s over HTTP against ${Math.round(bare)} of the library`;
  return {
    bench: "serving",
    what,
    value: `${ratio.toFixed(3)}×`,
    target: aim ? "≥ 0.95×" : "",
    ok: aim?.(ratio) ?? null,
    figure: { name: `tokens of ${name}`, value: ours, unit: "/s" },
  };
}

/**
 * In turn, request by request, with the small built-in model: the difference is not lost in the reading of a prompt.
 */
async function firstToken(bench: Bench): Promise<Row> {
  const tiny = await create(bench, { name: "tiny", parallel: 4, model: "verk-tiny" });
  const through = dialogue<ClientFirst>(clientsOf(bench, tiny, { clients: 0, tokens: 2 }));
  const model = join(ROOT, "models/verk-tiny/verk-tiny.gguf");
  const job: EngineJob = { dataDir: dirname(bench.file), model, threads: 1, contextLength: CONTEXT, parallel: 4 };
  const engine = dialogue<EngineFirst>(peer("engine_first.ts", job));
  const ours: number[] = [];
  const bare: number[] = [];
  for (let i = 0; i < FIRSTS; i++) {
    bare.push((await engine.ask()).firstMs);
    ours.push((await through.ask()).firstMs);
  }
  through.end();
  engine.end();
  await call(bench, "POST", `/v1/deployments/${tiny.id}/stop`);
  const over = median(ours) - median(bare);
  const what = `first token of verk-tiny: ${median(ours).toFixed(1)} ms over HTTP against ${median(bare).toFixed(1)} ms of the engine, p50`;
  const figure = { name: "first token of verk-tiny", value: median(ours), unit: "ms" } as const;
  return { bench: "serving", what, value: `+${over.toFixed(2)} ms`, target: "≤ 2 ms", ok: over <= 2, figure };
}

async function wake(bench: Bench): Promise<Row> {
  const sleeper = await create(bench, { name: "sleeper", parallel: 1, min_replicas: 0, idle_timeout_seconds: 1 });
  const wakes: number[] = [];
  const reads: number[] = [];
  for (let round = 0; round < WAKES; round++) {
    await until(bench, sleeper.id, ({ parked }) => parked);
    reads.push(readThrough(bench.file));
    const { firstMs } = await clients(bench, sleeper, { clients: 1, tokens: 2 });
    wakes.push(firstMs);
  }
  const most = 1.5 * median(reads) + 150;
  const size = Math.round(statSync(bench.file).size / 1e6);
  const what = `wake to first token, ${size} MB that take ${median(reads).toFixed(0)} ms to read from the page cache`;
  const value = median(wakes);
  return {
    bench: "serving",
    what,
    value: `${value.toFixed(0)} ms`,
    target: `≤ ${most.toFixed(0)} ms`,
    ok: value <= most,
    figure: { name: `wake to first token, ${size} MB`, value, unit: "ms" },
  };
}

function readThrough(file: string): number {
  const buffer = new Uint8Array(1 << 20);
  const fd = openSync(file, "r");
  const began = performance.now();
  while (readSync(fd, buffer) > 0);
  closeSync(fd);
  return performance.now() - began;
}

async function call<T>({ verk, key }: Bench, method: string, path: string, body?: unknown): Promise<T> {
  const response = await fetch(verk.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

async function create(bench: Bench, wish: { name: string; parallel: number } & Record<string, unknown>) {
  const model = basename(bench.file, ".gguf");
  const made = await call<Deployment>(bench, "POST", "/v1/deployments", { model, context_length: CONTEXT, ...wish });
  return await until(bench, made.id, ({ status }) => status === "serving");
}

/** The models folder is scanned soon after the start. */
async function known(bench: Bench) {
  type Models = { data: { name: string; status: string }[] };
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline) {
    const { data } = await call<Models>(bench, "GET", "/v1/models?registry=true");
    if (data.some(({ name, status }) => name === "bench" && status === "ready")) return;
    await Bun.sleep(50);
  }
  throw new Error("the server did not find the model");
}

async function until(bench: Bench, id: string, holds: (deployment: Deployment) => boolean): Promise<Deployment> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline) {
    const found = await call<Deployment>(bench, "GET", `/v1/deployments/${id}`);
    if (found.status === "failed") throw new Error(`${found.name} failed: ${found.error}`);
    if (holds(found)) return found;
    await Bun.sleep(50);
  }
  throw new Error(`waited too long for deployment ${id}`);
}

/** The peer loads the very libraries that the server has extracted. */
function librariesIn(dir: string): string {
  const found = globSync("**/libllama*.so", { cwd: dir }).map((file) => join(dir, dirname(file)));
  const libraries = found.find((each) => existsSync(join(each, "libggml-cuda.so"))) ?? found[0];
  // Run from source.
  return libraries ?? join(ROOT, "node_modules/@node-llama-cpp", platform.name, "bins", platform.name);
}

type Load = Pick<ClientJob, "clients" | "tokens">;
const clientsOf = ({ verk, key }: Bench, { id, name }: Deployment, load: Load) => {
  const job: ClientJob = { base: `${verk.url}/v1/deployments/${id}`, key, model: name, ...load };
  return [...pinned(1), ...peer("chat_clients.ts", job)];
};
const clients = (...args: Parameters<typeof clientsOf>) => once<ClientOutcome>(clientsOf(...args));

type Work = Pick<PlainJob, "sequences" | "promptTokens" | "tokens">;
const libraryOf = ({ plan: { threads, model }, file, libraries }: Bench, work: Work) => {
  const job: PlainJob = { libraries, model: file, threads, vocab: model.vocabSize ?? 0, ...work };
  return peer("library.ts", job);
};
const library = (...args: Parameters<typeof libraryOf>) => once<PlainOutcome>(libraryOf(...args));

const peer = (name: string, job: object) => [process.execPath, join(ROOT, "bench/peers", name), JSON.stringify(job)];

async function once<T>(command: string[]): Promise<T> {
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (child.exitCode !== 0) throw new Error(`${command.join(" ")}: ${err.slice(-2000)}`);
  return JSON.parse(out) as T;
}

/** A peer that answers a line with a line. */
function dialogue<T>(command: string[]) {
  const child = Bun.spawn(command, { stdin: "pipe", stdout: "pipe", stderr: "ignore" });
  const reader = child.stdout.getReader();
  return {
    async ask(): Promise<T> {
      child.stdin.write("go\n"); // Bun counts an empty line twice
      child.stdin.flush();
      let line = "";
      while (!line.endsWith("\n")) {
        const { done, value } = await reader.read();
        if (done) throw new Error(`${command.join(" ")} ended`);
        line += new TextDecoder().decode(value);
      }
      return JSON.parse(line) as T;
    },
    end: () => void child.stdin.end(),
  };
}

if (import.meta.main) {
  console.error(`serving: ${BINARY}`);
  for (const { what, value, target, ok } of await withModel(process.argv.includes("--gpu") ? GPU : CPU, measure))
    console.log(`| serving | ${what} | ${value} | ${target} | ${ok === null ? "" : ok ? "yes" : "NO"} |`);
}
