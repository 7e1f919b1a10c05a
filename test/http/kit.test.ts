import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { durable } from "../../src/platform/db/db.ts";
import { failpoints } from "../../src/platform/failpoint.ts";
import * as service from "../../src/resources/access/workspaces/service.ts";
import { workspaces } from "../../src/resources/access/workspaces/table.ts";
import { atEveryFailpoint, fakeClock, type TestApp, testApp } from "../harness.ts";

const clock = fakeClock();
let app: TestApp;
beforeEach(() => {
  app = testApp({ clock, flags: { "http.rate_limit_per_second": 10, "http.rate_limit_burst": 50 } });
});
afterEach(() => app.close().then(app.remove));

const create = (name: string, idempotencyKey?: string, on = app) =>
  on.call(
    "POST",
    "/v1/workspaces",
    { name },
    {
      key: on.adminKey,
      headers: idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey },
    },
  );

describe("Idempotency-Key", () => {
  test("the same request gets the same answer and makes one resource", async () => {
    const first = await create("lab", "k1");
    const second = await create("lab", "k1");
    expect(second).toMatchObject({ status: 201, body: first.body });
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(second.headers.get("idempotent-replayed")).toBe("true");
  });

  test("another body, or another route, under the same key is a 409", async () => {
    await create("lab", "k1");
    expect(await create("other", "k1")).toMatchObject({
      status: 409,
      body: { error: { code: "idempotency_mismatch" } },
    });
    const elsewhere = await app.call(
      "POST",
      "/v1/api_keys",
      { name: "lab" },
      { key: app.adminKey, headers: { "idempotency-key": "k1" } },
    );
    expect(elsewhere.status).toBe(409);
  });

  test("a failed creation stores nothing: the retry may succeed", async () => {
    await create("taken");
    expect((await create("taken", "k1")).status).toBe(400);
    const row = app.ctx.db
      .select()
      .from(workspaces)
      .all()
      .find((w) => w.name === "taken");
    await app.call("PATCH", `/v1/workspaces/${row?.id}`, { name: "moved" }, { key: app.adminKey });
    expect((await create("taken", "k1")).status).toBe(201);
  });

  test("a key is forgotten after a day, belongs to its workspace, and has a sane length", async () => {
    const made = await app.call("POST", "/v1/api_keys", { name: "x" }, { headers: { "idempotency-key": "k" } });
    const other = await app.call(
      "POST",
      "/v1/api_keys",
      { name: "x" },
      { key: app.keyB, headers: { "idempotency-key": "k" } },
    );
    expect(other.body.id).not.toBe(made.body.id);
    clock.advance(24 * 3_600_000 + 1);
    const later = await app.call("POST", "/v1/api_keys", { name: "x" }, { headers: { "idempotency-key": "k" } });
    expect(later.body.id).not.toBe(made.body.id);
    expect((await create("y", "k".repeat(256))).status).toBe(400);
  });

  test("a narrower key of the workspace cannot fetch what a wider one made", async () => {
    const wide = app.keyOf("alpha", ["admin"]).key;
    const make = (key: string) =>
      app.call("POST", "/v1/api_keys", { name: "x", scopes: ["admin"] }, { key, headers: { "idempotency-key": "k" } });
    expect((await make(wide)).status).toBe(201);
    const stolen = await make(app.keyA);
    expect(stolen).toMatchObject({ status: 409, body: { error: { code: "idempotency_mismatch" } } });
  });

  test("a key shown once is not in the replay, and not stored in the clear", async () => {
    const call = () => app.call("POST", "/v1/api_keys", { name: "x" }, { headers: { "idempotency-key": "secret" } });
    const { key } = (await call()).body;
    expect((await call()).body.key).toBeUndefined();
    const stored = app.ctx.db.$client.query("SELECT * FROM idempotency_keys").all();
    expect(JSON.stringify(stored)).not.toContain(key);
  });

  test("after a crash at any point, a retry with the key makes exactly one resource", async () => {
    const crashes = await atEveryFailpoint(async (attempt) => {
      const first = testApp({ clock });
      await attempt(async () => {
        const { status } = await create("lab", "k1", first);
        if (status >= 500) throw new Error("crashed");
      });
      const after = testApp({ dir: first.dir, clock });
      expect((await create("lab", "k1", after)).status).toBe(201);
      expect(
        after.ctx.db
          .select()
          .from(workspaces)
          .all()
          .filter((w) => w.name === "lab"),
      ).toHaveLength(1);
      await after.close().then(after.remove);
    });
    expect(crashes).toBeGreaterThanOrEqual(3);
  });
});

