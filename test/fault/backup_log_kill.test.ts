// tier: all (backups and stores of objects)
/** The log of changes of a server that is killed: what was acknowledged before the newest state is in it. */
import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { stateAt } from "../../src/platform/backup/log.ts";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { restoreBackup } from "../../src/platform/backup/restore.ts";
import { openDirectory } from "../../src/platform/backup/target.ts";
import { startBinary } from "../binary.ts";
import { tempDir, until } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";
import { violations } from "./invariants.ts";

const ROUNDS = sweep({ quick: 2, full: 100 });
const MINUTE_MS = 60_000;
const random = randomFor("kills of the log");
const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

test(`${ROUNDS} kills: no acknowledged write older than a minute is lost (seed ${SEED})`, async () => {
  const dir = join(root, "data");
  const target = join(root, "backups");
  mkdirSync(dir);
  await Bun.write(join(root, "passphrase"), "correct horse battery");
  const env = {
    VERK_BACKUP__TARGET: target,
    VERK_BACKUP__SCHEDULE: "30 2 * * *",
    VERK_BACKUP__LOG_SECONDS: "1",
    VERK_BACKUP__PASSPHRASE_FILE: join(root, "passphrase"),
  };
  let key: string | undefined;
  let id = "";
  const acknowledged: { at: number; row: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const server = await startBinary({ dir, env, ...(key === undefined ? {} : { key }) });
    key ??= await server.apiKey();
    if (id === "") id = (await server.call("POST", "/v1/datasets", { name: "log", format: "completion" })).body.id;
    const repository = openRepository(await openDirectory(target, { create: true }));
    const before = (await repository.listLog()).length;
    let stopped = false;
    const writing = (async () => {
      while (!stopped) {
        const rows = [{ prompt: "a", completion: "b".repeat(Math.floor(random() * 3_000)) }];
        const answer = await server.call("POST", `/v1/datasets/${id}/rows`, { rows }).catch(() => undefined);
        if (answer && answer.status < 300) acknowledged.push({ at: Date.now(), row: answer.body.head_row });
        if (answer) await server.call("PUT", `/v1/secrets/S${acknowledged.length % 3}`, { value: "x" }).catch(() => {});
      }
    })();
    const wanted = before + 2 + Math.floor(random() * 3);
    await until("states in the log", async () => (await repository.listLog()).length >= wanted, 120_000);
    const killedAt = Date.now();
    await server.kill("SIGKILL");
    stopped = true;
    await writing;

    const manifest = await stateAt(repository, Number.MAX_SAFE_INTEGER);
    const stateMs = Date.parse(manifest.created_at);
    expect(killedAt - stateMs).toBeLessThan(MINUTE_MS);
    const to = join(root, `restored-${round}`);
    await restoreBackup({ repository, manifest, to, sealer: { passphrase: "correct horse battery" } });
    const db = new Database(join(to, "verk.db"), { readonly: true });
    const { head } = db.query("SELECT head_row AS head FROM datasets WHERE id = ?").get(id) as { head: number };
    db.close();
    expect(head).toBeGreaterThanOrEqual(acknowledged.findLast(({ at }) => at < stateMs)?.row ?? 0);
    expect(violations(to)).toEqual([]);
    rmSync(to, { recursive: true });
  }
}, 600_000);
