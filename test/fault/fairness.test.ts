// tier: all (sweeps of faults)
/**
 * A hostile workspace fills a shared queue with work that never ends. The small work of another workspace starts at
 * once, through the real loops and processes.
 */
import { afterEach, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { durable } from "../../src/platform/db/db.ts";
import { runBatches as runDetectionBatches } from "../../src/resources/detection/batches/runner.ts";
import { runBatches } from "../../src/resources/other_apis/batches/runner.ts";
import { runResponses } from "../../src/resources/other_apis/responses/background.ts";
import { pullAll } from "../../src/resources/serving/models/hub/pull.ts";
import { startNextExports } from "../../src/resources/training/training_jobs/artifacts/exports.ts";
import { imageOf, manyDetecting } from "../detection_kit.ts";
import { fakePorts, runAll, sums } from "../experiments_kit.ts";
import { startFakeHub } from "../fake_hub.ts";
import { startFakeStore } from "../fake_store.ts";
import { manyApps, type TestApp, tempDir, until } from "../harness.ts";
import { insert } from "../insert_row.ts";
import { makeModel } from "../models.ts";
import { chatAnswer, pretendServing } from "../pretend_replica.ts";

const { open, closeAll } = manyApps();
const detecting = manyDetecting();
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop(); // gates open before the loops end
  await closeAll();
  await detecting.closeAll();
});

/** Runs a loop until the test has ended. */
function looping(loop: (signal: AbortSignal) => Promise<void>) {
  const stop = new AbortController();
  const running = loop(stop.signal).catch(() => {});
  stops.push(async () => {
    stop.abort(new Error("the test has ended"));
    await running;
  });
}

/** Both workspaces have a deployment. That of the first one never answers. */
async function withReplicas(app: TestApp) {
  const end = Promise.withResolvers<void>();
  stops.push(() => end.resolve());
  const prompts: Record<string, string[]> = { a: [], b: [] };
  for (const [name, key] of [["a", app.keyA] as const, ["b", app.keyB] as const]) {
    const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" }, { key });
    const answer = async (_path: string, request: { messages: { content: string }[] }) => {
      prompts[name]?.push(JSON.stringify(request.messages));
      if (name === "a") await end.promise;
      return chatAnswer(`{"score": 1, "reason": "good"}`);
    };
    pretendServing(app, body.id, { parallel: 64, answer: answer as never });
  }
  return prompts;
}

const ended = (app: TestApp, path: string, key = app.keyB) =>
  until(`the end of ${path}`, async () => {
    const { body } = await app.call("GET", path, undefined, { key });
    return ["completed", "ready", "failed"].includes(body.status) ? body : undefined;
  });

test("S7: an experiment starts although 1,005 older ones of another workspace are queued", async () => {
  const app = open();
  const gate = Promise.withResolvers<void>();
  stops.push(() => gate.resolve());
  fakePorts(app, { answer: () => gate.promise.then(() => "x") });
  const create = async (key: string, targets: object[]) => {
    const { body } = await app.call("POST", "/v1/datasets", { name: "held", format: "completion" }, { key });
    await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows: sums(1) }, { key });
    return app.call("POST", "/v1/experiments", { dataset: body.id, targets, evaluators: ["a"] }, { key });
  };
  await app.call("POST", "/v1/deployments", { model: "kit/served", name: "base" });
  const slow = (await create(app.keyA, [{ type: "deployment", deployment: "base" }])).body.id;
  const row = app.ctx.db.$client.query("SELECT * FROM experiments").get() as Record<string, string | number>;
  for (let i = 0; i < 1_005; i++)
    insert(app, "experiments", `${row["id"]}${i}`, 0, { ...row, id: `exp_${i}`, created_at: 0 });
  looping((signal) => runAll(app, signal));
  const small = (await create(app.keyB, [{ type: "outputs", field: "completion" }])).body.id;
  expect((await ended(app, `/v1/experiments/${small}`)).status).toBe("completed");
  expect(slow).toBeString();
});

test("S7: a workspace queues as many experiments as it may, and the next is 429", async () => {
  const app = open({ flags: { "queues.experiments": 2 } });
  fakePorts(app);
  const { body } = await app.call("POST", "/v1/datasets", { name: "held", format: "completion" });
  await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows: sums(1) });
  const targets = [{ type: "outputs", field: "completion" }];
  const create = () => app.call("POST", "/v1/experiments", { dataset: body.id, targets, evaluators: ["a"] });
  expect([(await create()).status, (await create()).status]).toEqual([201, 201]);
  const refused = await create();
  expect(refused).toMatchObject({ status: 429, body: { error: { code: "queue_full" } } });
  expect([refused.headers.get("retry-after"), refused.body.error.message]).toEqual([
    "60",
    expect.stringContaining("2 experiments that have not ended, and may have no more (queues.experiments)"),
  ]);
  await runAll(app);
  expect((await create()).status).toBe(201);
});

