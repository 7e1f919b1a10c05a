// tier: all (sweeps of faults)
/** Invariants of datasets after any fault: heads, rows and events agree, and nothing acknowledged is lost. */
import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { failpoints } from "../../src/platform/failpoint.ts";
import { cut } from "../../src/resources/data/datasets/stream/snapshots.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { atEveryFailpoint, tempDir, testApp, until } from "../harness.ts";
import { sweep } from "../sweep.ts";
import { violations } from "./invariants.ts";

const dirs: string[] = [];
const fresh = () => {
  dirs.push(tempDir());
  return dirs.at(-1) as string;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

type Span = { first: number; last: number };
const BATCH = 50;
const ROUNDS = sweep({ quick: 2, full: 6 });

/** Rows 1 to the head, each batch whole, one event for each, and a snapshot's hash that its rows still have. */
function check(dir: string, told: Span[]) {
  expect(violations(dir)).toEqual([]);
  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const found = db.query("SELECT id, head_row FROM datasets").all() as { id: string; head_row: number }[];
  for (const { id, head_row } of found) {
    const events = db
      .query("SELECT data FROM events WHERE type = 'dataset.rows_appended' AND subject_id = ? ORDER BY seq")
      .all(id) as { data: string }[];
    const spans = events.map(({ data }) => JSON.parse(data) as { first_row_id: number; last_row_id: number });
    expect(spans.map(({ first_row_id }) => first_row_id)).toEqual(spans.map((_, i) => i * BATCH + 1));
    expect(spans.at(-1)?.last_row_id ?? 0).toBe(head_row);
    expect(told.filter(({ last }) => last > head_row)).toEqual([]);
    if (head_row === 0) continue;
    const rows = new Database(join(dir, "datasets", `${id}.db`));
    const blocks = rows.query("SELECT * FROM blocks WHERE first_row <= ? ORDER BY first_row").all(head_row) as {
      first_row: number;
      rows: number;
      body: Uint8Array;
    }[];
    const lines = blocks.flatMap(({ body }) => new TextDecoder().decode(body).trimEnd().split("\n"));
    expect(blocks.reduce((next, block) => (block.first_row === next ? next + block.rows : Number.NaN), 1)).toBe(
      head_row + 1,
    );
    expect(lines).toHaveLength(head_row);
    for (let at = 0; at < lines.length; at += BATCH) {
      const batch = lines.slice(at, at + BATCH).map((line) => JSON.parse(line) as { tag: string; k: number });
      expect(batch.map(({ k }) => k)).toEqual(Array.from({ length: BATCH }, (_, k) => k));
      expect(new Set(batch.map(({ tag }) => tag)).size).toBe(1);
    }
    rows.close();
  }
  db.close();
}

const batchOf = (tag: string) =>
  Array.from({ length: BATCH }, (_, k) => JSON.stringify({ prompt: "x".repeat(200), tag, k })).join("\n");

test("a crash at every failpoint of an append, a snapshot and an upload leaves all or nothing, and the next one works", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const dir = fresh();
    const app = testApp({ dir });
    const headers = { "content-type": "application/x-ndjson" };
    const id = (await app.call("POST", "/v1/datasets", { name: "s", format: "prompt" })).body.id as string;
    const told: Span[] = [];
    const append = async (on: typeof app, tag: string) => {
      const answer = await on.call("POST", `/v1/datasets/${id}/rows`, undefined, { raw: batchOf(tag), headers });
      if (answer.status === 201) told.push({ first: answer.body.first_row_id, last: answer.body.last_row_id });
      return answer.status;
    };
    const upload = (on: typeof app) => {
      const form = new FormData();
      form.append("name", "up");
      form.append("file", new File(['{"prompt":"a"}\n'], "a"));
      return on.call("POST", "/v1/datasets", undefined, { raw: form });
    };
    expect(await append(app, "before")).toBe(201);
    await attempt(async () => {
      await append(app, "during");
      await app.call("POST", `/v1/datasets/${id}/snapshots`);
      await upload(app);
    });
    await app.close().catch(() => {});
    const again = testApp({ dir });
    expect(await append(again, "after")).toBe(201);
    const snapshot = (await again.call("POST", `/v1/datasets/${id}/snapshots`)).body;
    const out = await again.call("GET", `/v1/datasets/${id}/rows/export`);
    expect(new Bun.CryptoHasher("sha256").update(out.body).digest("hex")).toBe(snapshot.sha256);
    expect([200, 201]).toContain((await upload(again)).status);
    await again.close();
    const uploaded = new Database(join(dir, "verk.db"), { readonly: true });
    uploaded.run("PRAGMA query_only = ON");
    expect(uploaded.query("SELECT count(*) AS n FROM datasets WHERE content_sha256 IS NOT NULL").get()).toEqual({
      n: 1,
    });
    uploaded.close();
    checkStream(dir, id, told);
  });
  expect(crashes).toBeGreaterThan(10);
}, 120_000);

/** The stream alone: an upload has no append events. */
function checkStream(dir: string, id: string, told: Span[]) {
  const db = new Database(join(dir, "verk.db"));
  db.run("DELETE FROM datasets WHERE id <> ? AND id NOT IN (SELECT dataset_id FROM dataset_snapshots)", [id]);
  db.run("DELETE FROM events WHERE type = 'dataset.created' AND subject_id NOT IN (SELECT id FROM datasets)");
  db.close();
  check(dir, told);
}

