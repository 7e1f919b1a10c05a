// tier: all (backups and stores of objects)
import { afterAll, afterEach, expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openArchiveTarget } from "../../src/platform/backup/archive_target.ts";
import { createBackup } from "../../src/platform/backup/create.ts";
import { openTarget } from "../../src/platform/backup/open.ts";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { verifyBackup } from "../../src/platform/backup/restore.ts";
import { BackupState, backUpWhenDue, dueAt } from "../../src/platform/backup/schedule.ts";
import { type BackupTarget, openDirectory } from "../../src/platform/backup/target.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { fakeClock, manyApps, type TestApp, tempDir } from "../harness.ts";
import { memoryS3 } from "./memory_s3.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);
const dirs: string[] = [];
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});
const newDir = () => {
  const dir = tempDir();
  dirs.push(dir);
  return dir;
};
const DAY_MS = 86_400_000;
const sealer = { passphrase: "correct horse battery" };

const backUp = (app: TestApp, place: BackupTarget, nowMs = Date.now()) =>
  createBackup({
    dataDir: app.dir,
    masterKeyFile: join(app.dir, "master.key"),
    repository: openRepository(place),
    nowMs,
    version: "1",
    sealer,
    tempDir: newDir(),
    models: false,
    jobs: false,
    storage: true,
  });
const faultsOf = async (place: BackupTarget, id: string) => {
  const repository = openRepository(place);
  return verifyBackup({ repository, manifest: await repository.getManifest(id), sealer }, newDir());
};
async function withVolume(): Promise<TestApp> {
  const app = open();
  await app.call("POST", "/v1/volumes", { name: "lab" });
  expect((await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { raw: "hello" })).status).toBe(201);
  return app;
}

test("a bucket takes, lists, verifies and prunes backups as a directory does", async () => {
  const app = await withVolume();
  const bucket = memoryS3();
  try {
    const flags = {
      "backup.s3_endpoint": bucket.url,
      "backup.s3_access_key_id": "a",
      "backup.s3_secret_access_key": "b",
    };
    const place = await openTarget("s3://lab/verk", loadConfig({ env: {}, flags }));
    const first = await backUp(app, place);
    const second = await backUp(app, place);
    expect(second.storedBytes).toBeLessThan(first.storedBytes / 2);
    expect(await openRepository(place).list()).toEqual([first.manifest.id, second.manifest.id]);
    expect(await faultsOf(place, second.manifest.id)).toEqual([]);
    expect((await openRepository(place).prune(1, Date.now())).backups).toBe(1);
    expect([...bucket.objects.keys()].filter((name) => name.includes("/backups/"))).toEqual([
      `/lab/verk/backups/${second.manifest.id}.json`,
    ]);
    bucket.objects.clear();
    expect(faultsOf(place, second.manifest.id)).rejects.toThrow("There is no backup");
  } finally {
    await bucket.stop();
  }
});

test("a bucket that refuses is named with the settings of backups", async () => {
  const refusing = Bun.serve({
    port: 0,
    fetch: () => new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 }),
  });
  const flags = { "backup.s3_endpoint": refusing.url.origin };
  const place = await openTarget("s3://lab", loadConfig({ env: {}, flags }));
  expect(place.write("x", new Uint8Array(1))).rejects.toThrow("these credentials may not do this");
  await refusing.stop(true);
  expect(openTarget("s3:///x", loadConfig({ env: {} }))).rejects.toThrow("Expected s3://BUCKET/FOLDER");
});

test("an archive on standard output is a directory of backups when it is extracted", async () => {
  const app = await withVolume();
  const parts: Uint8Array[] = [];
  const archive = openArchiveTarget(async (bytes) => void parts.push(new Uint8Array(bytes)));
  const { manifest } = await backUp(app, archive);
  await archive.end();
  const to = newDir();
  const tar = Bun.spawnSync(["tar", "-x", "-C", to], { stdin: Buffer.concat(parts), stderr: "pipe" });
  expect([tar.exitCode, tar.stderr.toString()]).toEqual([0, ""]);
  expect(statSync(join(to, "backups", `${manifest.id}.json`)).mode & 0o777).toBe(0o600);
  expect(await faultsOf(await openDirectory(to), manifest.id)).toEqual([]);
});

