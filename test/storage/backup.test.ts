// tier: all (backups and stores of objects)
import { afterAll, afterEach, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type BackupOptions, createBackup } from "../../src/platform/backup/create.ts";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { restoreBackup, verifyBackup } from "../../src/platform/backup/restore.ts";
import { openDirectory } from "../../src/platform/backup/target.ts";
import { durable } from "../../src/platform/db/db.ts";
import { tempPath, UNCOUNTED } from "../../src/platform/files.ts";
import { keep, readCurrent } from "../../src/resources/detection/adaptation.ts";
import { manyApps, type TestApp, tempDir } from "../harness.ts";
import { insert } from "../insert_row.ts";

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

const sealer = { passphrase: "correct horse battery" };

async function world() {
  const app = open();
  const target = newDir();
  const repository = openRepository(await openDirectory(target, { create: true }));
  const backUp = (more: Partial<BackupOptions> = {}) =>
    createBackup({
      dataDir: app.dir,
      masterKeyFile: join(app.dir, "master.key"),
      repository,
      version: "1",
      sealer,
      tempDir: newDir(),
      nowMs: Date.now(),
      models: true,
      jobs: false,
      storage: true,
      ...more,
    });
  return { app, target, repository, backUp };
}

/** A dataset with rows, a file in a volume and a secret: one thing for each part of a backup. */
async function fill(app: TestApp, rows = 50): Promise<string> {
  const made = await app.call("POST", "/v1/datasets", { name: `d-${rows}`, format: "completion" });
  const line = (i: number) => ({ prompt: `question ${i}`, completion: "x".repeat(200) });
  const body = { rows: Array.from({ length: rows }, (_, i) => line(i)) };
  expect((await app.call("POST", `/v1/datasets/${made.body.id}/rows`, body)).status).toBeLessThan(300);
  expect((await app.call("PUT", "/v1/secrets/TOKEN", { value: "s3cret-value" })).status).toBeLessThan(300);
  await app.call("POST", "/v1/volumes", { name: "lab" });
  const put = await app.call("PUT", "/v1/volumes/lab/files/a%3Db.txt", undefined, { raw: "hello" });
  expect(put.status).toBeLessThan(300);
  await durable(app.ctx.db);
  return made.body.id;
}
const rowsOf = async (app: TestApp, id: string) =>
  (await app.call("GET", `/v1/datasets/${id}/rows/export?format=jsonl`, undefined, { key: app.keyA })).body;

function everyFile(dir: string): string[] {
  return readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

test("a backup of a running server restores into a new directory with the same rows and secrets", async () => {
  const { app, target, repository, backUp } = await world();
  const id = await fill(app);
  const { manifest, attempts } = await backUp();
  expect(attempts).toBe(1);
  const before = await rowsOf(app, id);
  await app.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt: "later", completion: "y" }] });
  const to = join(newDir(), "restored");
  await restoreBackup({ repository, manifest, to, sealer });
  expect(statSync(join(to, "master.key")).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(to, "master.key"), "utf8")).toBe(readFileSync(join(app.dir, "master.key"), "utf8"));
  const owner = { key: app.keyA };
  const second = open({ dir: to });
  const answer = await second.call("GET", `/v1/datasets/${id}/rows/export?format=jsonl`, undefined, owner);
  expect(answer.body).toEqual(before);
  expect((await second.call("GET", "/v1/volumes/lab/files/a%3Db.txt", undefined, owner)).body).toBe("hello");
  const key = readFileSync(join(app.dir, "master.key"), "utf8").trim();
  for (const file of everyFile(target)) {
    expect(statSync(file).mode & 0o777, file).toBe(0o600);
    expect(readFileSync(file).includes(key), file).toBe(false);
  }
});

