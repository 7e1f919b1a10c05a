import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { restoreBackup } from "../../src/platform/backup/restore.ts";
import { openDirectory } from "../../src/platform/backup/target.ts";
import { startBinary } from "../binary.ts";
import { spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";
import { violations } from "./invariants.ts";

const ROUNDS = sweep({ quick: 4, full: 1_000 });
const random = randomFor("backups under load");
const below = (n: number) => Math.floor(random() * n);
const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

const dir = join(root, "data");
const target = join(root, "backups");
type Server = Awaited<ReturnType<typeof startBinary>>;

/** Clients at work. `rows` were acknowledged; after a kill they wait for the next server. */
class Load {
  server: Server | undefined;
  rows = 0;
  stopped = false;
  log = "";

  async call(method: string, path: string, body?: unknown) {
    const server = await until("a server", () => this.server);
    return server.call(method, path, body);
  }
  /** Appends to one dataset forever: its acknowledged rows must be in every later backup. */
  async append() {
    const answer = await this.call("POST", `/v1/datasets/${this.log}/rows`, {
      rows: Array.from({ length: 1 + below(20) }, () => ({
        prompt: `${below(1e9)}`,
        completion: "x".repeat(below(2_000)),
      })),
    });
    if (answer.status < 300) this.rows = Math.max(this.rows, answer.body.head_row);
  }
  /** Content that is replaced and deleted all the time. */
  async churn() {
    const name = `v${below(5)}`;
    const made = await this.call("POST", "/v1/datasets", { name: `d-${below(1e9)}`, format: "completion" });
    await this.call("POST", `/v1/datasets/${made.body.id}/rows`, { rows: [{ prompt: "a", completion: "b" }] });
    await this.call("POST", "/v1/volumes", { name });
    await this.call("PUT", `/v1/volumes/${name}/files/f${below(10)}`, `${"y".repeat(below(50_000))}${below(1e9)}`);
    if (below(3) === 0) await this.call("DELETE", `/v1/volumes/${name}`);
    await this.call("PUT", `/v1/secrets/S${below(3)}`, { value: `${below(1e9)}` });
    if (below(10) > 0) await this.call("DELETE", `/v1/datasets/${made.body.id}`);
  }
  async run(step: () => Promise<void>) {
    while (!this.stopped) await step().catch(() => Bun.sleep(10)); // the server was killed
  }
}

test(`${ROUNDS} backups under load with kills: each one that exists is complete (seed ${SEED})`, async () => {
  await Bun.write(join(root, "passphrase"), "correct horse battery");
  mkdirSync(dir);
  const first = await startBinary({ dir });
  const key = await first.apiKey();
  const load = new Load();
  load.server = first;
  load.log = (await first.call("POST", "/v1/datasets", { name: "log", format: "completion" })).body.id;
  const clients = [load.run(() => load.append()), load.run(() => load.churn()), load.run(() => load.churn())];
  const place = await openDirectory(target, { create: true });
  const seen = new Set<string>();
  const count = { made: 0, killed: 0, servers: 0 };
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const before = load.rows;
      const args = ["backup", "create", "--data", dir, "--to", target, "--passphrase-file", join(root, "passphrase")];
      const child = spawnVerk([...args, "--keep", "3"], { cwd: root });
      const fate = below(4);
      if (fate === 1) {
        await Bun.sleep(below(800)); // a random moment of its work
        child.kill("SIGKILL");
        count.killed++;
      }
      if (fate === 2) {
        await Bun.sleep(below(800));
        const old = load.server as Server;
        load.server = undefined;
        await old.kill("SIGKILL");
        load.server = await startBinary({ dir, key });
        count.servers++;
      }
      const code = await child.exited;
      if (fate !== 1) expect([code, await new Response(child.stderr).text()]).toEqual([0, expect.any(String)]);
      const repository = openRepository(place);
      for (const id of await repository.list()) {
        if (seen.has(id)) continue;
        seen.add(id);
        const to = join(root, "restored");
        await restoreBackup({
          ...{ repository, manifest: await repository.getManifest(id), to },
          sealer: { passphrase: "correct horse battery" },
        });
        expect(violations(to)).toEqual([]);
        const db = new Database(join(to, "verk.db"), { readonly: true });
        const head = db.query("SELECT head_row AS n FROM datasets WHERE id = ?").get(load.log) as { n: number };
        db.close();
        expect(head.n).toBeGreaterThanOrEqual(before);
        rmSync(to, { recursive: true });
        count.made++;
      }
    }
  } finally {
    load.stopped = true;
    await load.server?.kill();
    await Promise.all(clients);
  }
  console.error(`backups: ${JSON.stringify(count)}, ${load.rows} rows acknowledged`);
  expect(count.made).toBeGreaterThan(0);
  expect(load.rows).toBeGreaterThan(0);
}, 3_600_000);