test("pruned backups leave their chunks for a day, and a backup that is kept loses none", async () => {
  const app = await withVolume();
  const root = newDir();
  const place = await openDirectory(root, { create: true });
  const repository = openRepository(place);
  const old = (await backUp(app, place)).manifest.id;
  await app.call("PUT", "/v1/volumes/lab/files/a", undefined, { raw: "other content" });
  const kept = (await backUp(app, place)).manifest.id;
  const nowMs = Date.now();
  expect(await repository.prune(1, nowMs)).toEqual({ backups: 1, chunks: 0 });
  expect([existsSync(join(root, "dropped", `${old}.json`)), await repository.list()]).toEqual([true, [kept]]);
  for (const name of readdirSync(join(root, "chunks"), { recursive: true }) as string[])
    if (name.includes("/")) utimesSync(join(root, "chunks", name), 1, 1);
  expect(await repository.prune(1, nowMs + DAY_MS / 2)).toEqual({ backups: 0, chunks: 0 });
  expect((await repository.prune(1, nowMs + 2 * DAY_MS)).chunks).toBeGreaterThan(0);
  expect(await faultsOf(place, kept)).toEqual([]);
});

test("an old chunk that no manifest names is stored again, because it may be pruned at any moment", async () => {
  const root = newDir();
  const place = await openDirectory(root, { create: true });
  const bytes = new TextEncoder().encode("left by a backup that was killed");
  const { sha256 } = await openRepository(place).putChunk(bytes);
  expect((await openRepository(place).putChunk(bytes)).stored).toBe(false);
  utimesSync(join(root, "chunks", sha256.slice(0, 2), sha256.slice(2)), 1, 1);
  expect((await openRepository(place).putChunk(bytes)).stored).toBe(true);
});

test.each([
  [null, "2026-01-05T10:00:00.000Z", "2026-01-05T10:00:00.000Z", true],
  ["2026-01-05T02:30:10.000Z", "2026-01-05T10:00:00.000Z", "2026-01-06T02:30:00.000Z", false],
  ["2026-01-05T02:30:10.000Z", "2026-01-06T03:00:00.000Z", "2026-01-06T02:30:00.000Z", false],
  ["2026-01-01T02:30:10.000Z", "2026-01-05T10:00:00.000Z", "2026-01-02T02:30:00.000Z", true],
  ["2027-01-05T02:30:10.000Z", "2026-01-05T10:00:00.000Z", "2026-01-05T10:00:00.000Z", true], // by a wrong clock
])("with a backup at %p, at %s the next one is due at %s, late: %p", (made, now, next, late) => {
  expect(dueAt("30 2 * * *", made === null ? undefined : Date.parse(made), Date.parse(now))).toMatchObject({
    next,
    late,
  });
});

test("a schedule makes a backup when one is due, and no second one", async () => {
  const app = await withVolume();
  const target = newDir();
  writeFileSync(join(target, "passphrase"), sealer.passphrase);
  const flags = {
    data_dir: app.dir,
    "backup.target": join(target, "all"),
    "backup.schedule": "30 2 * * *",
    "backup.passphrase_file": join(target, "passphrase"),
  };
  const state = { backup: new BackupState() };
  const clock = fakeClock(Date.now());
  const ctx = { config: loadConfig({ env: {}, flags }), clock, log: app.ctx.log, state };
  await backUpWhenDue(ctx, new AbortController().signal);
  await backUpWhenDue(ctx, new AbortController().signal);
  const place = await openDirectory(join(target, "all"));
  const ids = await openRepository(place).list();
  expect([ids.length, state.backup.failedAt]).toEqual([1, Number.NEGATIVE_INFINITY]);
  expect(await faultsOf(place, ids[0] ?? "")).toEqual([]);
  clock.set(-365 * DAY_MS);
  state.backup.failedAt = Number.NEGATIVE_INFINITY;
  await backUpWhenDue(ctx, new AbortController().signal);
  expect(await openRepository(place).list()).toHaveLength(2);
});

test("a schedule without a target, or that is no cron pattern, is refused", () => {
  const config = (flags: Record<string, unknown>) => loadConfig({ env: {}, flags });
  expect(() => config({ "backup.schedule": "30 2 * * *" })).toThrow("expected a target");
  expect(() => config({ "backup.schedule": "daily", "backup.target": "/backup" })).toThrow("five fields of cron");
  expect(() => config({ "backup.target": "backup" })).toThrow("absolute path");
});