test("an answer to a write leaves only after the flush that covers it; a read waits for no flush", async () => {
  const passed: string[] = [];
  failpoints.hit = (name) => void passed.push(name);
  await create("lab");
  delete failpoints.hit;
  expect(passed).toEqual(["db.before_commit", "db.after_commit", "db.before_flush", "db.after_flush"]);
  failpoints.hit = (name) => void passed.push(name);
  await app.call("GET", "/v1/workspaces", undefined, { key: app.adminKey });
  delete failpoints.hit;
  expect(passed).toHaveLength(4);
});

test("no caller reads data that may be lost: a read waits for the open commit", async () => {
  await durable(app.ctx.db); // the keys of this test
  failpoints.hit = (name) => {
    if (name === "db.before_commit") throw Object.assign(new Error("no space"), { code: "SQLITE_FULL" });
  };
  const { id } = service.create(app.ctx, { name: "phantom", metadata: {} });
  const read = await app.call("GET", `/v1/workspaces/${id}`, undefined, { key: app.adminKey });
  delete failpoints.hit;
  expect(read.status).toBe(404);
});

test("a plain read is answered without a promise; one that waits, and a write, with one", async () => {
  const send = (path: string, method = "GET") =>
    app.handle(
      new Request(`http://localhost${path}`, { method, headers: { authorization: `Bearer ${app.adminKey}` } }),
    );
  const id = app.workspaceA;
  await durable(app.ctx.db);
  await send(`/v1/workspaces/${id}`); // compiles the route
  for (const path of [`/v1/workspaces/${id}`, "/healthz"]) {
    await new Promise(setImmediate); // the time of a long turn is over
    expect(send(path)).toBeInstanceOf(Response);
  }
  expect(send("/v1/regions")).toBeInstanceOf(Promise);
  expect(await send("/v1/nothing")).toMatchObject({ status: 404 });
  service.update(app.ctx, id, { metadata: { a: "b" } });
  expect(send(`/v1/workspaces/${id}`)).toBeInstanceOf(Promise);
});

describe("rate limit", () => {
  const get = (key: string) => app.call("GET", "/v1/api_keys", undefined, { key });
  test("a burst passes, then 429 with Retry-After, for that key alone", async () => {
    for (let i = 0; i < 50; i++) expect((await get(app.keyA)).status).toBe(200);
    const refused = await get(app.keyA);
    expect(refused).toMatchObject({ status: 429, body: { error: { type: "rate_limit_error" } } });
    expect(Number(refused.headers.get("retry-after"))).toBe(1);
    expect((await get(app.keyB)).status).toBe(200);
    clock.advance(1000);
    for (let i = 0; i < 10; i++) expect((await get(app.keyA)).status).toBe(200);
    expect((await get(app.keyA)).status).toBe(429);
  });
});

describe("pagination", () => {
  test("walks everything once, newest first, also when items share a millisecond", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 23; i++) {
      if (i % 5 === 0) clock.advance(1000);
      ids.push((await create(`w${i}`)).body.id);
    }
    const seen: string[] = [];
    for (let after = ""; ; ) {
      const { body } = await app.call("GET", `/v1/workspaces?limit=7${after && `&after=${after}`}`, undefined, {
        key: app.adminKey,
      });
      seen.push(...body.data.map((w: { id: string }) => w.id));
      if (!body.has_more) break;
      expect(body.data).toHaveLength(7);
      after = body.data.at(-1).id;
    }
    expect(seen.filter((id) => ids.includes(id))).toEqual(ids.toReversed());
    expect(new Set(seen).size).toBe(seen.length);
  });

  test("the default page is 20, and a page that ends exactly says so", async () => {
    const total = () => app.ctx.db.select().from(workspaces).all().length;
    while (total() < 20) await create(`w${total()}`);
    const list = () => app.call("GET", "/v1/workspaces", undefined, { key: app.adminKey });
    expect((await list()).body).toMatchObject({ has_more: false, data: { length: 20 } });
    await create("one more");
    expect((await list()).body).toMatchObject({ has_more: true, data: { length: 20 } });
  });

  test("P15 cursor of another workspace is only a position, like an id that never existed", async () => {
    const mine = (await app.call("POST", "/v1/api_keys", { name: "a" })).body.id;
    const foreign = (await app.call("POST", "/v1/api_keys", { name: "b" }, { key: app.keyB })).body.id;
    const { status, body } = await app.call("GET", `/v1/api_keys?after=${foreign}&limit=1`);
    expect([status, body.data[0].id]).toEqual([200, mine]);
  });
});
