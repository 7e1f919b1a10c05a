// tier: all (large model files)
/** Models of the hub that are several files: a folder of safetensors, and a split GGUF file. */
import { afterEach, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type FakeRepo, hashOf, startFakeHub } from "../../../../../test/fake_hub.ts";
import { atEveryFailpoint, type TestApp, tempDir, testApp, until } from "../../../../../test/harness.ts";
import { writeFolder } from "../../../../../test/hugging_face.ts";
import { makeModel } from "../../../../../test/models.ts";
import { splitGguf } from "../../../../../test/split_gguf.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { durable } from "../../../../platform/db/db.ts";
import { scan } from "../files/folder.ts";
import * as models from "../service.ts";
import { pullAll } from "./pull.ts";

const hurried = { ...systemClock, sleep: (ms: number, s?: AbortSignal) => systemClock.sleep(ms / 100, s) };
const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const read = (dir: string): Record<string, Uint8Array> =>
  Object.fromEntries(readdirSync(dir).map((name) => [name, new Uint8Array(readFileSync(join(dir, name)))]));
const SMALL = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"];

function folder(): FakeRepo {
  const dir = tempDir();
  writeFolder(dir, { dtype: "BF16", shards: 3 });
  const code = new TextEncoder().encode("import os");
  return { files: { ...read(dir), "modeling.py": code, "pytorch_model.bin": code }, inGit: SMALL };
}
async function parts(count = 3): Promise<FakeRepo> {
  const dir = tempDir();
  await splitGguf(makeModel(tempDir(), { arch: "llama", type: "F16" }), { dir, stem: "tiny-F16", count });
  return { files: read(dir) };
}
function world(repo: FakeRepo, flags: Record<string, unknown> = {}) {
  const hub = startFakeHub({ "acme/tiny": repo });
  stops.push(hub.stop);
  const settings = {
    "hub.endpoint": hub.url,
    "network.allow": ["127.0.0.1"],
    "workers.silence_ms": 86_400_000, // in hurried time
    ...flags,
  };
  const open = (dir?: string) => testApp({ flags: settings, clock: hurried, ...(dir ? { dir } : {}) });
  return { hub, open, app: () => stopLater(open()) };
}
function stopLater(app: TestApp): TestApp {
  stops.push(() => app.close().then(app.remove));
  return app;
}
const pull = (app: TestApp, signal = new AbortController().signal) => pullAll(app.ctx, signal);
const parked = (app: TestApp) => ["models/.downloads", "models/.converting"].flatMap((dir) => list(join(app.dir, dir)));
const list = (dir: string) => (existsSync(dir) ? readdirSync(dir) : []);
const downloaded = (requests: readonly { path: string }[]) =>
  [...new Set(requests.map(({ path }) => path.split("/main/")[1]).filter((name) => name !== undefined))].sort();

test("a repository of safetensors is downloaded and converted; progress covers both, and nothing else stays", async () => {
  const repo = folder();
  const { hub, app: start } = world(repo);
  const app = start();
  const { body } = await app.call("POST", "/v1/models/pull", { name: "acme/tiny" });
  const seen: number[] = [];
  await Promise.all([pull(app), until("it to end", () => watch(app, body.id, seen) !== "downloading")]);
  const row = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
  expect(row).toMatchObject({ status: "ready", error: null, architecture: "llama", quantization: "BF16" });
  expect(row.hubFile).toBe("model.safetensors.index.json");
  expect(row.path).toMatch(/^models\/hub\/acme\/tiny\/tiny-[0-9a-f]{12}\.gguf$/);
  expect(row.sha256).toBe(hashOf(new Uint8Array(readFileSync(models.pathOf(app.ctx, row)))));
  expect(seen.every((value, i) => value >= (seen[i - 1] ?? 0) && value <= 1)).toBe(true);
  expect(downloaded(hub.requests)).toEqual(
    Object.keys(repo.files)
      .filter((name) => !/\.(py|bin)$/.test(name))
      .sort(),
  );
  expect(parked(app)).toEqual([]);
});

function watch(app: TestApp, id: string, seen: number[]) {
  const row = models.mustGet(app.ctx, app.workspaceA, id);
  if (row.progress !== null) seen.push(row.progress);
  return row.status;
}

test("a quantization after the colon is another model, made of the same files", async () => {
  const { app: start } = world(folder());
  const app = start();
  for (const name of ["acme/tiny", "acme/tiny:Q8_0"]) models.request(app.ctx, app.workspaceA, name);
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").quantization).toBe("BF16");
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny:Q8_0")).toMatchObject({
    status: "ready",
    quantization: "Q8_0",
    path: expect.stringContaining("tiny-Q8_0-"),
  });
});

