import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testCloud } from "../../../test/cloud_kit.ts";
import { loadConfig } from "../../platform/config/config.ts";
import { closeDb, openDb } from "../../platform/db/db.ts";
import { migrate } from "../../platform/db/migrate.ts";
import { someSealed } from "../../platform/db/sealed.ts";
import { serverId, writeLease } from "../../platform/providers/leases.ts";
import { createSecretBox, openSecretBox } from "../../platform/secrets.ts";
import { examine, type Scene } from "./check.ts";
import { cloudChecks } from "./clouds.ts";
import { hostChecks } from "./host.ts";
import { keyChecks } from "./keys.ts";
import { storageChecks } from "./storage.ts";

const root = mkdtempSync(join(tmpdir(), "verk-test-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const sceneOf = (dir: string, listen = "127.0.0.1:0", detectPort = -1): Scene => ({
  config: loadConfig({ env: {}, flags: { data_dir: dir, "http.listen": listen, "detect.port": detectPort } }),
  probeDir: dir,
});
const finding = (name: string, scene: Scene) => {
  const check = [...storageChecks, ...keyChecks, ...hostChecks].find((each) => each.name === name);
  if (!check) throw new Error(`no check ${name}`);
  return examine(check, scene);
};

test("a machine without anything yet passes every check of storage and host", async () => {
  const scene = sceneOf(join(root, "not/yet"));
  for (const check of [...storageChecks, ...hostChecks])
    expect(await examine(check, scene)).toMatchObject({ check: check.name, status: expect.stringMatching(/ok|warn/) });
});

test("a file in the place of the data directory fails and says so", async () => {
  writeFileSync(join(root, "file"), "");
  expect(await finding("data directory", sceneOf(join(root, "file")))).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("not a directory"),
  });
});

test("D11 a clock that is ahead of what the server's uptime explains is a warning", async () => {
  const dir = join(root, "ahead");
  mkdirSync(dir);
  const db = new Database(join(dir, "verk.db"));
  db.run("CREATE TABLE settings (key TEXT, value TEXT)");
  const trusted = Date.now() - 365 * 86_400_000;
  const keep = (waited: number) => {
    db.run("DELETE FROM settings");
    db.run("INSERT INTO settings VALUES ('clock', ?)", [JSON.stringify({ trusted, waited })]);
  };
  keep(60_000);
  expect(await finding("clock", sceneOf(dir))).toMatchObject({
    status: "warn",
    fix: expect.stringContaining("24 hours"),
  });
  keep(0); // the server was off: that is no jump
  expect(await finding("clock", sceneOf(dir))).toMatchObject({ status: "ok" });
  db.close();
});

test("keys that expire soon are a warning with the command that replaces one", async () => {
  const dir = join(root, "keys");
  mkdirSync(dir);
  expect(await finding("API keys", sceneOf(dir))).toMatchObject({ status: "ok" });
  const db = new Database(join(dir, "verk.db"));
  expect(await finding("API keys", sceneOf(dir))).toMatchObject({ status: "ok" }); // no table yet
  db.run("CREATE TABLE workspaces (id TEXT, name TEXT)");
  db.run("INSERT INTO workspaces VALUES ('ws_1', 'research')");
  db.run(
    "CREATE TABLE api_keys (id TEXT, workspace_id TEXT, name TEXT, status TEXT, prefix TEXT, created_at INTEGER, expires_at INTEGER)",
  );
  const day = 86_400_000;
  const add = (name: string, status: string, prefix: string, daysLeft: number | null) =>
    db.run("INSERT INTO api_keys VALUES (?, 'ws_1', ?, ?, ?, ?, ?)", [
      ...[`key_${name}`, name, status, prefix, Date.now() - 300 * day],
      daysLeft === null ? null : Date.now() + daysLeft * day,
    ]);
  add("forever", "active", "vk_a", null);
  add("later", "active", "vk_b", 65);
  add("revoked", "revoked", "vk_c", 5);
  add("over", "active", "vk_d", -1);
  add("seat", "active", "", 5);
  expect(await finding("API keys", sceneOf(dir))).toMatchObject({ status: "ok", detail: expect.stringContaining("2") });
  add("laptop", "active", "vk_e", 5);
  expect(await finding("API keys", sceneOf(dir))).toMatchObject({
    status: "warn",
    detail: expect.stringMatching(/^1 key will expire soon: laptop \(key_laptop\) on \d{4}-\d\d-\d\d$/),
    fix: expect.stringContaining("verk keys rotate key_laptop --workspace research"),
  });
  db.close();
});

