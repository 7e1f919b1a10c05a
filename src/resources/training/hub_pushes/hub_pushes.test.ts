import { afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type FakeRepo, hashOf, startFakeHub } from "../../../../test/fake_hub.ts";
import { type PushRules, takesPushes } from "../../../../test/fake_hub_pushes.ts";
import { atEveryFailpoint, type TestApp, testApp } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { tarChunks } from "../../../lib/archive/tar_write.ts";
import { newId } from "../../../lib/ids.ts";
import { systemClock } from "../../../platform/clock.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { StorageError, UNCOUNTED } from "../../../platform/files.ts";
import * as models from "../../serving/models/service.ts";
import { type ExportRow, trainingExports, trainingMetrics } from "../training_jobs/table.ts";
import { run } from "./run.ts";

setDefaultTimeout(120_000);
const TOKEN = "hf_write";
const REPO = "acme/sums";
/** The pauses between tries pass at once. */
let ahead = 0;
const clock = { ...systemClock, now: () => systemClock.now() + ahead };
const stops: (() => unknown)[] = [];
let weights: Uint8Array;

beforeAll(() => {
  weights = crypto.getRandomValues(new Uint8Array(50_000));
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
  ahead = 0;
});

type World = { app: JobsApp; hub: ReturnType<typeof takesPushes>; url: string; reopen: () => Promise<TestApp> };

async function world(rules: Partial<PushRules> = {}, flags: Record<string, unknown> = {}): Promise<World> {
  const repos: Record<string, FakeRepo> = {};
  const hub = takesPushes(repos, { token: TOKEN, largeFrom: 10_000, ...rules });
  const server = startFakeHub(repos, hub);
  const settings = {
    "hub.endpoint": server.url,
    "network.allow": ["127.0.0.1"],
    "storage.min_free_bytes": 0,
    ...flags,
  };
  const app = await jobsApp({ clock, flags: settings });
  let current: TestApp = app;
  stops.push(server.stop, () => current.close().then(app.remove));
  await app.call("PUT", "/v1/secrets/HUB_TOKEN", { value: TOKEN, scope_host: "127.0.0.1" });
  /** The next server, as after a kill. */
  const reopen = async () => {
    await current.close();
    current = testApp({ dir: app.dir, clock, flags: settings });
    return current;
  };
  return { app, hub, url: server.url, reopen };
}

/** Rounds of the loop until the push has ended. */
async function settled({ app }: { app: TestApp }, id: string, most = 30) {
  for (let i = 0; i < most; i++) {
    await run(app.ctx);
    await Promise.all([...app.ctx.state.hubPushes.running.values()].map(({ over }) => over));
    const { body } = await app.call("GET", `/v1/hub_pushes/${id}`);
    if (body.completed_at !== null) return body;
    ahead += 310_000;
  }
  throw new Error(`the push ${id} does not end`);
}

const FILES = (): Record<string, Uint8Array> => ({
  "adapter_config.json": new TextEncoder().encode('{"r":4}'),
  "adapter_model.safetensors": weights,
  "README.md": new TextEncoder().encode("of the trainer"),
});

/** A completed job whose checkpoint is exported already. */
async function trained({ app }: Pick<World, "app">, more: object = {}, variant: ExportRow["variant"] = "peft") {
  const id = await app.job({ hyperparameters: { learning_rate: 0.001 }, ...more });
  const checkpointId = app.checkpoint(id, 5);
  const entries = Object.entries(FILES()).map(([name, bytes]) => ({
    name,
    size: bytes.length,
    content: async function* () {
      yield bytes;
    },
  }));
  const key = `jobs/${id}/tar`;
  const body = variant === "gguf" ? weights : tarChunks(entries);
  const { bytes: sizeBytes, sha256 } = await app.ctx.storage.put(key, body, { meter: UNCOUNTED });
  const row = {
    id: newId("upl"),
    jobId: id,
    workspaceId: app.workspaceA,
    checkpointId,
    variant,
    quantization: variant === "peft" ? "" : variant === "gguf" ? "Q8_0" : "BF16",
    status: "ready" as const,
    storageKey: key,
    fileName: variant === "gguf" ? "sums-q8_0.gguf" : "sums.tar",
    sizeBytes,
    sha256,
    modelId: null,
    error: null,
    createdAt: 1,
    updatedAt: 1,
  };
  write(app.ctx.db, (tx) => {
    tx.insert(trainingExports).values(row).run();
    const curve = [1, 2, 3, 4, 5].map((step) => ({
      jobId: id,
      step,
      epoch: 0,
      time: step,
      values: { reward: step / 10 },
    }));
    tx.insert(trainingMetrics).values(curve).run();
  });
  app.moves(id, ["provision", "run"]);
  app.moves(id, ["complete"], { completedAt: app.ctx.clock.now(), step: 5, totalSteps: 5 });
  return id;
}

