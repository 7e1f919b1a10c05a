/** A server under load whose changes are copied to a place of backups. Small, so that a sweep can make many backups of it. */
import { Database } from "bun:sqlite";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { timeOf } from "../../src/lib/ids.ts";
import { stateAt } from "../../src/platform/backup/log.ts";
import type { Manifest } from "../../src/platform/backup/manifest.ts";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { restoreBackup } from "../../src/platform/backup/restore.ts";
import { openDirectory } from "../../src/platform/backup/target.ts";
import { startBinary } from "../binary.ts";
import { spawnVerk } from "../cli.ts";
import { until } from "../harness.ts";
import { violations } from "./invariants.ts";

const MINUTE_MS = 60_000;
/** Cheaper than a passphrase, which is slow to open on purpose. */
const OWN = generateKeyPairSync("x25519", {
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});
type Server = Awaited<ReturnType<typeof startBinary>>;
type Below = (n: number) => number;

/** Opens a server below `root`. Its clients never stop: after a kill they wait for the next server. */
export async function openWorld(root: string, below: Below) {
  const dir = join(root, "data");
  const target = join(root, "backups");
  mkdirSync(dir, { recursive: true });
  const recipient = join(root, "recipient.pem");
  await Bun.write(recipient, OWN.publicKey);
  const env = {
    VERK_BACKUP__TARGET: target,
    VERK_BACKUP__SCHEDULE: "30 2 * * *",
    VERK_BACKUP__LOG_SECONDS: "5",
    VERK_BACKUP__RECIPIENT_FILE: recipient,
  };
  let server: Server | undefined = await startBinary({ dir, env });
  const key = await server.apiKey();
  const log = (await server.call("POST", "/v1/datasets", { name: "log", format: "completion" })).body.id as string;
  const repository = openRepository(await openDirectory(target, { create: true }));
  const acknowledged: { at: number; row: number }[] = [];
  let stopped = false;

  const call = async (method: string, path: string, body?: unknown) =>
    (await until("a server", () => server, MINUTE_MS)).call(method, path, body);

  /** Appends to one dataset: its acknowledged rows must be in every later backup. */
  async function append() {
    const rows = Array.from({ length: 1 + below(3) }, () => ({ prompt: "a", completion: "x".repeat(below(500)) }));
    const answer = await call("POST", `/v1/datasets/${log}/rows`, { rows });
    if (answer.status < 300) acknowledged.push({ at: Date.now(), row: answer.body.head_row });
  }
  /** Makes, replaces and deletes content. */
  async function churn() {
    const name = `v${below(5)}`;
    const made = await call("POST", "/v1/datasets", { name: `d-${below(1e9)}`, format: "completion" });
    await call("POST", `/v1/datasets/${made.body.id}/rows`, { rows: [{ prompt: "a", completion: "b" }] });
    await call("POST", "/v1/volumes", { name });
    await call("PUT", `/v1/volumes/${name}/files/f${below(10)}`, `${"y".repeat(below(20_000))}${below(1e9)}`);
    if (below(3) === 0) await call("DELETE", `/v1/volumes/${name}`);
    await call("PUT", `/v1/secrets/S${below(3)}`, { value: `${below(1e9)}` });
    if (below(10) > 0) await call("DELETE", `/v1/datasets/${made.body.id}`);
  }
  /** Clients rest while a backup is checked: a sweep needs no load then. */
  let isBackingUp = false;
  const run = async (step: () => Promise<void>) => {
    while (!stopped) {
      if (isBackingUp) await step().catch(() => {}); // the server was killed
      await Bun.sleep(20 + below(150)); // data stay small
    }
  };
  const clients = [run(append), run(churn)];

  async function headOf(manifest: Manifest) {
    const to = join(root, "restored");
    rmSync(to, { recursive: true, force: true });
    await restoreBackup({ repository, manifest, to, sealer: { recipient: OWN.privateKey } });
    const db = new Database(join(to, "verk.db"), { readonly: true });
    const found = db.query("SELECT head_row AS n FROM datasets WHERE id = ?").get(log) as { n: number } | null;
    db.close();
    return { head: found?.n ?? 0, broken: violations(to) };
  }
  const rowsBefore = (atMs: number) => acknowledged.findLast(({ at }) => at < atMs)?.row ?? 0;

  return {
    repository,
    rows: () => acknowledged.at(-1)?.row ?? 0,
    backUp(more: Record<string, string> = {}) {
      isBackingUp = true;
      const place = ["--to", target, "--recipient", recipient, "--keep", "3"];
      const child = spawnVerk(["backup", "create", "--data", dir, ...place], { cwd: root, env: more });
      void child.exited.then(() => {
        isBackingUp = false;
      });
      return child;
    },
    /** Restores a backup. Rows that were acknowledged before it began must be there. */
    async faultsOf(id: string): Promise<string[]> {
      const { head, broken } = await headOf(await repository.getManifest(id));
      const rows = rowsBefore(timeOf(id));
      return head < rows ? [...broken, `${id} has ${head} rows, and ${rows} were acknowledged before it`] : broken;
    },
    async killServer() {
      const old = server as Server;
      server = undefined;
      await old.kill("SIGKILL");
      return Date.now();
    },
    async startServer() {
      server = await startBinary({ dir, key, env });
    },
    /** Restores the newest state: rows older than it, and all rows older than a minute, must be there. */
    async faultsOfLog(killedAt: number): Promise<string[]> {
      const states = [...(await repository.list()), ...(await repository.listLog())];
      if (states.length === 0)
        return rowsBefore(killedAt - MINUTE_MS) > 0 ? ["there are old rows, and no state was copied"] : [];
      const manifest = await stateAt(repository, Number.MAX_SAFE_INTEGER);
      const { head, broken } = await headOf(manifest);
      const wanted = rowsBefore(Math.max(Date.parse(manifest.created_at), killedAt - MINUTE_MS));
      return head < wanted ? [...broken, `the newest state has ${head} rows instead of ${wanted}`] : broken;
    },
    async close() {
      stopped = true;
      await Promise.all([server?.kill(), ...clients]);
      rmSync(root, { recursive: true, force: true });
    },
  };
}