test("D7 a damaged database fails and names the way back", async () => {
  const dir = join(root, "damaged");
  mkdirSync(dir);
  writeFileSync(join(dir, "verk.db"), "this is not a database, and long enough to be looked at ".repeat(40));
  expect(await finding("database", sceneOf(dir))).toMatchObject({
    status: "fail",
    fix: expect.stringContaining("restore a backup"),
  });
});

test("a master key that others may read fails with the chmod that mends it", async () => {
  const dir = join(root, "open");
  mkdirSync(dir);
  const file = join(dir, "master.key");
  writeFileSync(file, "x");
  chmodSync(file, 0o644);
  expect(await finding("master key", sceneOf(dir))).toMatchObject({ status: "fail", fix: `chmod 600 ${file}` });
});

test("R3: a foreign master key fails with the sentence of a start; the right one opens a sealed value", async () => {
  const dir = join(root, "foreign");
  mkdirSync(dir);
  const file = join(dir, "master.key");
  const [master, foreign] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const put = (key: Uint8Array) => writeFileSync(file, Buffer.from(key).toString("hex"), { mode: 0o600 });
  const db = new Database(join(dir, "verk.db"));
  db.run("CREATE TABLE secrets (id TEXT, sealed TEXT)");
  db.run("INSERT INTO secrets VALUES ('sec_1', ?)", [createSecretBox(master).seal("hidden", "a place")]);
  put(master);
  expect(await finding("master key", sceneOf(dir))).toMatchObject({
    status: "ok",
    detail: expect.stringContaining("opens the secrets"),
  });
  put(foreign);
  const result = await finding("master key", sceneOf(dir));
  const start = () => openSecretBox({ file, sealed: () => someSealed(db) });
  expect(result.status).toBe("fail");
  expect(start).toThrow(result.detail);
  expect(start).toThrow(/is not the one that sealed the secrets/);
  rmSync(file);
  expect(await finding("master key", sceneOf(dir))).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("is missing"),
  });
  db.close();
});

test("R1: a database of this version's number with another schema fails; the next start repairs it", async () => {
  const dir = join(root, "gap");
  mkdirSync(dir);
  const db = openDb({ path: join(dir, "verk.db") });
  migrate(db, join(dir, "backups"));
  expect(await finding("database", sceneOf(dir))).toMatchObject({ status: "ok" });
  db.$client.run("ALTER TABLE regions DROP COLUMN slurm");
  expect(await finding("database", sceneOf(dir))).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("it lacks column regions.slurm"),
    fix: expect.stringContaining("restart the server"),
  });
  closeDb(db);
});

test("a taken port fails with the flag that chooses another", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const result = await finding("address", sceneOf(join(root, "none"), `127.0.0.1:${taken.port}`));
  await taken.stop(true);
  expect(result).toMatchObject({ status: "fail", fix: expect.stringContaining("--listen") });
});

test("a taken port of detection fails with the setting that chooses another; two free ones are named", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const result = await finding("address", sceneOf(join(root, "none"), "127.0.0.1:0", taken.port));
  await taken.stop(true);
  expect(result).toMatchObject({ status: "fail", fix: expect.stringContaining("detect.port") });
  const free = await finding("address", sceneOf(join(root, "none"), "127.0.0.1:0", 0));
  expect(free).toMatchObject({ status: "ok", detail: "127.0.0.1:0 and 127.0.0.1:0 are free" });
});

test("a check that throws is a finding, not the end of the examination", async () => {
  const broken = { name: "x", run: () => Promise.reject(new Error("boom")) };
  expect(await examine(broken, sceneOf(root))).toMatchObject({ check: "x", status: "fail", detail: "boom" });
});

test("a machine of a cloud that does not end, or that no server watches, is found in the lease files", async () => {
  const dir = join(root, "clouds");
  const check = () => examine(cloudChecks[0]!, sceneOf(dir));
  mkdirSync(dir);
  expect(await check()).toMatchObject({ status: "ok", detail: "none" });
  const name = `verk-${serverId(dir)}-lab-000000000000`;
  const lease = { name, cloud: "lab", workspace_id: "ws", region_id: "reg", created_at: "", trouble: null };
  writeLease(dir, lease);
  expect(await check()).toMatchObject({ status: "fail", detail: expect.stringContaining("not in clouds.files") });
  const { file } = testCloud(dir);
  const scene = {
    ...sceneOf(dir),
    config: loadConfig({ env: {}, flags: { data_dir: dir, "clouds.files": [file] } }),
  };
  expect(await examine(cloudChecks[0]!, scene)).toMatchObject({
    status: "warn",
    detail: expect.stringContaining(name),
  });
  writeLease(dir, { ...lease, trouble: "no such region" });
  expect(await examine(cloudChecks[0]!, scene)).toMatchObject({
    status: "fail",
    detail: expect.stringContaining("no such region"),
  });
});