test("S7: a background response starts although another workspace has twenty that hang", async () => {
  const app = open();
  const prompts = await withReplicas(app);
  const create = (key: string) =>
    app.call("POST", "/v1/responses", { model: "d", input: "hi", background: true }, { key });
  for (let i = 0; i < 20; i++) await create(app.keyA);
  looping((signal) => runResponses(app.ctx, signal));
  await until("the hostile ones", () => (prompts["a"]?.length ?? 0) >= 7);
  const { body } = await create(app.keyB);
  app.ctx.state.responses.bell.resolve();
  expect((await ended(app, `/v1/responses/${body.id}`)).status).toBe("completed");
});

test("S7: a batch starts although the requests of another workspace's batch hang", async () => {
  const app = open();
  const prompts = await withReplicas(app);
  const create = async (key: string, count: number) => {
    const body = { model: "d", messages: [{ role: "user", content: "hi" }] };
    const line = (i: number) =>
      JSON.stringify({ custom_id: `${i}`, method: "POST", url: "/v1/chat/completions", body });
    const form = new FormData();
    form.set("purpose", "batch");
    form.set("file", new File([Array.from({ length: count }, (_, i) => line(i)).join("\n")], "in.jsonl"));
    const { id } = (await app.call("POST", "/v1/files", undefined, { raw: form, key })).body;
    const json = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    return (await app.call("POST", "/v1/batches", json, { key })).body.id as string;
  };
  await create(app.keyA, 30);
  looping((signal) => runBatches(app.ctx, signal));
  await until("the hostile ones", () => (prompts["a"]?.length ?? 0) >= 8);
  const id = await create(app.keyB, 1);
  expect((await ended(app, `/v1/batches/${id}`)).status).toBe("completed");
});

test("S7: a detection batch starts although the images of another workspace's batch hang", async () => {
  const app = detecting.open({ flags: { "detect.parallel": 4 } });
  const send = async (key: string, images: object[]) =>
    (await app.call("POST", "/api/detect/batch", { images }, { key })).body.jobId as string;
  const gate = join(app.dir, "never");
  await send(
    app.keyA,
    Array.from({ length: 30 }, (_, i) => ({ id: `${i}`, image: imageOf({ gate, score: i / 30 }) })),
  );
  looping((signal) => runDetectionBatches(app.ctx, signal));
  await until("the hostile ones", () => app.scored() >= 2);
  const id = await send(app.keyB, [{ image: imageOf() }]);
  expect((await ended(app, `/api/detect/batch/${id}`)).status).toBe("completed");
});

test("S7: a model is downloaded although the downloads of another workspace hang", async () => {
  const dir = tempDir();
  const bytes = new Uint8Array(readFileSync(makeModel(dir, { arch: "llama", type: "F16" })));
  stops.push(() => rmSync(dir, { recursive: true }));
  const names = Array.from({ length: 6 }, (_, i) => `hostile/m${i}`);
  const files = { "m-Q4_K_M.gguf": bytes };
  const hub = startFakeHub({ ...Object.fromEntries(names.map((name) => [name, { files }])), "other/m": { files } });
  stops.push(hub.stop);
  const end = Promise.withResolvers<Response>();
  stops.push(() => end.resolve(new Response("")));
  let hanging = 0;
  hub.trouble = (_count, request) => {
    if (!new URL(request.url).pathname.includes("hostile")) return undefined;
    hanging++;
    return end.promise;
  };
  const app = open({ flags: { "hub.endpoint": hub.url, "network.allow": ["127.0.0.1", "localhost"] } });
  for (const name of names) await app.call("POST", "/v1/models/pull", { name });
  looping((signal) => pullAll(app.ctx, signal));
  await until("the hostile ones", () => hanging >= 1);
  const { body } = await app.call("POST", "/v1/models/pull", { name: "other/m" }, { key: app.keyB });
  expect((await ended(app, `/v1/models/${body.id}`)).status).toBe("ready");
});

test("S7: an export is made although an older one of another workspace cannot be made yet", async () => {
  const app = open();
  await durable(app.ctx.db);
  const row = (id: string, workspaceId: string, at: number) =>
    insert(app, "training_exports", id, at, {
      workspace_id: workspaceId,
      checkpoint_id: id,
      status: "preparing",
      variant: "merged",
      quantization: "F16",
    });
  for (let i = 0; i < 5; i++) row(`upl_a${i}`, app.workspaceA, i);
  row("upl_b", app.workspaceB, 9);
  startNextExports(app.ctx);
  expect([...app.ctx.state.trainingJobs.exporting].sort()).toEqual(["upl_a0", "upl_b"]);
});

