import { afterEach, expect, test } from "bun:test";
import { atEveryFailpoint, fakeClock, manyApps, type TestApp, until } from "../../../../test/harness.ts";
import { createHandler } from "../../../http/server.ts";
import { mainPort } from "../../../routes.ts";
import { prune } from "./service.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const logOf = async (app: TestApp, query = "", key = app.keyA) =>
  (await app.call("GET", `/v1/account/audit_log${query}`, undefined, { key })).body;

test("a call that changes something is in the log, with who, what, when and its result", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const made = await app.call("POST", "/v1/volumes", { name: "data" }, { headers: { "x-request-id": "req-7" } });
  const { data, has_more } = await logOf(app);
  expect(has_more).toBe(false);
  expect(data).toEqual([
    {
      object: "audit_log.entry",
      id: expect.stringMatching(/^aud_/),
      created_at: "2026-01-01T00:00:00.000Z",
      key: { id: expect.stringMatching(/^key_/), name: "test" },
      user: null,
      method: "POST",
      route: "/v1/volumes",
      resource_ids: { created: made.body.id },
      address: null,
      status: 201,
      request_id: "req-7",
    },
  ]);
});

test("what stands in a route's places is told by name, with files, secrets and refusals", async () => {
  const app = open();
  await app.call("PUT", "/v1/secrets/TOKEN", { value: "s3cr3t-value" });
  await app.call("POST", "/v1/volumes", { name: "data" });
  await app.call("PUT", "/v1/volumes/data/files/a/b.txt", undefined, { raw: "s3cr3t-file" });
  await app.call("DELETE", "/v1/volumes/none");
  await app.call("POST", "/v1/volumes", { name: "s3cr3t NAME" });
  const { data } = await until("the refused ones to be written", async () => {
    const answer = await logOf(app);
    return answer.data.length === 5 && answer;
  });
  const told = data.map((entry: Record<string, unknown>) => [entry["method"], entry["route"], entry["status"]]);
  expect(told).toEqual([
    ["POST", "/v1/volumes", 422],
    ["DELETE", "/v1/volumes/{name}", 404],
    ["PUT", "/v1/volumes/{name}/files/{path}", 201],
    ["POST", "/v1/volumes", 201],
    ["PUT", "/v1/secrets/{name}", 201],
  ]);
  expect(data[2].resource_ids).toEqual({ name: "data", path: "a/b.txt" });
  expect(JSON.stringify(app.ctx.db.$client.query("SELECT * FROM audit_log").all())).not.toContain("s3cr3t");
});

test("reads, inference and strangers leave no entry", async () => {
  const app = open();
  await app.call("GET", "/v1/volumes");
  await app.call("POST", "/v1/volumes", { name: "x" }, { key: null });
  await app.call("POST", "/v1/volumes", { name: "x" }, { key: "vk_nonsense" });
  await app.call("POST", "/v1/chat/completions", { model: "none", messages: [{ role: "user", content: "hi" }] });
  expect((await logOf(app)).data).toEqual([]);
});

test("what is only named as inference is has its entry", async () => {
  const app = open();
  for (const name of ["completions", "embeddings"]) {
    await app.call("POST", "/v1/volumes", { name });
    await app.call("PUT", `/v1/volumes/${name}/files/chat/completions`, undefined, { raw: "a" });
    await app.call("DELETE", `/v1/volumes/${name}`);
  }
  expect((await logOf(app)).data).toHaveLength(6);
});

test("a key that was revoked or is too old is in the log of its workspace when it tries", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const { key, row } = app.keyOf("alpha", ["*"]);
  await app.call("DELETE", `/v1/api_keys/${row.id}`);
  expect((await app.call("POST", "/v1/volumes", { name: "x" }, { key })).status).toBe(401);
  expect((await app.call("GET", "/v1/volumes", undefined, { key })).status).toBe(401);
  const { data } = await until("the entry", async () => {
    const answer = await logOf(app);
    return answer.data.length > 1 && answer;
  });
  expect(data[0]).toMatchObject({ status: 401, route: "/v1/volumes", key: { id: row.id }, method: "POST" });
  expect(data).toHaveLength(2);
});

