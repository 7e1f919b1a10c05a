// tier: all (backups and stores of objects)
import { afterAll, afterEach, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createBackup } from "../../src/platform/backup/create.ts";
import { openLog, stateAt } from "../../src/platform/backup/log.ts";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { restoreBackup, verifyBackup } from "../../src/platform/backup/restore.ts";
import { openDirectory } from "../../src/platform/backup/target.ts";
import { durable } from "../../src/platform/db/db.ts";
import { keep, readCurrent, reset } from "../../src/resources/detection/adaptation.ts";
import { manyApps, type TestApp, tempDir } from "../harness.ts";
import { randomFor, sweep } from "../sweep.ts";

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
/** Ahead of the ids that this process has made: ids never go back. */
const START_MS = Date.now() + 3_600_000;

async function world() {
  const app = open();
  const target = newDir();
  const place = await openDirectory(target, { create: true });
  const repository = openRepository(place);
  const masterKeyFile = join(app.dir, "master.key");
  const about = { dataDir: app.dir, masterKeyFile, repository, version: "1", sealer, tempDir: newDir(), storage: true };
  const backUp = (nowMs: number) => createBackup({ ...about, nowMs, models: true, jobs: false });
  const log = () => openLog(about);
  return { app, target, place, repository, backUp, log };
}

async function datasetOf(app: TestApp, name: string): Promise<string> {
  return (await app.call("POST", "/v1/datasets", { name, format: "completion" })).body.id;
}
async function append(app: TestApp, id: string, text: string) {
  const body = { rows: [{ prompt: text, completion: "x".repeat(300) }] };
  expect((await app.call("POST", `/v1/datasets/${id}/rows`, body)).status).toBeLessThan(300);
  await durable(app.ctx.db);
}

/** Everything that a caller can see of it. */
async function seen(app: TestApp, key: string) {
  const call = async (path: string) => (await app.call("GET", path, undefined, { key })).body;
  const datasets = (await call("/v1/datasets")).data.map((each: { id: string }) => each.id);
  const rows = await Promise.all(
    datasets.map((id: string) => app.call("GET", `/v1/datasets/${id}/rows/export?format=jsonl`, undefined, { key })),
  );
  const volumes = (await call("/v1/volumes")).data.map((each: { name: string }) => each.name);
  const files = await Promise.all(volumes.map((name: string) => call(`/v1/volumes/${name}/files/a.txt`)));
  return { datasets, rows: rows.map(({ body }) => body), volumes, files, secrets: (await call("/v1/secrets")).data };
}

test("each state of the log restores to what was there at its time, over rows, storage and secrets", async () => {
  const { app, repository, backUp, log, target } = await world();
  const random = randomFor("log of changes");
  const below = (n: number) => Math.floor(random() * n);
  const first = await datasetOf(app, "first");
  await append(app, first, "a");
  mkdirSync(join(app.dir, "models"), { recursive: true });
  writeFileSync(join(app.dir, "models", "own.bin"), "weights");
  await backUp(START_MS);
  let entry = log();
  const states: { at: number; seen: unknown }[] = [];
  const steps = sweep({ quick: 6, full: 200 });
  for (let step = 1; step <= steps; step++) {
    for (let n = below(4); n >= 0; n--) {
      const deed = below(5);
      if (deed === 0) await app.call("POST", "/v1/volumes", { name: `v${step}-${n}` });
      if (deed === 0)
        await app.call("PUT", `/v1/volumes/v${step}-${n}/files/a.txt`, undefined, { raw: `text ${step}` });
      if (deed === 1) await append(app, await datasetOf(app, `d${step}-${n}`), "new");
      if (deed === 2) await app.call("PUT", `/v1/secrets/S${below(3)}`, { value: `v${step}` });
      if (deed === 3 && step % 3 === 0) await app.call("DELETE", `/v1/volumes/v${step - 1}-0`);
      await append(app, first, `${step} ${n}`);
    }
    await durable(app.ctx.db);
    const at = START_MS + step * 60_000;
    if (step === steps / 2) entry = log(); // as after a restart of the server
    expect(await entry(at)).toMatchObject({ created_at: new Date(at).toISOString() });
    states.push({ at, seen: await seen(app, app.keyA) });
  }
  for (const { at, seen: expected } of states.filter((_, i) => i % Math.ceil(steps / 2) === 0 || i === steps - 1)) {
    const manifest = await stateAt(repository, at + 59_999);
    const to = join(newDir(), "restored");
    await restoreBackup({ repository, manifest, to, sealer });
    const restored = open({ dir: to });
    expect(await seen(restored, app.keyA)).toEqual(expected as never);
    expect(readFileSync(join(to, "models", "own.bin"), "utf8")).toBe("weights");
    expect(await verifyBackup({ repository, manifest, sealer }, newDir())).toEqual([]);
  }
  expect((await stateAt(repository, START_MS)).files.some(({ patches }) => patches)).toBe(false); // the backup itself
  await expect(stateAt(repository, START_MS - 1)).rejects.toThrow("no backup from that time");
  for (const name of readdirSync(join(target, "log"))) expect(name).toMatch(/^bkp_\w{26}\.json$/);
}, 120_000);

