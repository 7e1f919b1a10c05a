// tier: all (sweeps of faults)
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { cpSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Stopped, startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { randomFor, SEED, sweep } from "../sweep.ts";
import { violations } from "./invariants.ts";

/** Every failpoint in a full sweep; in a quick one every eighth, from another one in each run. */
const STRIDE = sweep({ quick: 8, full: 1 });
const firstOf = (use: string) => 1 + Math.floor(randomFor(use)() * STRIDE);
const ROUNDS = sweep({ quick: 1, full: 12 });

let dir = "";
const tidy = () => rmSync(dir, { recursive: true, force: true });
/** One at a time: a server unpacks what it carries, and there are hundreds of them here. */
const fresh = () => {
  tidy();
  dir = tempDir();
};
afterEach(tidy);

/** A data directory with one admin key. It is made once and copied, because a key takes a process to make. */
const template = tempDir();
let key = "";
beforeAll(async () => {
  key = (await makeKey(template, "--scope", "admin")).key;
}, 60_000);
afterAll(() => rmSync(template, { recursive: true, force: true }));
const freshWithKey = () => {
  fresh();
  cpSync(template, dir, { recursive: true });
};

type Server = Awaited<ReturnType<typeof startBinary>>;
/** Changes that the server acknowledged to a client. A change without an answer is in none of these. */
type Acknowledged = {
  workspaces: string[];
  revoked: string[];
  secrets: Map<string, string>;
  files: string[];
  /** Uploads with one part, and those that were completed. */
  uploads: string[];
  completed: string[];
  batches: string[];
};
const nothing = (): Acknowledged => ({
  workspaces: [],
  revoked: [],
  secrets: new Map(),
  files: [],
  uploads: [],
  completed: [],
  batches: [],
});

async function call(server: Server, key: string, method: string, path: string, body?: object) {
  const isForm = body instanceof FormData;
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(isForm ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  const answer = (await response.json()) as { id: string };
  if (!response.ok) throw new Error(`${method} ${path} → ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** A client at work until the server dies under it. Only what was acknowledged is written down. */
async function work(server: Server, key: string, acknowledged: Acknowledged, tag: string, rounds: number) {
  for (let i = 0; i < rounds; i++) {
    const { id } = await call(server, key, "POST", "/v1/workspaces", { name: `${tag}-${i}` });
    acknowledged.workspaces.push(id);
    const made = await call(server, key, "POST", "/v1/api_keys", { name: `${tag}-${i}` });
    await call(server, key, "DELETE", `/v1/api_keys/${made.id}`);
    acknowledged.revoked.push(made.id);
    const value = `${tag}-${i}`;
    const secret = `S_${tag.replaceAll(/\W/g, "_").toUpperCase()}`;
    const stored = await call(server, key, "PUT", `/v1/secrets/${secret}`, { value });
    acknowledged.secrets.set(stored.id, value);
    const file = await call(server, key, "POST", "/v1/files", batchFile(`${tag}-${i}`));
    acknowledged.files.push(file.id);
    const parts = { filename: tag, purpose: "user_data", bytes: value.length, mime_type: "text/plain" };
    const upload = await call(server, key, "POST", "/v1/uploads", parts);
    const data = new FormData();
    data.set("data", new File([value], "blob"));
    const part = await call(server, key, "POST", `/v1/uploads/${upload.id}/parts`, data);
    acknowledged.uploads.push(upload.id);
    await call(server, key, "POST", `/v1/uploads/${upload.id}/complete`, { part_ids: [part.id] });
    acknowledged.completed.push(upload.id);
    const batch = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    acknowledged.batches.push((await call(server, key, "POST", "/v1/batches", batch)).id);
  }
}

/** No deployment has the name of the model: each line becomes a line of the file of errors. */
function batchFile(name: string): FormData {
  const lines = [1, 2].map((n) => {
    const body = { model: "absent", messages: [{ role: "user", content: name }] };
    return JSON.stringify({ custom_id: `${name}-${n}`, method: "POST", url: "/v1/chat/completions", body });
  });
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new File([lines.join("\n")], `${name}.jsonl`));
  return form;
}

function check(dir: string, acknowledged: Acknowledged) {
  expect(violations(dir)).toEqual([]);
  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const ids = (sql: string) => new Set((db.query(sql).all() as { id: string }[]).map((row) => row.id));
  const workspaces = ids("SELECT id FROM workspaces");
  const revoked = ids("SELECT id FROM api_keys WHERE status = 'revoked'");
  const secrets = ids("SELECT id FROM secrets");
  expect(acknowledged.workspaces.filter((id) => !workspaces.has(id))).toEqual([]);
  expect(acknowledged.revoked.filter((id) => !revoked.has(id))).toEqual([]);
  expect([...acknowledged.secrets.keys()].filter((id) => !secrets.has(id))).toEqual([]);
  const [files, batches] = [ids("SELECT id FROM client_files"), ids("SELECT id FROM inference_batches")];
  expect(acknowledged.files.filter((id) => !files.has(id))).toEqual([]);
  const completed = ids("SELECT u.id FROM uploads u JOIN client_files f ON f.id = u.target_id WHERE u.status = 'used'");
  const withPart = ids("SELECT upload_id AS id FROM upload_parts");
  expect(acknowledged.uploads.filter((id) => !completed.has(id) && !withPart.has(id))).toEqual([]);
  expect(acknowledged.completed.filter((id) => !completed.has(id))).toEqual([]);
  expect(acknowledged.batches.filter((id) => !batches.has(id))).toEqual([]);
  expect(db.query("SELECT id FROM inference_batches WHERE completed + failed > total").all()).toEqual([]);
  db.close();
}

/** Every process that names the data directory: after a kill there must be none. */
function survivors(dir: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(dir);
    } catch {
      return false;
    }
  });
}

test(`killed at each failpoint: no acknowledged change is lost, and no event exists without its change (seed ${SEED})`, async () => {
  let kills = 0;
  for (let n = firstOf("failpoints of the server"); ; n += STRIDE) {
    freshWithKey();
    const acknowledged = nothing();
    let died = false;
    try {
      const server = await startBinary({ dir, env: { VERK_FAILPOINT: `*:${n}` } });
      await work(server, key, acknowledged, "sweep", 2).catch(() => {});
      if (server.child.exitCode === null && server.child.signalCode === null) await server.kill("SIGTERM");
      died = (await server.exited).signal === "SIGKILL";
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
      died = true; // killed while it started
    }
    await until("no process to be left", () => survivors(dir).length === 0);
    check(dir, acknowledged);
    const again = await startBinary({ dir });
    await work(again, key, acknowledged, "again", 1);
    await again.kill("SIGTERM");
    check(dir, acknowledged);
    if (!died) break;
    kills++;
  }
  expect(kills).toBeGreaterThan(Math.floor(20 / STRIDE));
}, 900_000);

test(`killed at each failpoint of its very first start, the server starts the next time (seed ${SEED})`, async () => {
  let kills = 0;
  for (let [n, died] = [firstOf("failpoints of the first start"), true]; died; n += STRIDE) {
    fresh();
    try {
      const server = await startBinary({ dir, env: { VERK_FAILPOINT: `*:${n}` } });
      died = (await server.kill("SIGTERM")).signal === "SIGKILL";
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
    }
    const again = await startBinary({ dir });
    const { key } = await makeKey(dir, "--scope", "admin");
    await work(again, key, nothing(), "first", 1);
    await again.kill("SIGTERM");
    expect(violations(dir)).toEqual([]);
    if (died) kills++;
  }
  expect(kills).toBeGreaterThan(Math.floor(12 / STRIDE));
}, 600_000);

test("R6: killed at any moment under load: no acknowledged change is lost, and every file has its row", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    freshWithKey();
    const acknowledged = nothing();
    const server = await startBinary({ dir });
    const clients = Array.from({ length: 16 }, (_, i) =>
      work(server, key, acknowledged, `c${i}`, 1000).catch(() => {}),
    );
    await until("the load to run", () => acknowledged.batches.length >= 10 + (round * 84) / ROUNDS);
    await server.kill("SIGKILL");
    await Promise.all(clients);
    await until("no process to be left", () => survivors(dir).length === 0);
    check(dir, acknowledged);
  }
}, 300_000);