const push = ({ app }: Pick<World, "app">, name: string, body: object = {}) =>
  app.call("POST", `/v1/models/${name}/push`, { repo: REPO, ...body });
const textOf = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);

test("P6 hub_repo_url, conformance 13: the adapter of a job is pushed with a card, and the run shows the repository", async () => {
  const on = await world({ partBytes: 20_000 });
  const id = await trained(on, { publish: true, output_name: "sums | <b>x</b>" });
  const made = await push(on, id);
  expect([made.status, made.body]).toMatchObject([
    201,
    { object: "hub_push", status: "preparing", variant: "adapter" },
  ]);
  const done = await settled(on, made.body.id);
  expect(done).toMatchObject({ status: "completed", progress: 1, url: `${on.url}/${REPO}`, error: null });
  const files = on.hub.repos[REPO]?.files ?? {};
  expect(Object.keys(files).sort()).toEqual(["README.md", "adapter_config.json", "adapter_model.safetensors"]);
  expect(hashOf(files["adapter_model.safetensors"]!)).toBe(hashOf(weights));
  expect(on.hub.visibility.get(REPO)).toBe(true);
  expect(on.hub.steps.filter((step) => step === "put")).toHaveLength(3);
  const card = textOf(files["README.md"]);
  expect(card).toStartWith("---\nlibrary_name: peft\n");
  for (const part of [
    "| learning\\_rate | 0.001 |",
    `| Job | ${id.replaceAll("_", "\\_")} |`,
    "| Step | reward |",
    "| 5 | 0.5 |",
    "Reward",
  ])
    expect(card).toContain(part);
  const job = (await on.app.call("GET", `/v1/training_jobs/${id}`)).body;
  const [publicRun] = (await on.app.call("GET", "/v1/public/runs", undefined, { key: null })).body.data;
  expect([job.hub_repo_url, publicRun.hub_repo_url]).toEqual([done.url, done.url]);
  const events = (await on.app.call("GET", "/v1/events?types=hub_push.created,hub_push.completed,hub_push.failed")).body
    .data;
  expect((events as { type: string }[]).map(({ type }) => type)).toEqual(["hub_push.created", "hub_push.completed"]);
  expect(existsSync(join(on.app.dir, "pushes", done.id))).toBe(false);
  expect(on.hub.authorizations).toEqual(new Set([`Bearer ${TOKEN}`]));
  expect((await on.app.call("GET", `/v1/hub_pushes/${done.id}`, undefined, { key: on.app.keyB })).status).toBe(404);
});

test("hub_repo on a job pushes its result once when it completes", async () => {
  const on = await world();
  const id = await trained(on, { hub_repo: REPO, hub_private: false });
  await run(on.app.ctx);
  await run(on.app.ctx);
  const { data } = (await on.app.call("GET", "/v1/hub_pushes")).body;
  expect(data).toMatchObject([{ job_id: id, repo: REPO, private: false }]);
  expect((await settled(on, data[0].id)).status).toBe("completed");
  expect(on.hub.visibility.get(REPO)).toBe(false);
  expect((await on.app.call("GET", "/v1/hub_pushes")).body.data).toHaveLength(1);
});

