import { afterEach, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hashOf } from "../../../../test/fake_hub.ts";
import { atEveryFailpoint, testApp, until } from "../../../../test/harness.ts";
import { appAt, hubOf, hurried, large, parts, pull, repo, small, stopAll } from "../../../../test/hub_kit.ts";
import { durable } from "../../../platform/db/db.ts";
import { scan } from "../files/folder.ts";
import * as models from "../service.ts";

afterEach(stopAll);

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
    const after = appAt(hub.url, {}, app.dir);
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