test("a split GGUF file is downloaded and joined", async () => {
  const { app: start } = world(await parts());
  const app = start();
  models.request(app.ctx, app.workspaceA, "acme/tiny:F16");
  await pull(app);
  const row = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
  expect(row).toMatchObject({ status: "ready", hubFile: "tiny-F16-00001-of-00003.gguf", architecture: "llama" });
  expect(row.path).toMatch(/tiny-F16-[0-9a-f]{12}\.gguf$/);
  expect(parked(app)).toEqual([]);
});

test("a restart half-way downloads only the rest", async () => {
  const { hub, app: start } = world(folder());
  const app = start();
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  const closing = new AbortController();
  hub.trouble = (_, request) => {
    if (request.url.includes("model-00002")) closing.abort();
    return undefined;
  };
  await pull(app, closing.signal);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").status).toBe("downloading");
  expect(parked(app)).toHaveLength(1);
  hub.trouble = undefined;
  const before = hub.requests.length;
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").status).toBe("ready");
  const again = downloaded(hub.requests.slice(before));
  expect(again).toContain("model-00003-of-00003.safetensors");
  expect(again).not.toContain("model-00001-of-00003.safetensors");
  expect(again).not.toContain("config.json");
  expect(parked(app)).toEqual([]);
});

test("files that cannot be had or used are one sentence, and damaged ones do not stay", async () => {
  const shard = "model-00002-of-00003.safetensors";
  const good = folder();
  const rows: [FakeRepo, string, left: number][] = [
    [{ ...good, gated: [shard] }, `The hub refuses ${shard} of acme/tiny (403)`, 1],
    [{ ...good, wrongHash: [shard] }, `${shard} is damaged: its sha256 is not`, 1],
    [
      { ...good, files: { ...good.files, "config.json": new TextEncoder().encode('{"architectures":["Mamba"]}') } },
      'model.safetensors.index.json of acme/tiny cannot be used: config.json names "Mamba"',
      0,
    ],
  ];
  for (const [repo, sentence, left] of rows) {
    const { hub, app: start } = world(repo);
    const app = start();
    models.request(app.ctx, app.workspaceA, "acme/tiny");
    await pull(app);
    const row = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
    expect(row).toMatchObject({ status: "failed", path: null, error: expect.stringContaining(sentence) });
    expect(parked(app)).toHaveLength(left);
    if (left === 0) expect(downloaded(hub.requests).filter((name) => name.endsWith(".safetensors"))).toEqual([]);
    expect(parked(app).flatMap((name) => list(join(app.dir, "models/.downloads", name)))).not.toContain(shard);
  }
});

test("two workspaces share the new file, and a deleted model ends its download and leaves nothing", async () => {
  const { hub, app: start } = world(folder());
  const app = start();
  const a = models.request(app.ctx, app.workspaceA, "acme/tiny");
  const b = models.request(app.ctx, app.workspaceB, "acme/tiny");
  await pull(app);
  expect(new Set(hub.requests.map(({ path }) => path)).size).toBeGreaterThan(5);
  const path = models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceB, b.id));
  expect(models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, a.id))).toBe(path);
  for (const [row, key] of [
    [a, app.keyA],
    [b, app.keyB],
  ] as const)
    await app.call("DELETE", `/v1/models/${row.id}`, undefined, { key });
  await scan(app.ctx);
  expect(existsSync(path)).toBe(false);

  const again = models.request(app.ctx, app.workspaceA, "acme/tiny");
  const held = Promise.withResolvers<undefined>();
  hub.requests.length = 0;
  hub.trouble = (_, request) => (request.url.includes("model-00003") ? held.promise : undefined);
  const pulling = pull(app);
  await until("the last shard to be requested", () => hub.requests.at(-1)?.path.includes("model-00003") === true);
  await app.call("DELETE", `/v1/models/${again.id}`);
  await pulling;
  held.resolve(undefined);
  expect(parked(app)).toEqual([]);
});

test("wherever it crashes, the model arrives after a restart, and nothing else stays", async () => {
  const { open } = world(await parts(2));
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    const { id } = models.request(app.ctx, app.workspaceA, "acme/tiny");
    await durable(app.ctx.db);
    await attempt(() => pull(app)).catch(() => {});
    await app.close();
    const after = stopLater(open(app.dir));
    const row = () => after.ctx.db.$client.query("SELECT * FROM models WHERE id = ?").get(id) as Record<string, string>;
    if (row()["status"] === "failed") models.request(after.ctx, row()["workspace_id"] ?? "", "acme/tiny");
    await pull(after);
    expect(row()).toMatchObject({ status: "ready", error: null });
    expect(hashOf(new Uint8Array(readFileSync(join(app.dir, row()["path"] ?? ""))))).toBe(row()["sha256"] ?? "");
    await scan(after.ctx);
    expect(parked(after)).toEqual([]);
  });
  expect(crashes).toBeGreaterThan(8);
}, 120_000);
