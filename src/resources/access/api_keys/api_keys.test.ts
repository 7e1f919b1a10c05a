import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { SCOPES } from "../../../context.ts";
import { events } from "../../../events/table.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { durable } from "../../../platform/db/db.ts";
import { recordUses } from "./authenticate.ts";
import { mintKey } from "./key_text.ts";
import { prune } from "./prune.ts";
import * as keys from "./service.ts";

const clock = fakeClock();
let app: TestApp;
beforeEach(() => {
  app = testApp({ clock });
});
afterEach(() => app.close().then(app.remove));

const create = (json: object, key = app.keyA) => app.call("POST", "/v1/api_keys", { name: "ci", ...json }, { key });
const codeOf = async (key: string | null) =>
  (await app.call("GET", "/v1/api_keys", undefined, { key })).body.error?.code;

describe("a new key", () => {
  test("is shown once, works at once, and is stored as a hash", async () => {
    const { status, body } = await create({ metadata: { used_by: "ci" } });
    expect(status).toBe(201);
    expect(body).toMatchObject({ object: "api_key", name: "ci", scopes: ["*"], last_used_at: null });
    expect(body.key.startsWith(body.key_prefix)).toBe(true);
    expect(await codeOf(body.key)).toBeUndefined();
    const list = await app.call("GET", "/v1/api_keys");
    expect(JSON.stringify(list.body)).not.toContain(body.key);
    const files = ["verk.db", "verk.db-wal"].map((name) => readFileSync(join(app.dir, name), "latin1")).join("");
    expect(files).toContain(body.key_prefix);
    expect(files).not.toContain(body.key);
    expect(app.log.join("")).not.toContain(body.key);
  });

  test("has no more scopes than the key that makes it", async () => {
    expect(await create({ scopes: ["admin"] })).toMatchObject({ status: 403, body: { error: { param: "/scopes" } } });
    const narrow = (await create({ scopes: ["training", "read"] })).body.key;
    expect(await create({ scopes: ["training"] }, narrow)).toMatchObject({
      status: 403,
      body: { error: { code: "missing_scope" } },
    });
    expect((await create({ scopes: ["admin"] }, app.adminKey)).status).toBe(201);
  });

  test("expires after a year unless its maker names another end, or none", async () => {
    const year = new Date(clock.now() + 365 * DAY_MS).toISOString();
    const end = new Date(clock.now() + DAY_MS).toISOString();
    expect((await create({})).body.expires_at).toBe(year);
    expect((await create({ expires_at: end })).body.expires_at).toBe(end);
    expect((await create({ expires_at: null })).body.expires_at).toBeNull();
    const { key } = (await create({})).body;
    clock.advance(365 * DAY_MS - 1);
    expect(await codeOf(key)).toBeUndefined();
    clock.advance(1);
    expect(await codeOf(key)).toBe("revoked_api_key");
    expect(await codeOf(app.keyA)).toBeUndefined(); // it was made without an end
  });

  test("lives as long as the setting says, and with 0 for ever", async () => {
    for (const [days, ends] of [
      [90, new Date(clock.now() + 90 * DAY_MS).toISOString()],
      [0, null],
    ] as const) {
      const other = testApp({ clock, flags: { "api_keys.life_days": days } });
      const { body } = await other.call("POST", "/v1/api_keys", { name: "ci" }, { key: other.keyA });
      expect(body.expires_at).toBe(ends);
      await other.close().then(other.remove);
    }
  });

  test("of an empty installation does not expire, so that its owner is not locked out", () => {
    const input = { name: "first", scopes: ["admin" as const], monthly_budget_usd: null, metadata: {} };
    const { expiresAt } = keys.create(app.ctx, app.workspaceA, input).row;
    expect(expiresAt).toBe(clock.now() + 365 * DAY_MS);
    app.ctx.db.$client.run("DELETE FROM api_keys");
    expect(keys.create(app.ctx, app.workspaceA, input).row.expiresAt).toBeNull();
  });

  test("ends no later and spends no more than the key that makes it", async () => {
    const ends = new Date(clock.now() + 60_000).toISOString();
    const parent = (await create({ expires_at: ends, monthly_budget_usd: 5 })).body.key;
    const child = await create({}, parent);
    expect(child.body).toMatchObject({ expires_at: ends, monthly_budget_usd: 5 });
    const later = new Date(clock.now() + 120_000).toISOString();
    expect(await create({ expires_at: later }, parent)).toMatchObject({
      status: 403,
      body: { error: { param: "/expires_at" } },
    });
    expect(await create({ monthly_budget_usd: 6 }, parent)).toMatchObject({
      status: 403,
      body: { error: { param: "/monthly_budget_usd" } },
    });
    expect(
      (await create({ expires_at: new Date(clock.now() + 1000).toISOString(), monthly_budget_usd: 1 }, parent)).status,
    ).toBe(201);
  });

  test("gets no more urgent priority than the key that makes it, also by a rotation", async () => {
    const parent = (await create({ priority: "batch" })).body.key;
    const made = await Promise.all(
      [{}, { priority: "interactive" }, { priority: "rollout" }].map((more) => create(more, parent)),
    );
    expect(made.map(({ body }) => body.priority)).toEqual(["batch", "batch", "rollout"]);
    expect((await create({})).body.priority).toBeNull();
    const { body } = await app.call("POST", `/v1/api_keys/${made[2]!.body.id}/rotate`, {}, { key: parent });
    expect(body.priority).toBe("rollout");
  });

  test.each([
    [{ name: "" }, "/name"],
    [{ scopes: [] }, "/scopes"],
    [{ scopes: ["root"] }, "/scopes/0"],
    [{ expires_at: "tomorrow" }, "/expires_at"],
    [{ expires_at: "2020-01-01T00:00:00Z" }, "/expires_at"],
    [{ monthly_budget_usd: -1 }, "/monthly_budget_usd"],
  ])("with %p is refused, and says where", async (json, param) => {
    expect(await create(json)).toMatchObject({ status: 422, body: { error: { type: "validation_error", param } } });
  });
});

