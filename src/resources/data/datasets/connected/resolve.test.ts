// tier: all (real databases and stores)
import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { eq } from "drizzle-orm";
import { type TestApp, testApp, until } from "../../../../../test/harness.ts";
import { cuttingProxy } from "../../../../../test/servers/proxy.ts";
import { describeWith, nativeMinio } from "../../../../../test/servers/servers.ts";
import { events } from "../../../../events/table.ts";
import { sha256Bytes } from "../../../../platform/files.ts";
import { sweep } from "../stream/sweep.ts";
import { claim, failInterrupted } from "./resolve.ts";

const FLAGS = { "network.allow": ["127.0.0.1"] };

describeWith("a connected source in MinIO", nativeMinio, (server) => {
  let app: TestApp;
  let bucket: string;
  const credentials = {
    access_key_id: server.accessKeyId,
    secret_access_key: server.secretAccessKey,
    region: server.region,
  };
  const keys = { accessKeyId: server.accessKeyId, secretAccessKey: server.secretAccessKey };
  beforeEach(async () => {
    app = testApp({ flags: FLAGS });
    bucket = `b${crypto.randomUUID()}`;
    const client = new S3Client({
      endpoint: server.url,
      region: server.region,
      forcePathStyle: true,
      credentials: keys,
    });
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  });
  afterEach(() => app.close().then(app.remove));

  const put = (key: string, text: string) =>
    new Bun.S3Client({ ...keys, endpoint: server.url, region: server.region, bucket }).write(key, text);
  const source = (path = "rows", endpoint = server.url) => ({
    source_type: "s3",
    source_uri: `s3://${bucket}/${path}?endpoint=${endpoint}`,
  });
  const connect = async (endpoint = server.url) =>
    (await app.call("POST", "/v1/datasets/connect", { name: "c", ...source("rows", endpoint), credentials })).body
      .id as string;
  const resolve = async (id: string, given: object = credentials) => {
    const { body } = await app.call("POST", `/v1/datasets/${id}/resolutions`, { credentials: given });
    return until("the reading to end", async () => {
      const { body: now } = await app.call("GET", `/v1/datasets/${id}/resolutions/${body.id}`);
      return now.finished_at === null ? undefined : now;
    });
  };
  const exported = async (id: string, snapshot: string) =>
    (await app.call("GET", `/v1/datasets/${id}/rows/export?snapshot=${snapshot}`)).body as string;
  const rowsOf = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => `{"prompt":"row ${from + i}","big":12345678901234567890}\n`).join("");
  const files = () => readdirSync(join(app.dir, "datasets")).filter((name) => !/-(shm|wal)$/.test(name));

  test("is looked at without being created", async () => {
    await put("rows/a.jsonl", rowsOf(0, 3));
    const seen = await app.call("POST", "/v1/datasets/connect/validate", { ...source(), credentials });
    expect(seen).toMatchObject({
      status: 200,
      body: { valid: true, num_rows: 3, columns: ["prompt", "big"], error: null },
    });
    const wrong = { ...credentials, secret_access_key: "wrong-secret-key" };
    const refused = await app.call("POST", "/v1/datasets/connect/validate", { ...source(), credentials: wrong });
    expect(refused).toMatchObject({ status: 200, body: { valid: false, num_rows: 0, columns: [] } });
    expect(refused.body.error).not.toContain("wrong-secret-key");
    const missing = await app.call("POST", "/v1/datasets/connect/validate", { source_type: "s3" });
    expect(missing).toMatchObject({ status: 422, body: { error: { code: "schema", param: "/source_uri" } } });
    expect((await app.call("GET", "/v1/datasets")).body.data).toEqual([]);
  });

  test("is refused when it cannot be used, and taken without credentials when it only asks for them", async () => {
    await put("rows/a.jsonl", rowsOf(0, 1));
    const post = (more: object) => app.call("POST", "/v1/datasets/connect", { name: "c", ...source(), ...more });
    const wrong = { credentials: { ...credentials, secret_access_key: "wrong-secret-key" } };
    expect(await post(wrong)).toMatchObject({ status: 400, body: { error: { code: "source_unusable" } } });
    expect(await post({ ...source("nothing"), credentials })).toMatchObject({ status: 400 });
    expect(await post({})).toMatchObject({ status: 201, body: { source_type: "s3", num_rows: null, format: null } });
    await app.close();
    app = testApp({ dir: app.dir });
    expect(await post({ credentials })).toMatchObject({ status: 400, body: { error: { code: "url_not_allowed" } } });
  });

  test("becomes a snapshot of its own, which stays what it was", async () => {
    await put("rows/a.jsonl", rowsOf(0, 2));
    await put("rows/b.jsonl", rowsOf(2, 1));
    const id = await connect();
    expect((await app.call("GET", `/v1/datasets/${id}/rows`)).body.error.code).toBe("dataset_not_a_stream");
    expect(await resolve(id)).toMatchObject({ status: "completed", rows: 3, snapshot_id: "@snap-1", error: null });
    const first = await exported(id, "@snap-1");
    expect(first).toBe(rowsOf(0, 3));
    const shown = (await app.call("GET", `/v1/datasets/${id}/snapshots/@snap-1`)).body;
    expect(shown).toMatchObject({ head_row: 3, row_count: 3, sha256: sha256Bytes(first), trigger: "manual" });
    expect(await resolve(id)).toMatchObject({ status: "completed", snapshot_id: "@snap-1" });
    await put("rows/b.jsonl", rowsOf(7, 2));
    expect(await resolve(id)).toMatchObject({ snapshot_id: "@snap-2", rows: 4 });
    expect(await exported(id, "@snap-1")).toBe(first);
    expect(await exported(id, "@snap-2")).toBe(rowsOf(0, 2) + rowsOf(7, 2));
    expect((await app.call("GET", `/v1/datasets/${id}`)).body).toMatchObject({
      snapshot_count: 2,
      format: "prompt",
      latest_snapshot_id: "@snap-2",
      num_rows: null,
    });
    expect(app.ctx.db.select().from(events).where(eq(events.type, "dataset.snapshot_created")).all()).toHaveLength(2);
    const list = (await app.call("GET", `/v1/datasets/${id}/resolutions`)).body.data;
    expect(list.map((each: { status: string }) => each.status)).toEqual(["completed", "completed", "completed"]);
  });

  test("with a row that is none fails by its number and leaves nothing", async () => {
    await put("rows/a.jsonl", `${rowsOf(0, 2)}{"question":"x"}\n`);
    const id = await connect();
    const ended = await resolve(id);
    expect(ended).toMatchObject({ status: "failed", snapshot_id: null, error: { code: "invalid_rows" } });
    expect(ended.error.message).toStartWith("Row 3: prompt is missing");
    expect(files()).toEqual([]);
    expect((await resolve(id, {})).error).toMatchObject({ code: "unauthorized" });
  });

  test("cut off in the middle keeps what it has, and goes on from there when it is asked again", async () => {
    for (let i = 0; i < 12; i++) await put(`rows/${String(i).padStart(2, "0")}.jsonl`, rowsOf(i * 10_000, 10_000));
    using proxy = cuttingProxy(Number(new URL(server.url).port));
    const id = await connect(`http://127.0.0.1:${proxy.port}`);
    const whole = rowsOf(0, 120_000); // 6 MB: a reading keeps what it has after each 4 MiB
    proxy.cutAfter(Math.floor(whole.length * 0.8), { refuse: true });
    const cut = await resolve(id);
    expect(cut).toMatchObject({ status: "failed", error: { code: expect.stringMatching(/broken|unreachable/) } });
    expect(existsSync(join(app.dir, "datasets", `${id}.part`, "rows.db"))).toBe(true);
    proxy.cut({ refuse: false });
    const before = proxy.bytes;
    expect(await resolve(id)).toMatchObject({ status: "completed", rows: 120_000 });
    expect(proxy.bytes - before).toBeLessThan(whole.length * 0.75);
    expect((await exported(id, "@snap-1")) === whole).toBe(true);
    expect(files()).toEqual([`${id}.1.db`]);
  });

  test("that changed since it was cut off is read anew", async () => {
    for (let i = 0; i < 8; i++) await put(`rows/${i}.jsonl`, rowsOf(i * 12_500, 12_500));
    using proxy = cuttingProxy(Number(new URL(server.url).port));
    const id = await connect(`http://127.0.0.1:${proxy.port}`);
    proxy.cutAfter(4_700_000, { refuse: true });
    expect(await resolve(id)).toMatchObject({ status: "failed" });
    proxy.cut({ refuse: false });
    await put("rows/0.jsonl", rowsOf(1_000_000, 5));
    expect(await resolve(id)).toMatchObject({ status: "completed", rows: 87_505 });
    expect((await exported(id, "@snap-1")).slice(0, 300)).toStartWith('{"prompt":"row 1000000"');
  });

  test("is read for a job, which holds the snapshot", async () => {
    await put("rows/a.jsonl", rowsOf(0, 2));
    const id = await connect();
    const { snapshot } = await claim(app.ctx, app.workspaceA, id, { credentials, jobId: "job_1" });
    expect(snapshot).toMatchObject({ number: 1, trigger: "job_pin", jobId: "job_1", rowCount: 2 });
    expect((await app.call("DELETE", `/v1/datasets/${id}`)).status).toBe(400);
    const again = await claim(app.ctx, app.workspaceA, `${id}@snap-1`, { credentials: {}, jobId: "job_2" });
    expect(again.snapshot.number).toBe(1);
    const refused = claim(app.ctx, app.workspaceA, id, { credentials: {}, jobId: "job_3" });
    expect(await refused.catch((error) => error.code)).toBe("source_unusable");
  });

  test("is read on when one of two jobs that wait for it leaves", async () => {
    await put("rows/a.jsonl", rowsOf(0, 30_000));
    const id = await connect();
    const leave = new AbortController();
    const first = claim(app.ctx, app.workspaceA, id, { credentials, jobId: "job_1" });
    const second = claim(app.ctx, app.workspaceA, id, { credentials, jobId: "job_2", signal: leave.signal });
    leave.abort(new Error("job_2 was cancelled"));
    expect(await second.catch((error) => error.message)).toBe("job_2 was cancelled");
    expect((await first).snapshot).toMatchObject({ rowCount: 30_000, jobId: "job_1" });
    const late = claim(app.ctx, app.workspaceA, id, { credentials, jobId: "job_3", signal: leave.signal });
    expect(await late.catch((error) => error.message)).toBe("job_2 was cancelled");
  });

  test("is read no further once it is cancelled, or its dataset deleted", async () => {
    await put("rows/a.jsonl", rowsOf(0, 200_000));
    using proxy = cuttingProxy(Number(new URL(server.url).port));
    const id = await connect(`http://127.0.0.1:${proxy.port}`);
    const begin = async () =>
      (await app.call("POST", `/v1/datasets/${id}/resolutions`, { credentials })).body.id as string;
    const first = await begin();
    expect(await begin()).toBe(first); // joins it
    const path = `/v1/datasets/${id}/resolutions/${first}/cancel`;
    expect((await app.call("POST", path)).body).toMatchObject({ status: "cancelled", error: null });
    expect((await app.call("POST", path)).body.error.code).toBe("unsupported_state");
    await begin();
    await app.call("DELETE", `/v1/datasets/${id}`);
    await sweep(app.ctx);
    await until("no worker to be left", () => app.ctx.supervisor.live().length === 0);
    await sweep(app.ctx);
    expect(files()).toEqual([]);
  });

  test("that was being read when the server went away has failed, with what to do", async () => {
    await put("rows/a.jsonl", rowsOf(0, 2));
    const id = await connect();
    const { body } = await app.call("POST", `/v1/datasets/${id}/resolutions`, { credentials });
    await app.close();
    app = testApp({ dir: app.dir, flags: FLAGS });
    failInterrupted(app.ctx);
    const now = (await app.call("GET", `/v1/datasets/${id}/resolutions/${body.id}`)).body;
    expect(now).toMatchObject({ status: "failed", error: { code: "interrupted" } });
    expect(await resolve(id)).toMatchObject({ status: "completed", rows: 2 });
  });
});
