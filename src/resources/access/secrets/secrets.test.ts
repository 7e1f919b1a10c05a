import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { testApp } from "../../../../test/harness.ts";
import * as secrets from "./service.ts";

const app = testApp();
afterAll(async () => {
  await app.close();
  app.remove();
});
const put = (name: string, body: unknown, options = {}) => app.call("PUT", `/v1/secrets/${name}`, body, options);
const eventsOf = async () =>
  (await app.call("GET", "/v1/events?limit=100")).body.data.map((event: { type: string }) => event.type);

test("a secret is made with 201 and replaced with 200, under one id", async () => {
  const made = await put("API_TOKEN", { value: "one" });
  expect(made.status).toBe(201);
  const fields = ["created_at", "id", "metadata", "name", "object", "scope_host", "updated_at"];
  expect(Object.keys(made.body).sort()).toEqual(fields);
  expect(made.body).toMatchObject({ object: "secret", name: "API_TOKEN", scope_host: "", metadata: {} });
  expect(made.body.id).toStartWith("sec_");

  const replaced = await put("API_TOKEN", { value: "two" });
  expect(replaced.status).toBe(200);
  expect(replaced.body.id).toBe(made.body.id);
  expect(replaced.body.created_at).toBe(made.body.created_at);
  expect(secrets.reveal(app.ctx, app.workspaceA, "API_TOKEN")).toBe("two");
  expect(await eventsOf()).toEqual(expect.arrayContaining(["secret.created", "secret.updated"]));
});