test("nothing is written while nothing changes, and a small change stores pages instead of the file", async () => {
  const { app, repository, log } = await world();
  const id = await datasetOf(app, "large");
  const rows = Array.from({ length: 400 }, (_, i) => ({ prompt: `${i}`, completion: "y".repeat(2_000) }));
  await app.call("POST", `/v1/datasets/${id}/rows`, { rows });
  await durable(app.ctx.db);
  const entry = log();
  await entry(START_MS);
  expect(await entry(START_MS + 1)).toBeUndefined();
  await append(app, id, "one more");
  const made = await entry(START_MS + 2);
  const { files } = (await repository.getLogEntry(made?.id ?? "")) as { files: { path: string; patches?: string[] }[] };
  expect(files.map(({ path }) => path).sort()).toEqual([`datasets/${id}.db`, "verk.db"]);
  for (const { patches = [] } of files) {
    const sizes = await Promise.all(patches.map(async (sha256) => (await repository.getChunk(sha256)).length));
    expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(200_000);
    expect(patches).toHaveLength(1);
  }
});

test("pruning removes entries from before the oldest backup, and every entry that stays restores", async () => {
  const { app, repository, backUp, log } = await world();
  const day = 86_400_000;
  const entry = log();
  for (let n = 0; n < 3; n++) {
    await app.call("POST", "/v1/volumes", { name: `v${n}` });
    await durable(app.ctx.db);
    await entry(START_MS + n * day);
    await backUp(START_MS + n * day + 1);
  }
  await repository.prune(1, START_MS + 3 * day); // every entry is older than the backup
  expect(await repository.listLog()).toHaveLength(2); // the next entry needs the base and the patches of the newest
  await app.call("POST", "/v1/volumes", { name: "last" });
  await durable(app.ctx.db);
  await entry(START_MS + 3 * day);
  await repository.prune(1, START_MS + 10 * day);
  const left = await repository.listLog();
  expect(left).toHaveLength(2); // the base and the newest
  const manifest = await stateAt(repository, START_MS + 4 * day);
  expect(await verifyBackup({ repository, manifest, sealer }, newDir())).toEqual([]);
});

test("the log has adaptations of detectors, although they change no row", async () => {
  const { app, repository, backUp, log } = await world();
  const start = START_MS + 20 * 86_400_000; // after the ids of the tests above
  const first = keep(app.dir, {}, start);
  await backUp(start);
  const entry = log();
  expect(await entry(start + 1)).toBeDefined();
  const second = keep(app.dir, {}, start + 1);
  expect(await entry(start + 2)).toBeDefined();
  expect(await entry(start + 3)).toBeUndefined();
  reset(app.dir);
  expect(await entry(start + 4)).toBeDefined();
  const at = async (nowMs: number) => {
    const to = join(newDir(), "restored");
    await restoreBackup({ repository, manifest: await stateAt(repository, nowMs), to, sealer });
    return readCurrent(to);
  };
  expect([await at(start), await at(start + 1)]).toEqual([first, first]);
  expect([await at(start + 2), await at(start + 4)]).toEqual([second, undefined]);
});
