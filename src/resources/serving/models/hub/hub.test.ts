// tier: all (large model files)
import { afterEach, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FakeRepo, hashOf, ranged, startFakeHub } from "../../../../../test/fake_hub.ts";
import { atEveryFailpoint, type TestApp, tempDir, testApp, until } from "../../../../../test/harness.ts";
import { makeModel } from "../../../../../test/models.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { durable } from "../../../../platform/db/db.ts";
import { scan } from "../files/folder.ts";
import * as models from "../service.ts";
import { pullAll } from "./pull.ts";

const hurried = { ...systemClock, sleep: (ms: number, s?: AbortSignal) => systemClock.sleep(ms / 100, s) };
const stops: (() => unknown)[] = [];
let small: Uint8Array;
let large: Uint8Array; // several ranges long

beforeAll(() => {
  const dir = tempDir();
  const read = (path: string) => new Uint8Array(readFileSync(path));
  small = read(makeModel(dir, { arch: "llama", type: "F16" }));
  large = read(
    makeModel(dir, { arch: "llama", type: "F32", width: 256, heads: 4, ff: 1024, layers: 4, vocabSize: 4096 }),
  );
  rmSync(dir, { recursive: true });
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

function hubOf(repos: Record<string, FakeRepo>) {
  const hub = startFakeHub(repos);
  stops.push(hub.stop);
  return hub;
}
function appAt(url: string, flags: Record<string, unknown> = {}, dir?: string): TestApp {
  const slowMachine = { "workers.silence_ms": 86_400_000 }; // in hurried time: on a busy machine a worker is not silent
  const settings = { "hub.endpoint": url, "network.allow": ["127.0.0.1", "localhost"], ...slowMachine, ...flags };
  const app = testApp({ flags: settings, clock: hurried, ...(dir ? { dir } : {}) });
  stops.push(() => app.close().then(app.remove));
  return app;
}
const pull = (app: TestApp, signal = new AbortController().signal) => pullAll(app.ctx, signal);
const repo = (extra: Partial<FakeRepo> = {}) => ({ "acme/tiny": { files: { "tiny-Q4_K_M.gguf": small }, ...extra } });
const parts = (app: TestApp) => readdirSync(join(app.dir, "models/.downloads"));

test("a pulled model is downloaded, checked against the hub's hash and ready, with one event", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const pulled = await app.call("POST", "/v1/models/pull", { name: "acme/tiny" });
  expect(pulled).toMatchObject({ status: 202, body: { status: "downloading", progress: 0, owned_by: app.workspaceA } });
  expect(app.woken).toContain("models.download");
  await pull(app);
  const { body } = await app.call("GET", `/v1/models/${pulled.body.id}`);
  expect(body).toMatchObject({ status: "ready", file: "tiny-Q4_K_M.gguf", sha256: hashOf(small), progress: null });
  const path = models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, body.id));
  expect(path).toBe(join(app.dir, "models/hub/acme/tiny/tiny-Q4_K_M.gguf"));
  expect(hashOf(new Uint8Array(readFileSync(path)))).toBe(hashOf(small));
  expect(parts(app)).toEqual([]);
  const events = await app.call("GET", "/v1/events?types=model.created,model.ready,model.failed");
  expect(events.body.data.map((e: { type: string }) => e.type)).toEqual(["model.created", "model.ready"]);
  expect((await app.call("GET", `/v1/models/${body.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("POST", "/v1/models/pull", { name: "acme/tiny:Q4_K_M" })).body.id).toBe(body.id);
});

test("a broken connection goes on where it was, and a restart too", async () => {
  const hub = hubOf({ "acme/big": { files: { "big.gguf": large } } });
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/big");
  const closing = new AbortController();
  hub.trouble = (count) => {
    if (count === 1) return new Response("overloaded", { status: 503 });
    if (count === 3) closing.abort(); // the server shuts down in the middle
    return undefined;
  };
  await pull(app, closing.signal);
  expect(models.find(app.ctx, app.workspaceA, "acme/big")?.status).toBe("downloading");
  const kept = Bun.file(join(app.dir, "models/.downloads", parts(app)[0] ?? "")).size;
  expect(kept).toBeGreaterThan(0);
  hub.trouble = undefined;
  const before = hub.requests.length;
  await pull(app);
  expect(hub.requests.slice(before).find((r) => r.range)?.range).toStartWith(`bytes=${kept}-`);
  expect(models.find(app.ctx, app.workspaceA, "acme/big")).toMatchObject({ status: "ready", sha256: hashOf(large) });
});

test("a file that is not what the hub says is thrown away and the model fails", async () => {
  const hub = hubOf(repo({ wrongHash: ["tiny-Q4_K_M.gguf"] }));
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  const row = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
  expect(row).toMatchObject({ status: "failed", path: null });
  expect(row.error).toContain("is damaged");
  expect(parts(app)).toEqual([]);
});

test("a file that is no model is refused with the parser's words, at once", async () => {
  const hub = hubOf({ "acme/odd": { files: { "odd.gguf": small.slice(0, 5000) } } });
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/odd");
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/odd").error).toContain("odd.gguf cannot be used: The file");
  expect(hub.downloads).toBe(1);
});

test("the token goes to the hub and not to where it redirects", async () => {
  const store = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      seen.push(request.headers.get("authorization"));
      return ranged(small, request.headers.get("range"));
    },
  });
  stops.push(() => store.stop(true));
  const seen: (string | null)[] = [];
  const hub = hubOf(repo({ token: "hf_secret" }));
  hub.redirect = `http://localhost:${store.port}`;
  const app = appAt(hub.url, { "hub.token": "hf_secret", "hub.token_for": "all" });
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").status).toBe("ready");
  expect(hub.requests.map((r) => r.authorization)).toEqual(["Bearer hf_secret", "Bearer hf_secret"]);
  expect(seen).toEqual([null]);
  expect(app.log.join("\n")).not.toContain("hf_secret");
});

test("a redirect to an address inside is refused", async () => {
  const hub = hubOf(repo());
  hub.redirect = "http://169.254.169.254/latest";
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/tiny").error).toContain("169.254.169.254");
});

test("a gated or absent repository says what to do, and can be asked for again", async () => {
  const hub = hubOf(repo({ token: "other" }));
  const app = appAt(hub.url);
  models.request(app.ctx, app.workspaceA, "acme/tiny");
  models.request(app.ctx, app.workspaceA, "acme/none");
  await pull(app);
  const { id, error } = models.mustGet(app.ctx, app.workspaceA, "acme/tiny");
  expect(error).toContain("set hub.token");
  expect(models.mustGet(app.ctx, app.workspaceA, "acme/none").error).toContain("no repository acme/none");
  expect(models.request(app.ctx, app.workspaceA, "acme/tiny")).toMatchObject({
    id,
    status: "downloading",
    error: null,
  });
});

test("offline never dials, neither for a new model nor for one that was under way", async () => {
  const hub = hubOf(repo());
  const dir = tempDir();
  const before = testApp({ dir, flags: { "hub.endpoint": hub.url } });
  const { id } = models.request(before.ctx, before.workspaceA, "acme/tiny");
  await before.close();
  const app = testApp({ dir: tempDir(), flags: { "hub.endpoint": hub.url, offline: true } });
  stops.push(() => app.close().then(app.remove));
  const answer = await app.call("POST", "/v1/models/pull", { name: "acme/tiny" });
  expect(answer).toMatchObject({ status: 404, body: { error: { code: "resource_not_found", param: "/name" } } });
  expect(answer.body.error.message).toContain("verk models import");
  const again = reopened(dir, hub.url, { offline: true });
  await pull(again);
  expect(again.ctx.db.$client.query("SELECT status, error FROM models WHERE id = ?").get(id)).toMatchObject({
    status: "failed",
  });
  expect(hub.requests).toEqual([]);
});

/** The same data directory after a restart. */
function reopened(dir: string, url: string, flags: Record<string, unknown> = {}): TestApp {
  return appAt(url, flags, dir);
}

test("two workspaces share the file, and it goes with the last of them", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const a = models.request(app.ctx, app.workspaceA, "acme/tiny");
  const b = models.request(app.ctx, app.workspaceB, "acme/tiny");
  await pull(app);
  expect(hub.downloads).toBe(1);
  const path = models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceB, b.id));
  expect(models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, a.id))).toBe(path);
  expect((await app.call("DELETE", `/v1/models/${a.id}`)).body).toMatchObject({ id: a.id, deleted: true });
  await scan(app.ctx);
  expect(existsSync(path)).toBe(true);
  await app.call("DELETE", `/v1/models/${b.id}`, undefined, { key: app.keyB });
  await scan(app.ctx);
  expect(existsSync(path)).toBe(false);
  expect(models.request(app.ctx, app.workspaceA, "acme/tiny").id).not.toBe(a.id);
});