test("a lost commit loses its rows: the next append succeeds, and no snapshot has the lost rows", async () => {
  const app = testApp({ dir: fresh() });
  const id = (await app.call("POST", "/v1/datasets", { name: "s", format: "prompt" })).body.id as string;
  const append = (prompt: string) => app.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt }] });
  expect((await append("first")).status).toBe(201);
  let cutting: Promise<unknown> | undefined;
  failpoints.hit = (name) => {
    if (name === "datasets.before_head")
      queueMicrotask(() => {
        cutting = cut(app.ctx, id, { trigger: "auto" }).catch(() => {});
      });
    if (name !== "db.before_commit" || !cutting) return;
    delete failpoints.hit;
    throw Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
  };
  expect((await append("lost")).body.error).toMatchObject({ code: "storage_unavailable" });
  await cutting;
  expect((await append("second")).body).toMatchObject({ first_row_id: 2, head_row: 2 });
  const { sha256, row_count } = (await app.call("POST", `/v1/datasets/${id}/snapshots`)).body;
  const out = (await app.call("GET", `/v1/datasets/${id}/rows/export`)).body;
  expect(out).toBe('{"prompt":"first"}\n{"prompt":"second"}\n');
  expect({ sha256, row_count }).toEqual({
    sha256: new Bun.CryptoHasher("sha256").update(out).digest("hex"),
    row_count: 2,
  });
  await app.close();
});

test("after a failed flush a dataset accepts no rows until it is reopened, and shows its earlier rows", async () => {
  const dir = fresh();
  const append = (on: ReturnType<typeof testApp>, prompt: string) =>
    on.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt }] });
  const app = testApp({ dir });
  const id = (await app.call("POST", "/v1/datasets", { name: "s", format: "prompt" })).body.id as string;
  expect((await append(app, "first")).status).toBe(201);
  failpoints.hit = (name) => {
    if (name !== "rows.before_flush") return;
    delete failpoints.hit;
    throw Object.assign(new Error("input/output error"), { code: "EIO" });
  };
  for (const prompt of ["lost", "refused"])
    expect(await append(app, prompt)).toMatchObject({ status: 503, body: { error: { code: "storage_unavailable" } } });
  expect((await app.call("GET", `/v1/datasets/${id}/rows/export`)).body).toBe('{"prompt":"first"}\n');
  await app.close();
  const again = testApp({ dir });
  expect((await append(again, "second")).body).toMatchObject({ first_row_id: 2 });
  expect((await again.call("GET", `/v1/datasets/${id}/rows/export`)).body).toBe(
    '{"prompt":"first"}\n{"prompt":"second"}\n',
  );
  await again.close();
});

test("killed at any moment while sixteen clients append: ids without a gap, whole batches, one event each", async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const dir = fresh();
    const { key } = await makeKey(dir);
    const server = await startBinary({ dir });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const made = await fetch(`${server.url}/v1/datasets`, {
      method: "POST",
      headers,
      body: JSON.stringify({ name: "s", format: "prompt", auto_snapshot_rows: 500 }),
    });
    const { id } = (await made.json()) as { id: string };
    const told: Span[] = [];
    const clients = Array.from({ length: 16 }, async (_, client) => {
      for (let i = 0; ; i++) {
        const answer = await fetch(`${server.url}/v1/datasets/${id}/rows`, {
          method: "POST",
          headers: { ...headers, "content-type": "application/x-ndjson" },
          body: batchOf(`${client}-${i}`),
        });
        const body = (await answer.json()) as { first_row_id: number; last_row_id: number };
        if (answer.status !== 201) throw new Error(JSON.stringify(body));
        told.push({ first: body.first_row_id, last: body.last_row_id });
      }
    }).map((client) => client.catch(() => {}));
    await until("the load to run", () => told.length >= 40 + (round * 78) / ROUNDS);
    await server.kill("SIGKILL");
    await Promise.all(clients);
    check(dir, told);
    const again = await startBinary({ dir });
    const answer = await fetch(`${again.url}/v1/datasets/${id}/rows`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/x-ndjson" },
      body: batchOf("again"),
    });
    expect(answer.status).toBe(201);
    const body = (await answer.json()) as { first_row_id: number; last_row_id: number };
    told.push({ first: body.first_row_id, last: body.last_row_id });
    await again.kill("SIGTERM");
    check(dir, told);
  }
}, 120_000);

test("killed in the middle of an upload: after the next start nothing of the upload is left", async () => {
  const dir = fresh();
  const { key } = await makeKey(dir);
  const server = await startBinary({ dir });
  const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
  const piece = new TextEncoder().encode('{"prompt":"some text that fills the line"}\n'.repeat(5000));
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(head)),
    pull: (controller) => controller.enqueue(piece),
  });
  const sending = fetch(`${server.url}/v1/datasets`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "multipart/form-data; boundary=b" },
    body,
  }).catch(() => undefined);
  const files = () => readdirSync(join(dir, "datasets"));
  await until("the upload to reach the disk", () => files().length > 0);
  await server.kill("SIGKILL");
  await sending;
  expect(files().length).toBeGreaterThan(0);
  const again = await startBinary({ dir });
  expect(files()).toEqual([]);
  await again.kill("SIGTERM");
  expect(violations(dir)).toEqual([]);
});
