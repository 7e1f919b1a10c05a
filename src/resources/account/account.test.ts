import { afterAll, expect, test } from "bun:test";
import { testApp } from "../../../test/harness.ts";

const app = testApp();
afterAll(async () => {
  await app.close();
  app.remove();
});

test("the account is the caller's workspace and the key it came with", async () => {
  const { status, body } = await app.call("GET", "/v1/account");
  expect(status).toBe(200);
  expect(body).toEqual({
    object: "account",
    id: app.workspaceA,
    name: "alpha",
    status: "active",
    payment_customer_id: expect.stringMatching(/^cus_/),
    metadata: {},
    key: {
      id: expect.stringMatching(/^key_/),
      name: "test",
      key_prefix: app.keyA.slice(0, 11),
      scopes: ["*"],
      expires_at: null,
    },
    created_at: expect.stringMatching(/Z$/),
  });
  expect((await app.call("GET", "/v1/account", undefined, { key: app.keyB })).body.id).toBe(app.workspaceB);
});

test("a workspace renames itself, and what is left out stays", async () => {
  await app.call("PATCH", "/v1/account", { metadata: { team: "research" } });
  const { status, body } = await app.call("PATCH", "/v1/account", { name: "alpha two" });
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: "account", name: "alpha two", metadata: { team: "research" } });
  expect((await app.call("GET", "/v1/account")).body).toEqual(body);
  const { data } = (await app.call("GET", "/v1/events?limit=100")).body;
  expect(data.map((event: { type: string }) => event.type)).toContain("workspace.updated");
});

test("a name that another workspace has is taken", async () => {
  const { status, body } = await app.call("PATCH", "/v1/account", { name: "beta" });
  expect([status, body.error.code, body.error.param]).toEqual([400, "name_taken", "/name"]);
});

test("a key that may only read sees the account and cannot change it", async () => {
  const { key } = app.keyOf("beta", ["read"]);
  expect((await app.call("GET", "/v1/account", undefined, { key })).body.key.scopes).toEqual(["read"]);
  const { status, body } = await app.call("PATCH", "/v1/account", { name: "mine now" }, { key });
  expect([status, body.error.code]).toEqual([403, "missing_scope"]);
});