test("a backup has the log of a job that has ended", async () => {
  const { app, repository, backUp } = await world();
  await fill(app);
  await app.ctx.storage.put("logs/job_1", new Blob(["step 1\n"]).stream(), { meter: UNCOUNTED });
  insert(app, "training_jobs", "job_1", 1, { log_key: "logs/job_1" });
  const backup = await backUp({ unchecked: true }); // the row has no dataset and no model
  const to = join(newDir(), "restored");
  await restoreBackup({ repository, manifest: backup.manifest, to, sealer });
  const logs = everyFile(to).filter((file) => file.includes("storage/objects/"));
  expect(logs.map((file) => readFileSync(file, "utf8"))).toContain("step 1\n");
});

test("a backup has the adaptations of detectors, and the restored server uses the same one", async () => {
  const { app, repository, backUp } = await world();
  keep(app.dir, {}, 0);
  const used = keep(app.dir, {}, 1);
  const during = {
    ...repository,
    async putChunk(bytes: Uint8Array) {
      if (bytes.toString().includes('"number":1,')) keep(app.dir, {}, 2); // beside the backup, after it has listed the files
      return repository.putChunk(bytes);
    },
  };
  const { manifest } = await backUp({ models: false, repository: during });
  expect(readCurrent(app.dir)).toMatchObject({ number: 3 });
  const to = join(newDir(), "restored");
  await restoreBackup({ repository, manifest, to, sealer });
  expect(readCurrent(to)).toEqual(used);
  expect(readFileSync(join(to, "adapted_detectors", "1.json"), "utf8")).toContain('"number":1');
  expect(keep(to, {}, 3).number).toBeGreaterThan(2);
});

test("copies that a kill left are removed once they are an hour old", async () => {
  const { backUp } = await world();
  const dir = newDir();
  const [old, young] = [tempPath(dir), tempPath(dir)];
  for (const path of [old, young]) writeFileSync(path, "");
  const before = Date.now() / 1000 - 3_700;
  utimesSync(old, before, before);
  await backUp({ tempDir: dir });
  expect(readdirSync(dir).map((name) => join(dir, name))).toEqual([young]);
});

test("a second backup stores only what changed", async () => {
  const { app, backUp } = await world();
  await fill(app, 2_000);
  const first = await backUp();
  const second = await backUp();
  expect(second.manifest.id).not.toBe(first.manifest.id);
  expect(second.storedBytes).toBeLessThan(first.storedBytes / 2);
});

test("verify finds a damaged chunk, a missing chunk, a cut manifest and a wrong passphrase", async () => {
  const { app, target, repository, backUp } = await world();
  await fill(app);
  const { manifest } = await backUp();
  const verify = (passphrase = sealer.passphrase) =>
    verifyBackup({ repository, manifest, sealer: { passphrase } }, newDir());
  expect(await verify()).toEqual([]);
  expect(await verify("another passphrase")).toEqual([expect.stringContaining("does not open the keys")]);
  const [chunk = ""] = manifest.files.find(({ path }) => path.startsWith("datasets/"))?.chunks ?? [];
  const path = join(target, "chunks", chunk.slice(0, 2), chunk.slice(2));
  const bytes = readFileSync(path);
  bytes[100] = (bytes[100] ?? 0) ^ 1;
  writeFileSync(path, bytes);
  expect(await verify()).toEqual([expect.stringContaining("is damaged")]);
  unlinkSync(path);
  expect(await verify()).toEqual([expect.stringContaining("is missing")]);
  truncateSync(join(target, "backups", `${manifest.id}.json`), 100);
  expect(repository.getManifest(manifest.id)).rejects.toThrow("is damaged");
});

test("a dataset that is deleted while the backup runs is in neither copy", async () => {
  const { app, repository, backUp } = await world();
  const id = await fill(app);
  let deleted = false;
  const during = {
    ...repository,
    async putChunk(bytes: Uint8Array) {
      if (!deleted) {
        deleted = true; // the database is copied, and its rows are not
        expect((await app.call("DELETE", `/v1/datasets/${id}`)).status).toBe(200);
        await durable(app.ctx.db);
        for (const name of readdirSync(join(app.dir, "datasets")).filter((each) => each.startsWith(id)))
          rmSync(join(app.dir, "datasets", name));
      }
      return repository.putChunk(bytes);
    },
  };
  const { manifest, attempts } = await backUp({ repository: during });
  expect(attempts).toBe(2);
  expect(manifest.files.some(({ path }) => path.includes(id))).toBe(false);
  expect(await verifyBackup({ repository, manifest, sealer }, newDir())).toEqual([]);
});

