import { afterAll, expect, test } from "bun:test";
import { testApp } from "../../../../test/harness.ts";

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

test("the account says when the key of the request ends", async () => {
  const expires_at = "2031-02-03T04:05:06.000Z";
  const { body } = await app.call("POST", "/v1/api_keys", { name: "short", expires_at });
  expect((await app.call("GET", "/v1/account", undefined, { key: body.key })).body.key).toMatchObject({
    id: body.id,
    expires_at,
  });
});

test("a workspace changes its metadata, and what is left out stays", async () => {
  const { status, body } = await app.call("PATCH", "/v1/account", { metadata: { team: "research" }, name: "alpha" });
  expect(status).toBe(200);
  expect(body).toMatchObject({ object: "account", name: "alpha", metadata: { team: "research" } });
  expect((await app.call("GET", "/v1/account")).body).toEqual(body);
  const { data } = (await app.call("GET", "/v1/events?limit=100")).body;
  expect(data.map((event: { type: string }) => event.type)).toContain("workspace.updated");
});

test("M4: a tenant cannot rename its workspace, and learns no name of another from the refusal", async () => {
  const rename = async (name: string) => (await app.call("PATCH", "/v1/account", { name, metadata: { x: "y" } })).body;
  const [taken, free] = [await rename("beta"), await rename("nobody has this")];
  expect(taken.error).toMatchObject({ type: "permission_error", code: "missing_scope", param: "/name" });
  expect(free).toEqual(taken);
  expect((await app.call("GET", "/v1/account")).body).toMatchObject({ name: "alpha", metadata: { team: "research" } });
});

test("M4: the operator renames a workspace, but none to `default`", async () => {
  const { key, workspaceId } = app.keyOf("gamma", ["admin"]);
  const rename = (name: string) => app.call("PATCH", "/v1/account", { name }, { key });
  expect((await rename("gamma two")).body).toMatchObject({ id: workspaceId, name: "gamma two" });
  expect((await rename("beta")).body.error).toMatchObject({ code: "name_taken", param: "/name" });
  expect((await rename("default")).body.error).toMatchObject({ code: "invalid_request", param: "/name" });
});

test("a key that may only read sees the account and cannot change it", async () => {
  const { key } = app.keyOf("beta", ["read"]);
  expect((await app.call("GET", "/v1/account", undefined, { key })).body.key.scopes).toEqual(["read"]);
  const { status, body } = await app.call("PATCH", "/v1/account", { metadata: {} }, { key });
  expect([status, body.error.code]).toEqual([403, "missing_scope"]);
});