test("a secret is listed, read and deleted by name, and only in its own workspace", async () => {
  const { body: made } = await put("MINE", { value: "x" });
  expect((await app.call("GET", "/v1/secrets/MINE")).body).toEqual(made);
  expect((await app.call("GET", "/v1/secrets")).body.data).toContainEqual(made);
  for (const method of ["GET", "DELETE"])
    expect((await app.call(method, "/v1/secrets/MINE", undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("GET", "/v1/secrets", undefined, { key: app.keyB })).body.data).toEqual([]);

  const deleted = await app.call("DELETE", "/v1/secrets/MINE");
  expect(deleted.body).toEqual({ id: made.id, object: "secret", deleted: true });
  const again = await app.call("DELETE", "/v1/secrets/MINE");
  expect([again.status, again.body.error.param]).toEqual([404, "name"]);
  expect(await eventsOf()).toContain("secret.deleted");
});

test("the same name in two workspaces is two secrets", async () => {
  await put("SHARED", { value: "alpha's" });
  expect((await put("SHARED", { value: "beta's" }, { key: app.keyB })).status).toBe(201);
  expect(secrets.reveal(app.ctx, app.workspaceA, "SHARED")).toBe("alpha's");
  expect(secrets.reveal(app.ctx, app.workspaceB, "SHARED")).toBe("beta's");
});

test("P5 scope_host: it is an empty string if the secret may go to any host, and can be sent back so", async () => {
  expect((await put("ANYWHERE", { value: "x", scope_host: "" })).body.scope_host).toBe("");
  expect((await put("ANYWHERE", { value: "x", scope_host: "api.example.com" })).body.scope_host).toBe(
    "api.example.com",
  );
  for (const none of ["", null]) {
    await put("ANYWHERE", { value: "x", scope_host: "api.example.com" });
    expect((await put("ANYWHERE", { value: "x", scope_host: none })).body.scope_host).toBe("");
  }
  expect((await app.call("GET", "/v1/secrets/ANYWHERE")).body.scope_host).toBe("");
  expect(secrets.reveal(app.ctx, app.workspaceA, "ANYWHERE", "any.example.com")).toBe("x");
});

test("P0 metadata: a secret has it, and a new value keeps it", async () => {
  expect((await put("LABELED", { value: "x", metadata: { team: "rl" } })).body.metadata).toEqual({ team: "rl" });
  expect((await put("LABELED", { value: "y" })).body.metadata).toEqual({ team: "rl" });
  expect((await put("LABELED", { value: "y", metadata: {} })).body.metadata).toEqual({});
  expect(await put("LABELED", { value: "y", metadata: { team: 7 } })).toMatchObject({ status: 422 });
});

test("lists come in pages", async () => {
  for (const name of ["P1", "P2", "P3"]) await put(name, { value: "x" });
  const first = (await app.call("GET", "/v1/secrets?limit=2")).body;
  expect(first.data.map((item: { name: string }) => item.name)).toEqual(["P3", "P2"]);
  expect(first.has_more).toBe(true);
  const next = (await app.call("GET", `/v1/secrets?limit=1&after=${first.data[1].id}`)).body;
  expect(next.data[0].name).toBe("P1");
});

test.each(["lower", "1ST", "A-B", "A.B", "Ä", "A%20B", `A${"B".repeat(64)}`])(
  "the name %p is a 422 that names it",
  async (name) => {
    const { status, body } = await put(encodeURI(name).replace("%25", "%"), { value: "x" });
    expect([status, body.error.code, body.error.param]).toEqual([422, "schema", "name"]);
  },
);

test.each([
  ["an empty value", { value: "" }, "/value"],
  ["no value", {}, "/value"],
  ["a value over 64 KiB", { value: "x".repeat(65_537) }, "/value"],
  ["a value over 64 KiB in bytes alone", { value: "ä".repeat(32_769) }, "/value"],
  ["half a character", { value: "\ud800" }, "/value"],
  ["a URL as host", { value: "x", scope_host: "https://example.com" }, "/scope_host"],
  ["a port in the host", { value: "x", scope_host: "example.com:443" }, "/scope_host"],
  ["a blank host", { value: "x", scope_host: " " }, "/scope_host"],
  ["a wildcard host", { value: "x", scope_host: "*.example.com" }, "/scope_host"],
])("%s is a 422 that names the field", async (_what, body, param) => {
  const answer = await put("REFUSED", body);
  expect([answer.status, answer.body.error.param]).toEqual([422, param]);
  expect((await app.call("GET", "/v1/secrets/REFUSED")).status).toBe(404);
});

describe("a secret bound to a host", () => {
  beforeAll(async () => void (await put("BOUND", { value: "v", scope_host: "API.Example.com." })));

  test("shows the host in lower case", async () => {
    expect((await app.call("GET", "/v1/secrets/BOUND")).body.scope_host).toBe("api.example.com");
  });
  test("opens for that host alone, however it is written", () => {
    expect(secrets.reveal(app.ctx, app.workspaceA, "BOUND", "Api.Example.Com")).toBe("v");
    for (const host of [undefined, "example.com", "evil.api.example.com", "api.example.com.evil.net", ""])
      expect(() => secrets.reveal(app.ctx, app.workspaceA, "BOUND", host)).toThrow("may only be sent to");
  });
  test("stays bound when its value is replaced, until null frees it", async () => {
    expect((await put("BOUND", { value: "w" })).body.scope_host).toBe("api.example.com");
    expect((await put("BOUND", { value: "w", scope_host: null })).body.scope_host).toBe("");
    expect(secrets.reveal(app.ctx, app.workspaceA, "BOUND", "anywhere.net")).toBe("w");
  });
});

test("the value appears in no file, log line, event or answer", async () => {
  const marker = "MARKER-9f3b1c77-value";
  const answers = [
    await put("PLANTED", { value: marker }),
    await put("planted", { value: marker }),
    await put("PLANTED", { value: marker, scope_host: `${marker}/` }),
    await put("PLANTED", { value: [marker] }),
    await app.call("GET", "/v1/secrets"),
    await app.call("GET", "/v1/secrets/PLANTED"),
    await app.call("GET", "/v1/events?limit=100"),
    await app.call("DELETE", "/v1/secrets/PLANTED"),
  ];
  expect(JSON.stringify(answers)).not.toContain(marker);
  expect(app.log.join("\n")).not.toContain(marker);
  const files = readdirSync(app.dir, { recursive: true, encoding: "utf8" }).map((name) => join(app.dir, name));
  const holding = files.filter((file) => statSync(file).isFile() && readFileSync(file).includes(marker));
  expect(files.some((file) => file.endsWith("verk.db"))).toBe(true);
  expect(holding).toEqual([]);
});