test("keys can be sealed to a public key, and only its owner opens them", async () => {
  const { app, repository, backUp } = await world();
  await fill(app);
  const pem = () => {
    const pair = generateKeyPairSync("x25519");
    const secret = pair.privateKey.export({ type: "pkcs8", format: "pem" }) as string;
    return { open: pair.publicKey.export({ type: "spki", format: "pem" }) as string, secret };
  };
  const [own, other] = [pem(), pem()];
  const { manifest } = await backUp({ sealer: { recipient: own.open } });
  const verify = (recipient: string) => verifyBackup({ repository, manifest, sealer: { recipient } }, newDir());
  expect(await verify(own.secret)).toEqual([]);
  expect(await verify(other.secret)).toEqual([expect.stringContaining("identity does not open")]);
  expect(backUp({ sealer: { passphrase: "short" } })).rejects.toThrow("too short");
});

test("a backup is never restored over a directory that exists", async () => {
  const { app, repository, backUp } = await world();
  const { manifest } = await backUp();
  expect(restoreBackup({ repository, manifest, to: app.dir, sealer })).rejects.toThrow("exists");
});

test("a row file that a kill left half made, with a hot journal, does not stop a backup", async () => {
  const { app, repository, backUp } = await world();
  const made = await app.call("POST", "/v1/datasets", { name: "new", format: "completion" });
  await durable(app.ctx.db);
  const path = join(app.dir, "datasets", `${made.body.id}.db`);
  writeHalfMade(path);
  const { manifest } = await backUp();
  expect(manifest.files.map((file) => file.path)).toEqual(["verk.db"]);
  const to = join(newDir(), "restored");
  await restoreBackup({ repository, manifest, to, sealer });
  const second = open({ dir: to });
  const rows = { rows: [{ prompt: "a", completion: "b" }] };
  const answer = await second.call("POST", `/v1/datasets/${made.body.id}/rows`, rows, { key: app.keyA });
  expect(answer.status).toBeLessThan(300);
});

/** A database file with the journal of a transaction that never ended. */
function writeHalfMade(path: string) {
  const script = `const { Database } = require("bun:sqlite"); const db = new Database(${JSON.stringify(path)});
    db.run("CREATE TABLE x (y)"); db.run("PRAGMA cache_size = 1"); db.run("PRAGMA cache_spill = 1"); db.run("BEGIN");
    for (let i = 0; i < 100; i++) db.run("INSERT INTO x VALUES (randomblob(4000))");
    process.kill(process.pid, "SIGKILL");`;
  mkdirSync(dirname(path), { recursive: true });
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
  const ran = Bun.spawnSync([process.execPath, "-e", script]);
  expect([ran.signalCode, ran.stderr.toString()]).toEqual(["SIGKILL", ""]);
  expect(statSync(`${path}-journal`).size).toBeGreaterThan(512);
}

test("a backup has the master key that sealed its database, also in the middle of a rotation", async () => {
  const { app, backUp, repository } = await world();
  await fill(app);
  const file = join(app.dir, "master.key");
  const right = readFileSync(file, "utf8");
  writeFileSync(file, `${"0".repeat(64)}\n`);
  await expect(backUp()).rejects.toThrow("is not the one that sealed the secrets");
  writeFileSync(`${file}.next`, right, { mode: 0o600 });
  const { manifest } = await backUp();
  const to = join(newDir(), "restored");
  await restoreBackup({ repository, manifest, to, sealer });
  expect(readFileSync(join(to, "master.key"), "utf8")).toBe(right);
});
