// tier: all (serves models)
/** Adapters on their base in real processes, as the server starts them, compared with the merged models. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../../src/lib/ids.ts";
import { openBackend } from "../../src/native/ggml/ggml.ts";
import { liveOf } from "../../src/resources/serving/deployments/fleet/fleet.ts";
import { register } from "../../src/resources/serving/models/files/folder.ts";
import * as modelResults from "../../src/resources/serving/models/results.ts";
import * as models from "../../src/resources/serving/models/service.ts";
import type { Adapter } from "../../src/workers/trainer/results/adapter.ts";
import { writeAdapterGguf } from "../../src/workers/trainer/results/adapter_gguf.ts";
import { writeMergedGguf } from "../../src/workers/trainer/results/merged_gguf.ts";
import { jobFile } from "../foreign_paths.ts";
import { type TestApp, testApp, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { randomAdapter } from "../results_kit.ts";

const LORA = { rank: 4, alpha: 8, rslora: false };
const LEARNED: Record<string, string[]> = { poet: ["attn_q", "attn_output"], clerk: ["attn_v", "ffn_down"] };
const PROMPTS = ["hello", "Tell me a thing.", "and the other thing is"];
let on: TestApp;

beforeAll(async () => {
  on = testApp({
    parts: ["deployments"],
    loops: ["deployments.reconcile"],
    flags: { "serving.threads": 1, "serving.restart_backoff_ms": 1 },
  });
  const folder = join(on.dir, "models");
  for (const dir of [folder, join(on.dir, "jobs")]) mkdirSync(dir, { recursive: true });
  const base = join(folder, "base.gguf");
  renameSync(makeModel(folder, { arch: "qwen2", type: "F32" }), base);
  const { id } = await register(on.ctx, { name: "base", path: "models/base.gguf" });
  const backend = openBackend(on.dir, { kind: "cpu", threads: 1 });
  for (const [name, parts] of Object.entries(LEARNED)) {
    const adapter: Adapter = randomAdapter(base, { ...LORA, parts });
    await writeMergedGguf(backend, {
      base,
      path: join(folder, `${name}-merged.gguf`),
      type: "F32",
      learned: { adapter },
    });
    await register(on.ctx, { name: `${name}-merged`, path: `models/${name}-merged.gguf` });
    const path = join(on.dir, "jobs", `${name}.gguf`);
    await writeAdapterGguf(path, adapter);
    const of = { workspaceId: on.workspaceA, jobId: newId("job", 1), checkpointId: newId("ckpt", 1), step: 1 };
    await modelResults.registerResult(on.ctx, {
      ...of,
      variant: "adapter",
      name,
      baseModelId: id,
      file: jobFile(on.dir, path),
    });
  }
  backend.close();
}, 120_000);
afterAll(async () => {
  await on.close();
  on.remove();
});

const serves = (id: string) =>
  until(
    `${id} to serve`,
    async () => {
      const { body } = await on.call("GET", `/v1/deployments/${id}`);
      if (body.status === "failed") throw new Error(body.error);
      return body.status === "serving" && body.replicas.ready === 1;
    },
    60_000,
  );
async function deploy(model: string, more = {}): Promise<string> {
  const size = { context_length: 256, parallel: 4 };
  const { body } = await on.call("POST", "/v1/deployments", { model, name: model, ...size, ...more });
  await serves(body.id);
  return body.id;
}
/** The greedy answers to all prompts, requested at the same time. */
const answers = (model: string, more = {}): Promise<string[]> =>
  Promise.all(
    PROMPTS.map(async (prompt) => {
      const { status, body } = await on.call("POST", "/v1/completions", {
        model,
        prompt,
        max_tokens: 24,
        temperature: 0,
        ...more,
      });
      if (status !== 200) throw new Error(JSON.stringify(body));
      return body.choices[0].text;
    }),
  );
const embedding = async (model: string): Promise<number[]> =>
  (await on.call("POST", "/v1/embeddings", { model, input: "hello there" })).body.data[0].embedding;
const dot = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
const pidOf = (id: string) => [...liveOf(on.ctx, id).replicas][0]?.host.worker.pid as number;
const stop = (id: string) => on.call("POST", `/v1/deployments/${id}/stop`);

