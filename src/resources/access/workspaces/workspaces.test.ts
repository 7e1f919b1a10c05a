import { afterEach, describe, expect, test } from "bun:test";
import { atEveryFailpoint, manyApps, type TestApp } from "../../../../test/harness.ts";
import { events } from "../../../events/table.ts";
import { durable } from "../../../platform/db/db.ts";
import { purge } from "../../../purge.ts";
import * as workspaces from "./service.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);
const admin = (app: TestApp) => ({ key: app.adminKey });
const typesAbout = (app: TestApp, id: string) =>
  app.ctx.db
    .select()
    .from(events)
    .all()
    .filter((e) => e.subjectId === id)
    .map((e) => e.type);

describe("POST /v1/workspaces", () => {
  test("makes an active workspace with a customer id and one event", async () => {
    const app = open();
    const { status, body } = await app.call(
      "POST",
      "/v1/workspaces",
      { name: "lab", metadata: { team: "rl" } },
      admin(app),
    );
    expect(status).toBe(201);
    expect(body).toMatchObject({ object: "workspace", name: "lab", status: "active", metadata: { team: "rl" } });
    expect(body.id).toMatch(/^ws_[0-9a-z]{26}$/);
    expect(body.payment_customer_id).toStartWith("cus_");
    expect(typesAbout(app, body.id)).toEqual(["workspace.created"]);
  });

  test.each([
    ["no key", null, {}, 401, "missing_api_key", null],
    ["a key without the scope, before the body is looked at", "keyA", {}, 403, "missing_scope", null],
    ["a missing name", "adminKey", {}, 422, "schema", "/name"],
    ["an empty name", "adminKey", { name: "  " }, 422, "schema", "/name"],
    ["a control character", "adminKey", { name: "a\u0000b" }, 422, "schema", "/name"],
    ["a lone surrogate", "adminKey", { name: "a\ud800" }, 422, "schema", "/name"],
    [
      "too many pairs",
      "adminKey",
      { name: "x", metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"])) },
      422,
      "schema",
      "/metadata",
    ],
    ["a pair that is no string", "adminKey", { name: "x", metadata: { a: 1 } }, 422, "schema", "/metadata/a"],
  ] as const)("%s is refused", async (_name, key, json, status, code, param) => {
    const app = open();
    const before = app.ctx.db.select().from(events).all().length;
    const answer = await app.call("POST", "/v1/workspaces", json, { key: key && app[key] });
    expect(answer).toMatchObject({ status, body: { error: { code, param } } });
    expect(app.ctx.db.select().from(events).all()).toHaveLength(before);
  });

  test("a taken name is refused and named; an unknown field is ignored", async () => {
    const app = open();
    expect((await app.call("POST", "/v1/workspaces", { name: "lab", colour: "red" }, admin(app))).status).toBe(201);
    const again = await app.call("POST", "/v1/workspaces", { name: "lab" }, admin(app));
    expect(again).toMatchObject({ status: 400, body: { error: { code: "name_taken", param: "/name" } } });
  });
});

test("a workspace can be read, renamed, suspended, resumed and deleted, each with its event", async () => {
  const app = open();
  const { body } = await app.call("POST", "/v1/workspaces", { name: "lab" }, admin(app));
  const at = `/v1/workspaces/${body.id}`;
  expect((await app.call("PATCH", at, { name: "lab 2" }, admin(app))).body.name).toBe("lab 2");
  expect((await app.call("POST", `${at}/suspend`, undefined, admin(app))).body.status).toBe("suspended");
  expect((await app.call("POST", `${at}/resume`, undefined, admin(app))).body.status).toBe("active");
  expect((await app.call("DELETE", at, undefined, admin(app))).body).toEqual({
    id: body.id,
    object: "workspace",
    deleted: true,
  });
  expect((await app.call("GET", at, undefined, admin(app))).status).toBe(404);
  expect((await app.call("POST", "/v1/workspaces", { name: "lab 2" }, admin(app))).status).toBe(201);
  expect(typesAbout(app, body.id).map((type) => type.split(".")[1])).toEqual([
    "created",
    "updated",
    "suspended",
    "resumed",
    "deleted",
  ]);
});

test("a step that does not fit the state is a 400 and fires nothing", async () => {
  const app = open();
  const { body } = await app.call("POST", "/v1/workspaces", { name: "lab" }, admin(app));
  const answer = await app.call("POST", `/v1/workspaces/${body.id}/resume`, undefined, admin(app));
  expect(answer).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
  expect(typesAbout(app, body.id)).toEqual(["workspace.created"]);
});

test("the keys of a suspended workspace answer 401 until it is resumed; nobody can lock themselves out", async () => {
  const app = open();
  await app.call("POST", `/v1/workspaces/${app.workspaceA}/suspend`, undefined, admin(app));
  expect(await app.call("GET", "/v1/api_keys")).toMatchObject({
    status: 401,
    body: { error: { code: "revoked_api_key" } },
  });
  await app.call("POST", `/v1/workspaces/${app.workspaceA}/resume`, undefined, admin(app));
  expect((await app.call("GET", "/v1/api_keys")).status).toBe(200);
  const own = app.keyOf("operators", ["admin"]).workspaceId;
  expect((await app.call("DELETE", `/v1/workspaces/${own}`, undefined, admin(app))).status).toBe(400);
});

test("a deleted workspace keeps nothing that could be opened, and its neighbours keep everything", async () => {
  const app = open();
  for (const key of [app.keyA, app.keyB]) {
    await app.call("PUT", "/v1/secrets/TOKEN", { value: "v" }, { key });
    await app.call("POST", "/v1/api_keys", { name: "k" }, { key, headers: { "idempotency-key": "i" } });
    await app.call("POST", "/v1/deployments", { model: "some/model", name: "d" }, { key });
  }
  const count = () =>
    app.ctx.db.$client
      .query(
        `SELECT (SELECT count(*) FROM secrets) AS secrets, (SELECT count(*) FROM idempotency_keys) AS answers,
         (SELECT count(*) FROM deployments WHERE status <> 'stopped') AS deployments,
         (SELECT count(*) FROM models WHERE status <> 'deleted') AS models`,
      )
      .get();
  await purge(app.ctx);
  expect(count()).toEqual({ secrets: 2, answers: 2, deployments: 2, models: 2 });
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, admin(app));
  expect(app.woken).toContain("workspaces.purge");
  await purge(app.ctx);
  expect(count()).toEqual({ secrets: 1, answers: 1, deployments: 1, models: 1 });
  expect((await app.call("GET", "/v1/secrets/TOKEN", undefined, { key: app.keyB })).status).toBe(200);
});

test("wherever it crashes, a state and its event exist together or not at all", async () => {
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open();
    const { id } = workspaces.create(app.ctx, { name: "lab", metadata: {} });
    await durable(app.ctx.db);
    await attempt(async () => {
      workspaces.suspend(app.ctx, id);
      await durable(app.ctx.db);
    });
    const after = open({ dir: app.dir }); // as a restart would
    const suspended = workspaces.mustGet(after.ctx, id).status === "suspended";
    expect(typesAbout(after, id).includes("workspace.suspended")).toBe(suspended);
  });
  expect(crashes).toBeGreaterThanOrEqual(4);
});