test("S7: a reading of fifteen bytes ends while another workspace's sources drip", async () => {
  const app = open({ flags: { "network.allow": ["127.0.0.1"] } });
  const store = startFakeStore();
  stops.push(store.stop);
  const read = async (key: string, path: string) => {
    const source = { source_type: "s3", source_uri: `s3://bucket/${path}?endpoint=${store.url}` };
    const credentials = { access_key_id: "a", secret_access_key: "b", region: "us-east-1" };
    const { body } = await app.call("POST", "/v1/datasets/connect", { name: path, ...source, credentials }, { key });
    const { body: begun } = await app.call("POST", `/v1/datasets/${body.id}/resolutions`, { credentials }, { key });
    return `/v1/datasets/${body.id}/resolutions/${begun.id}`;
  };
  for (let i = 0; i < 5; i++) await read(app.keyA, `slow${i}.jsonl`);
  await until("the dripping ones", () => store.dripping() >= 4, 60_000);
  expect((await ended(app, await read(app.keyB, "small.jsonl"))).status).toBe("completed");
  expect(store.dripping()).toBeGreaterThanOrEqual(4);
}, 120_000);

test("S7: a source that drips is given up with the rate and the setting", async () => {
  const app = open({ flags: { "network.allow": ["127.0.0.1"], "connectors.min_rate_seconds": 1 } });
  const store = startFakeStore();
  stops.push(store.stop);
  const source = { source_type: "s3", source_uri: `s3://bucket/slow.jsonl?endpoint=${store.url}` };
  const credentials = { access_key_id: "a", secret_access_key: "b", region: "us-east-1" };
  const { body } = await app.call("POST", "/v1/datasets/connect", { name: "slow", ...source, credentials });
  const { body: begun } = await app.call("POST", `/v1/datasets/${body.id}/resolutions`, { credentials });
  const now = await ended(app, `/v1/datasets/${body.id}/resolutions/${begun.id}`, app.keyA);
  expect(now).toMatchObject({ status: "failed", error: { code: "too_slow" } });
  expect(now.error.message).toMatch(/^The source sent \d+ bytes in 1 seconds\. .*connectors\.min_bytes_per_second/);
}, 120_000);

test("S7: a file of three lines is read before any of another workspace's large packed files", async () => {
  const app = open();
  const upload = (key: string, name: string, bytes: Uint8Array<ArrayBuffer>) => {
    const form = new FormData();
    form.set("name", name);
    form.set("file", new File([bytes], name));
    return app.call("POST", "/v1/datasets", undefined, { raw: form, key });
  };
  const large = (i: number) => new Uint8Array(gzipSync(`prompt\n${`row ${i}\n`.repeat(1_000_000)}`));
  let done = 0;
  const hostile = Array.from({ length: 8 }, async (_, i) => {
    await upload(app.keyA, `large${i}.csv.gz`, large(i));
    done++;
  });
  await until("the hostile ones", () => app.ctx.state.datasets.imports.waiting >= 4, 60_000);
  const small = await upload(app.keyB, "small.csv", new TextEncoder().encode("prompt\na\nb\nc\n"));
  expect([small.status, small.body.num_rows, done]).toEqual([201, 3, 0]);
  await app.ctx.supervisor.stopAll("the test has ended");
  await Promise.allSettled(hostile);
}, 240_000);

test("S7: a judge asks a deployment of its own workspace alone, and shows no text to another", async () => {
  const app = open();
  const prompts = await withReplicas(app);
  const own = (await app.call("GET", "/v1/deployments")).body.data[0].id;
  const create = (deployment: string) =>
    app.call(
      "POST",
      "/v1/evaluators",
      { name: `judge ${deployment}`, kind: "llm_judge", config: { deployment, rubric: "Be brief." } },
      { key: app.keyB },
    );
  expect(await create(own)).toMatchObject({ status: 404 }); // the id of the other workspace's deployment
  const { body } = await create("d"); // both workspaces have one of this name
  const rows = [{ input: "secret of b", output: "answer of b" }];
  const run = await app.call("POST", `/v1/evaluators/${body.id}/run`, { rows }, { key: app.keyB });
  expect(run.status).toBe(200);
  expect([prompts["a"], prompts["b"]?.length]).toEqual([[], 1]);
  expect((await app.call("POST", `/v1/evaluators/${body.id}/run`, { rows })).status).toBe(404);
  expect(prompts["b"]?.[0]).toContain("secret of b");
});