test("the file of a model is pushed as it is", async () => {
  const on = await world();
  const { body } = await push(on, "random");
  const done = await settled(on, body.id);
  expect(done).toMatchObject({ status: "completed", variant: "model", job_id: null });
  const file = readFileSync(models.pathOf(on.app.ctx, models.mustGet(on.app.ctx, on.app.workspaceA, "random")));
  expect(hashOf(on.hub.repos[REPO]?.files["random.gguf"] ?? new Uint8Array())).toBe(hashOf(new Uint8Array(file)));
});

test("what the hub has already is not sent again, and a repository that exists is used", async () => {
  const on = await world();
  on.hub.repos[REPO] = { files: {} };
  on.hub.store.set(hashOf(weights), weights);
  const { body } = await push(on, await trained(on, {}, "gguf"), { variant: "gguf", quantization: "q8_0" });
  expect((await settled(on, body.id)).status).toBe("completed");
  expect(on.hub.steps).not.toContain("put");
  expect(Object.keys(on.hub.repos[REPO].files).sort()).toEqual(["README.md", "sums-q8_0.gguf"]);
});

test("an interrupted upload goes on after the last part that the hub has", async () => {
  const on = await world({ partBytes: 10_000 });
  on.hub.trouble = (step, count) => (step === "put" && count === 3 ? new Response("busy", { status: 503 }) : undefined);
  const { body } = await push(on, await trained(on));
  await run(on.app.ctx);
  await Promise.all([...on.app.ctx.state.hubPushes.running.values()].map(({ over }) => over));
  const half = (await on.app.call("GET", `/v1/hub_pushes/${body.id}`)).body;
  expect([half.status, half.bytes_done, half.error]).toEqual(["pushing", 30_000, expect.stringContaining("503")]);
  expect(half.progress).toBeGreaterThan(0.5);
  ahead += 3_000; // the addresses still hold
  const done = await settled(on, body.id);
  expect([done.status, on.hub.steps.filter((step) => step === "put").length]).toEqual(["completed", 6]);
});

test("a push is taken up after a crash at every point, and the hub gets each content once", async () => {
  let most = 0;
  await atEveryFailpoint(async (attempt) => {
    const on = await world({ partBytes: 20_000 });
    const { body } = await push(on, await trained(on));
    await durable(on.app.ctx.db);
    await attempt(async () => {
      await run(on.app.ctx);
      await Promise.all([...on.app.ctx.state.hubPushes.running.values()].map(({ over }) => over));
    });
    const done = await settled({ app: await on.reopen() }, body.id);
    expect(done.status).toBe("completed");
    const files = on.hub.repos[REPO]?.files ?? {};
    expect(hashOf(files["adapter_model.safetensors"]!)).toBe(hashOf(weights));
    expect(readdirSync(join(on.app.dir, "pushes"))).toEqual([]);
    most = Math.max(most, on.hub.steps.filter((step) => step === "put").length);
    for (const stop of stops.splice(0).reverse()) await stop();
    ahead = 0;
  });
  expect(most).toBeLessThanOrEqual(4); // three parts, and one that was under way
});

test("a wrong token fails at once and says where the right one goes", async () => {
  const on = await world();
  await on.app.call("PUT", "/v1/secrets/HUB_TOKEN", { value: "hf_read", scope_host: "127.0.0.1" });
  const { body } = await push(on, await trained(on));
  const done = await settled(on, body.id);
  expect([done.status, on.hub.steps]).toEqual(["failed", ["create"]]);
  expect(done.error).toContain("secret HUB_TOKEN");
  expect(JSON.stringify(on.app.log)).not.toContain("hf_read");
});

test("a hub that shows another hash than the one that was sent fails the push", async () => {
  for (const path of ["adapter_model.safetensors", "adapter_config.json"]) {
    const on = await world({ damages: (each) => each === path });
    const id = await trained(on);
    const { body } = await push(on, id);
    const done = await settled(on, body.id);
    expect([done.status, done.error]).toEqual([
      "failed",
      expect.stringContaining(`The hub shows ${path} with another content`),
    ]);
    expect((await on.app.call("GET", `/v1/training_jobs/${id}`)).body.hub_repo_url).toBeNull();
  }
});