test("each way of not being let in has its code", async () => {
  expect(await codeOf(null)).toBe("missing_api_key");
  for (const key of ["nonsense", mintKey(), `${app.keyA}x`]) expect(await codeOf(key)).toBe("invalid_api_key");
  const soon = (await create({ expires_at: new Date(clock.now() + 1000).toISOString() })).body;
  expect(await codeOf(soon.key)).toBeUndefined();
  clock.advance(1000);
  expect(await codeOf(soon.key)).toBe("revoked_api_key");
  const basic = await app.call("GET", "/v1/api_keys", undefined, {
    key: null,
    headers: { authorization: "Basic abc" },
  });
  expect(basic.body.error.code).toBe("invalid_api_key");
});

test("a revoked key stops at once, leaves the list, and revoking again changes nothing", async () => {
  const { id, key } = (await create({})).body;
  for (let i = 0; i < 2; i++)
    expect((await app.call("DELETE", `/v1/api_keys/${id}`)).body).toEqual({ id, object: "api_key", deleted: true });
  expect(await codeOf(key)).toBe("revoked_api_key");
  const list = await app.call("GET", "/v1/api_keys");
  expect(list.body.data.map((item: { id: string }) => item.id)).not.toContain(id);
  const revoked = app.ctx.db
    .select()
    .from(events)
    .all()
    .filter((e) => e.type === "api_key.revoked");
  expect(revoked.map((e) => e.subjectId)).toEqual([id]);
});

test("P14 list active keys: an expired key leaves the list", async () => {
  const { id } = (await create({ expires_at: new Date(clock.now() + 1000).toISOString() })).body;
  const ids = async () => (await app.call("GET", "/v1/api_keys")).body.data.map((item: { id: string }) => item.id);
  clock.advance(999);
  expect(await ids()).toContain(id);
  clock.advance(1);
  expect(await ids()).not.toContain(id);
});

test("another workspace's key is not there", async () => {
  const { id, key } = (await create({})).body;
  expect((await app.call("DELETE", `/v1/api_keys/${id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect(await codeOf(key)).toBeUndefined();
});

test("P5 last_used_at, conformance 14 (decided): null before the first use, and written by a loop, not by the request", async () => {
  const { id, key, last_used_at } = (await create({})).body;
  expect(last_used_at).toBeNull();
  clock.advance(5000);
  await app.call("GET", "/v1/api_keys", undefined, { key });
  recordUses(app.ctx);
  const item = (await app.call("GET", "/v1/api_keys")).body.data.find((k: { id: string }) => k.id === id);
  expect(item.last_used_at).toBe(new Date(clock.now()).toISOString());
});

test("scopes are a short list without repetitions, and a budget is at least what can be counted", async () => {
  expect((await create({ scopes: ["read", "read"] })).body.scopes).toEqual(["read"]);
  expect((await create({ scopes: Array(SCOPES.length + 1).fill("read") })).body.error.param).toBe("/scopes");
  expect((await create({ monthly_budget_usd: 1e-9 })).body.error?.param).toBe("/monthly_budget_usd");
  expect((await create({ monthly_budget_usd: 1e-6 })).body.monthly_budget_usd).toBe(1e-6);
});

test("a key revoked by another process is refused within a second, also when the clock is set back", async () => {
  await durable(app.ctx.db); // or the other process would meet our open commit
  expect(await codeOf(app.keyA)).toBeUndefined();
  await new Promise(setImmediate); // the reads of one turn share a snapshot
  const elsewhere = new Database(join(app.dir, "verk.db"));
  elsewhere.run("UPDATE api_keys SET status = 'revoked'");
  elsewhere.close();
  clock.advance(-60_000);
  expect(await codeOf(app.keyA)).toBe("revoked_api_key");
  clock.advance(60_000);
});

test("D15 keys that were revoked 400 days ago are removed, except the first and those whose budget others share", async () => {
  const first = app.ctx.db.$client
    .query<{ id: string }, []>("SELECT id FROM api_keys ORDER BY created_at, id")
    .get()?.id;
  const [gone, shared, young] = [(await create({})).body, (await create({})).body, (await create({})).body];
  for (const { id } of [gone, shared]) await app.call("DELETE", `/v1/api_keys/${id}`);
  const client = app.ctx.db.$client;
  client.run("UPDATE api_keys SET budget_key_id = ? WHERE id = ?", [shared.id, young.id]);
  client.run("UPDATE api_keys SET status = 'revoked', revoked_at = 1 WHERE id = ?", [first ?? ""]);
  clock.advance(399 * DAY_MS);
  await app.call("DELETE", `/v1/api_keys/${young.id}`, undefined, { key: app.keyOf("alpha", ["*"]).key });
  expect(await prune(app.ctx)).toBe(0);
  expect(await codeOf(gone.key)).toBe("revoked_api_key");
  clock.advance(2 * DAY_MS);
  expect(await prune(app.ctx)).toBe(1);
  const left = client
    .query<{ id: string }, []>("SELECT id FROM api_keys")
    .all()
    .map(({ id }) => id);
  expect(left).toContain(first as string);
  expect(left).toContain(shared.id);
  expect(left).toContain(young.id);
  expect(left).not.toContain(gone.id);
});