test("a server that ends does not wait for a download that waits for the same file of another workspace", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const end = Promise.withResolvers<void>();
  stops.push(() => end.resolve());
  hub.trouble = () => end.promise.then(() => new Response(""));
  const listed = () => hub.requests.filter(({ path }) => path.startsWith("/api/")).length;
  for (const key of [app.keyA, app.keyB]) await app.call("POST", "/v1/models/pull", { name: "acme/tiny" }, { key });
  const stop = new AbortController();
  const running = pull(app, stop.signal);
  await until("one downloads, the other waits", () => listed() === 2 && hub.downloads === 1);
  stop.abort();
  await running;
});

test("a deleted model ends its download and leaves nothing", async () => {
  const hub = hubOf({ "acme/big": { files: { "big.gguf": large } } });
  const app = appAt(hub.url);
  const { id } = models.request(app.ctx, app.workspaceA, "acme/big");
  const held = Promise.withResolvers<undefined>();
  hub.trouble = (count) => (count === 0 ? undefined : held.promise);
  const pulling = pull(app);
  await until("the second range to be asked for", () => hub.downloads > 1);
  await app.call("DELETE", `/v1/models/${id}`);
  await pulling;
  held.resolve(undefined);
  expect(parts(app)).toEqual([]);
});

test("a model that is deleted while its file is being checked leaves no file", async () => {
  const hub = hubOf({ "acme/big": { files: { "big.gguf": large } } });
  const app = appAt(hub.url);
  const { id } = models.request(app.ctx, app.workspaceA, "acme/big");
  const pulling = pull(app);
  const part = join(app.dir, "models/.downloads", `${hashOf(large)}.part`);
  await until("all of it to be here", () => existsSync(part) && Bun.file(part).size === large.byteLength);
  await app.call("DELETE", `/v1/models/${id}`);
  await pulling;
  expect(parts(app)).toEqual([]);
  expect(readdirSync(join(app.dir, "models/hub/acme/big"))).toEqual([]);
});