test("a hub that answers about another file, or sends the file to an address inside, gets nothing", async () => {
  const on = await world();
  const answers = [
    { objects: [{ oid: "0".repeat(64), size: 50_000 }] },
    { objects: [{ oid: hashOf(weights), size: 50_000, actions: { upload: { href: "http://169.254.169.254/x" } } }] },
    { objects: [{ oid: hashOf(weights), size: 50_000, actions: { upload: { href: "nowhere", header: {} } } }] },
  ];
  const reasons = ["another file", "network.allow", "an invalid address"];
  for (const [i, answer] of answers.entries()) {
    on.hub.trouble = (step) => (step === "batch" ? Response.json(answer) : undefined);
    const { body } = await push(on, await trained(on));
    const done = await settled(on, body.id);
    expect([done.status, done.error]).toEqual(["failed", expect.stringContaining(reasons[i]!)]);
  }
  expect(on.hub.steps).not.toContain("put");
});

test("a full disk delays the push, which goes on when there is space", async () => {
  const on = await world();
  const { body } = await push(on, await trained(on));
  const { get } = on.app.ctx.storage;
  let isFull = true;
  on.app.ctx.storage.get = async (key, range) => {
    if (isFull && (range?.length ?? 0) > 10_000)
      throw new StorageError("/data/pushes", "write", Object.assign(new Error("full"), { code: "ENOSPC" }));
    return await get.call(on.app.ctx.storage, key, range);
  };
  await run(on.app.ctx);
  await Promise.all([...on.app.ctx.state.hubPushes.running.values()].map(({ over }) => over));
  const waiting = (await on.app.call("GET", `/v1/hub_pushes/${body.id}`)).body;
  expect([waiting.status, waiting.error]).toEqual(["pushing", expect.any(String)]);
  isFull = false;
  expect((await settled(on, body.id)).status).toBe("completed");
});

test("a hub that stays away fails the push in the end, with its last reason", async () => {
  const on = await world();
  on.hub.trouble = (step) =>
    step === "preupload" ? Response.json({ error: "try later" }, { status: 500 }) : undefined;
  const { body } = await push(on, await trained(on));
  const done = await settled(on, body.id);
  expect([done.status, done.error]).toEqual([
    "failed",
    expect.stringContaining("500 when asked to take files of acme/sums: try later"),
  ]);
  expect(on.hub.steps.filter((step) => step === "preupload")).toHaveLength(8);
});

test("a push can be cancelled, and then nothing more is sent", async () => {
  const on = await world();
  const { body } = await push(on, await trained(on));
  const cancelled = await on.app.call("POST", `/v1/hub_pushes/${body.id}/cancel`);
  expect(cancelled.body.status).toBe("cancelled");
  await run(on.app.ctx);
  expect(on.hub.steps).toEqual([]);
  expect((await on.app.call("POST", `/v1/hub_pushes/${body.id}/cancel`)).status).toBe(400);
});

test("what cannot be pushed is refused with the reason", async () => {
  const on = await world({}, { offline: true });
  const offline = await push(on, "random");
  expect([offline.status, offline.body.error.message]).toEqual([400, "offline = true forbids pushing to a hub"]);
  const job = await on.app.post({ hub_repo: REPO });
  expect([job.status, job.body.error.param, job.body.error.message]).toEqual([
    422,
    "/hub_repo",
    expect.stringContaining("offline = true"),
  ]);
  const online = await world();
  const refused: [object, string][] = [
    [{ repo: "sums" }, "/repo"],
    [{ repo: "a/../b" }, "/repo"],
    [{ variant: "adapter" }, "/variant"],
    [{ quantization: "Q8_0" }, "/quantization"],
  ];
  for (const [more, param] of refused) {
    const { status, body } = await push(online, "random", more);
    expect([more, status, body.error.param]).toEqual([more, 422, param]);
  }
  expect((await push(online, "none")).status).toBe(404);
  await online.app.call("DELETE", "/v1/secrets/HUB_TOKEN");
  expect((await push(online, "random")).body.error.message).toContain("store one as the secret HUB_TOKEN");
});
