/**
 * Tokens a second through the whole product on one GPU: clients, the server in front, and the worker behind it. No peer
 * runs here: `bench/gpu_serving.ts` has the worker alone beside the library's loop. VERK_BINARY names an executable with
 * CUDA. `bun bench/gpu_server.ts [--streams 1,32] [--shape 0.5B]`
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { SHAPES } from "./decode/shapes.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import type { StreamJob, StreamOutcome } from "./peers/stream_clients.ts";
import { makeKey, ROOT, remove, startVerk, tempDir } from "./tools.ts";

const { values } = parseArgs({
  options: { streams: { type: "string", default: "1,32,128,256" }, shape: { type: "string", default: "0.5B" } },
});
const TOKENS = 256;
const ROUNDS = 2;
const PROCESSES = 4;
const READY_MS = 120_000;

type Deployment = { id: string; status: string; error: string | null };

const dir = tempDir();
mkdirSync(join(dir, "models"));
const shape = SHAPES[values.shape];
if (!shape) throw new Error(`There is no shape ${values.shape}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
await writeRolloutModel(join(dir, "models", "bench.gguf"), shape, "BF16");
const verk = await startVerk(dir);
try {
  const key = await makeKey(dir, "*");
  const call = async <T>(method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(verk.url + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const until = async <T>(ask: () => Promise<T>, holds: (found: T) => boolean): Promise<T> => {
    for (const end = performance.now() + READY_MS; performance.now() < end; await Bun.sleep(50)) {
      const found = await ask();
      if (holds(found)) return found;
    }
    throw new Error("waited too long");
  };
  type Models = { data: { name: string; status: string }[] };
  await until(
    () => call<Models>("GET", "/v1/models?registry=true"),
    ({ data }) => data.some(({ name, status }) => name === "bench" && status === "ready"),
  );
  const counts = values.streams.split(",").map(Number);
  const wish = { name: "served", model: "bench", context_length: 512, parallel: Math.max(...counts) };
  const { id } = await call<Deployment>("POST", "/v1/deployments", wish);
  await until(
    () => call<Deployment>("GET", `/v1/deployments/${id}`),
    ({ status, error }) => {
      if (status === "failed") throw new Error(`${error}`);
      return status === "serving";
    },
  );
  const base = `${verk.url}/v1/deployments/${id}`;
  for (const count of counts) {
    const rates: number[] = [];
    const firsts: number[] = [];
    for (let round = -1; round < ROUNDS; round++) {
      const { rate, firstMs } = await load(base, key, count, round + 2);
      if (round < 0) continue; // warms
      rates.push(rate);
      firsts.push(...firstMs);
    }
    const first = firsts.sort((a, b) => a - b)[firsts.length >> 1]!;
    const best = Math.round(Math.max(...rates));
    console.log(`| ${values.shape} BF16 | ${count} streams | ${best} tokens/s | first token ${first.toFixed(1)} ms |`);
  }
} finally {
  await verk.stop();
  remove(dir);
}

/** Prompts included: from the first request to the last end. */
async function load(base: string, key: string, count: number, seed: number) {
  const processes = Math.min(PROCESSES, count);
  const outcomes = await Promise.all(
    Array.from({ length: processes }, async (_, i) => {
      const clients = Math.floor(count / processes) + (i < count % processes ? 1 : 0);
      const own = { base, key, path: "/completions" as const, clients, prompt: 31, tokens: TOKENS };
      const job: StreamJob = { ...own, seed: seed * 100 + i };
      const program = join(ROOT, "bench/peers/stream_clients.ts");
      const child = Bun.spawn([process.execPath, program, JSON.stringify(job)], { stdout: "pipe", stderr: "inherit" });
      return JSON.parse(await new Response(child.stdout).text()) as StreamOutcome;
    }),
  );
  const begun = Math.min(...outcomes.map(({ begun }) => begun));
  const end = Math.max(...outcomes.map(({ end }) => end));
  const tokens = outcomes.reduce((sum, outcome) => sum + outcome.tokens, 0);
  return { rate: (tokens * 1000) / (end - begun), firstMs: outcomes.flatMap(({ firstMs }) => firstMs) };
}