test("a narrow key that tries is in the log; whoever sends too much is not", async () => {
  const app = open({ flags: { "http.rate_limit_per_second": 0.001, "http.rate_limit_burst": 1 } });
  const { key, row } = app.keyOf("alpha", ["read"]);
  for (const status of [403, 429]) {
    const answer = await app.call("POST", "/v1/volumes", { name: "x" }, { key });
    expect(answer.status).toBe(status);
  }
  const { data } = await until("the entry", async () => {
    const answer = await logOf(app);
    return answer.data?.length > 0 && answer;
  });
  expect(data.map((entry: { status: number; key: { id: string } }) => [entry.status, entry.key.id])).toEqual([
    [403, row.id],
  ]);
});

test("a workspace sees its own entries alone, page by page, or those of one key", async () => {
  const app = open();
  const other = app.keyOf("alpha", ["*"]);
  for (const name of ["a", "b", "c"]) await app.call("POST", "/v1/volumes", { name });
  await app.call("POST", "/v1/volumes", { name: "d" }, { key: other.key });
  await app.call("POST", "/v1/volumes", { name: "e" }, { key: app.keyB });
  const first = await logOf(app, "?limit=3");
  expect([first.data.length, first.has_more]).toEqual([3, true]);
  const rest = await logOf(app, `?limit=3&after=${first.data[2].id}`);
  expect([rest.data.length, rest.has_more]).toEqual([1, false]);
  expect((await logOf(app, `?key_id=${other.row.id}`)).data).toHaveLength(1);
  const foreign = (await logOf(app, "", app.keyB)).data[0].id;
  const behind = await logOf(app, `?after=${foreign}`); // only a position: no entry of the other workspace
  expect(behind.data.every((entry: { id: string }) => entry.id < foreign)).toBe(true);
});

test("wherever it crashes, a change that was acknowledged has its entry, and an entry its change", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    let acknowledged = false;
    await attempt(async () => {
      acknowledged = (await app.call("POST", "/v1/volumes", { name: "data" })).status === 201;
    });
    await app.close();
    const after = open({ dir: app.dir }); // as a restart would
    const volumes = (await after.call("GET", "/v1/volumes")).body.data.length;
    expect([volumes, (await logOf(after)).data.length]).toEqual([volumes, volumes]);
    if (acknowledged) expect(volumes).toBe(1);
  });
  expect(crashes).toBeGreaterThan(2);
});

test("entries older than the retention go, of every workspace", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "audit.retention_days": 30 } });
  await app.call("POST", "/v1/volumes", { name: "a" });
  await app.call("POST", "/v1/volumes", { name: "b" }, { key: app.keyB });
  clock.advance(20 * 86_400_000);
  await app.call("POST", "/v1/volumes", { name: "c" });
  clock.advance(11 * 86_400_000);
  await prune(app.ctx);
  expect((await logOf(app)).data.map((entry: { created_at: string }) => entry.created_at)).toEqual([
    "2026-01-21T00:00:00.000Z",
  ]);
  expect((await logOf(app, "", app.keyB)).data).toEqual([]);
});

test("the address is the connection's, or what a trusted proxy says", async () => {
  const app = open({ flags: { "http.trusted_proxies": ["127.0.0.1"] } });
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: createHandler(app.ctx, mainPort(app.ctx)) });
  app.ctx.state.http.listener = server;
  for (const [name, forwarded] of [
    ["a", ""],
    ["b", "1.2.3.4, 198.51.100.7"],
  ] as const)
    await fetch(`${server.url.origin}/v1/volumes`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${app.keyA}`,
        "content-type": "application/json",
        ...(forwarded === "" ? {} : { "x-forwarded-for": forwarded }),
      },
      body: JSON.stringify({ name }),
    });
  await server.stop(true);
  const { data } = await logOf(app);
  expect(data.map((entry: { address: string }) => entry.address)).toEqual(["198.51.100.7", "127.0.0.1"]);
});

test("what comes by a signed address counts for the key that asked for it, without the signature", async () => {
  const app = open();
  await app.call("POST", "/v1/volumes", { name: "data" });
  const { body } = await app.call("POST", "/v1/volumes/data/upload-url", { path: "a.txt" });
  const { pathname, search } = new URL(body.url);
  expect((await app.call("PUT", pathname + search, undefined, { key: null, raw: "a" })).status).toBe(201);
  const [last, asked] = (await logOf(app)).data;
  expect([last.route, last.status, last.key]).toEqual(["/v1/volumes/{name}/uploads/{id}", 201, asked.key]);
  const signature = new URLSearchParams(search);
  const kept = JSON.stringify(app.ctx.db.$client.query("SELECT * FROM audit_log").all());
  for (const value of signature.values()) if (value.length > 30) expect(kept).not.toContain(value);
});