test("the file of a deleted model stays while it is being fetched again, and goes when it is not", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const { id } = models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  const path = models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, id));
  await app.call("DELETE", `/v1/models/${id}`);
  const again = models.request(app.ctx, app.workspaceA, "acme/tiny");
  await scan(app.ctx);
  expect(existsSync(path)).toBe(true);
  await pull(app);
  expect(hub.downloads).toBe(1);
  await app.call("DELETE", `/v1/models/${again.id}`);
  await scan(app.ctx);
  expect(existsSync(path)).toBe(false);
});

test("a file that was removed by hand is missing, and comes back when it is asked for", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const { id } = models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  rmSync(models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, id)));
  await scan(app.ctx);
  expect(models.mustGet(app.ctx, app.workspaceA, id).status).toBe("missing");
  expect(models.request(app.ctx, app.workspaceA, "acme/tiny")).toMatchObject({ id, status: "downloading" });
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, id).status).toBe("ready");
});

test("a file that had its name when the server was killed is not downloaded again", async () => {
  const hub = hubOf(repo());
  const app = appAt(hub.url);
  const { id } = models.request(app.ctx, app.workspaceA, "acme/tiny");
  await pull(app);
  app.ctx.db.$client.run("UPDATE models SET status = 'downloading', path = NULL, shape = NULL WHERE id = ?", [id]);
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, id)).toMatchObject({ status: "ready", sha256: hashOf(small) });
  expect(hub.downloads).toBe(1);
  writeFileSync(models.pathOf(app.ctx, models.mustGet(app.ctx, app.workspaceA, id)), small.slice().reverse());
  app.ctx.db.$client.run("UPDATE models SET status = 'downloading' WHERE id = ?", [id]);
  await pull(app);
  expect(models.mustGet(app.ctx, app.workspaceA, id).status).toBe("ready");
  expect(hub.downloads).toBe(2);
});

test("wherever it crashes, the model arrives after a restart, whole and announced once", async () => {
  const hub = hubOf(repo());
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = testApp({ flags: { "hub.endpoint": hub.url, "network.allow": ["127.0.0.1"] }, clock: hurried });
    const { id } = models.request(app.ctx, app.workspaceA, "acme/tiny");
    await durable(app.ctx.db);
    await attempt(() => pull(app)).catch(() => {});
    await app.close();
    const after = reopened(app.dir, hub.url);
    const status = () =>
      after.ctx.db.$client.query("SELECT * FROM models WHERE id = ?").get(id) as Record<string, string>;
    if (status()["status"] === "failed") models.request(after.ctx, status()["workspace_id"] ?? "", "acme/tiny");
    await pull(after);
    expect(status()).toMatchObject({ status: "ready", sha256: hashOf(small), error: null });
    expect(hashOf(new Uint8Array(readFileSync(join(app.dir, status()["path"] ?? ""))))).toBe(hashOf(small));
    expect(after.ctx.db.$client.query("SELECT seq FROM events WHERE type = 'model.ready'").all()).toHaveLength(1);
  });
  expect(crashes).toBeGreaterThan(8);
}, 60_000);