const all = new Map<string, { id: string; said: string[] }>();
const idOf = (name: string) => all.get(name)?.id as string;
const saidBy = (name: string) => all.get(name)?.said as string[];

test("adapters in one process each give their own answers beside the base, and its memory is counted once", async () => {
  const names = ["base", "poet", "clerk"];
  for (const name of names) all.set(name, { id: await deploy(name), said: [] });
  expect(new Set(names.map(idOf).map(pidOf)).size).toBe(1);
  const said = await Promise.all(names.map(answers)); // mixed in the same moments
  for (const [i, texts] of said.entries()) saidBy(names[i] as string).push(...texts);
  expect(new Set(said.map((texts) => JSON.stringify(texts))).size).toBe(3);
  const leases = (await on.call("GET", "/v1/gpu")).body.data[0].leases.map(({ bytes }: { bytes: number }) => bytes);
  const adapters = ["poet", "clerk"].map((name) => models.mustGet(on.ctx, on.workspaceA, name).shape?.weight_bytes);
  expect(leases.slice(1)).toEqual(adapters);
}, 120_000);

test("a request that chooses an adapter is answered as by the adapter's own deployment, beside others", async () => {
  const texts = await Promise.all(["base:poet", "base", "base:clerk", "base:poet"].map((name) => answers(name)));
  expect(texts).toEqual(["poet", "base", "clerk", "poet"].map(saidBy));
  const scaled = (lora: object[]) => answers("base", { lora });
  const [same, none, half, both] = await Promise.all([
    scaled([{ id: "poet", scale: 1 }]),
    scaled([{ id: "poet", scale: 0 }]),
    scaled([{ id: "poet", scale: 4 }]),
    scaled([{ id: "poet" }, { id: "clerk" }]),
  ]);
  expect([same, none]).toEqual([saidBy("poet"), saidBy("base")]);
  expect(new Set([half, both, same, none].map((each) => JSON.stringify(each))).size).toBe(4);
  const listed = async (name: string) => (await on.call("GET", `/lora-adapters?model=${name}`)).body;
  expect(await listed("base")).toEqual([
    { id: 0, path: "clerk", scale: 0 },
    { id: 1, path: "poet", scale: 0 },
  ]);
  expect((await listed("poet")).map(({ scale }: { scale: number }) => scale)).toEqual([0, 1]);
  expect(await scaled([{ id: 1 }])).toEqual(saidBy("poet"));
  const beyond = await on.call("POST", "/v1/completions", { model: "base", prompt: "a", lora: [{ id: 2 }] });
  expect(beyond).toMatchObject({ status: 404, body: { error: { param: "/lora/0/id" } } });
}, 120_000);

test("an adapter's answers and embeddings are those of its merged model", async () => {
  for (const name of ["poet", "clerk"]) {
    const merged = await deploy(`${name}-merged`);
    expect(pidOf(merged)).not.toBe(pidOf(idOf(name)));
    expect(await answers(`${name}-merged`)).toEqual(saidBy(name));
    const [mine, same, base] = [await embedding(name), await embedding(`${name}-merged`), await embedding("base")];
    expect(dot(mine, same)).toBeGreaterThan(0.99999);
    expect(dot(mine, base)).toBeLessThan(0.999);
    await stop(merged);
  }
}, 120_000);

test("the others continue when the deployment that loaded the model stops, and recover together after a kill", async () => {
  await stop(idOf("base"));
  expect(await answers("poet")).toEqual(saidBy("poet"));
  process.kill(pidOf(idOf("poet")), "SIGKILL");
  type Event = { type: string; data: { id: string } };
  const told = async (): Promise<Event[]> => (await on.call("GET", "/v1/events?limit=100")).body.data;
  for (const id of ["poet", "clerk"].map(idOf)) {
    const sick = (event: Event) => event.type === "deployment.unhealthy" && event.data.id === id;
    await until("it to be noticed", async () => (await told()).some(sick));
    await serves(id);
  }
  expect(pidOf(idOf("poet"))).toBe(pidOf(idOf("clerk")));
  for (const name of ["poet", "clerk"]) expect(await answers(name)).toEqual(saidBy(name));
  for (const name of ["poet", "clerk"]) await stop(idOf(name));
  await until("nothing to be leased", async () => (await on.call("GET", "/v1/gpu")).body.data[0].leases.length === 0);
}, 120_000);
