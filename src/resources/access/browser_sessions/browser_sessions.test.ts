import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { durable } from "../../../platform/db/db.ts";
import { recordUses } from "./authenticate.ts";
import { prune } from "./service.ts";

let clock: ReturnType<typeof fakeClock>;
let app: TestApp;
beforeEach(() => {
  clock = fakeClock();
  app = testApp({ clock });
});
afterEach(() => app.close().then(app.remove));

const SAME = { "sec-fetch-site": "same-origin" };

async function signIn(key = app.keyA, headers: Record<string, string> = {}) {
  const { status, body, headers: sent } = await app.call("POST", "/v1/browser_sessions", undefined, { key, headers });
  expect(status).toBe(201);
  const cookies = sent.getSetCookie();
  const cookie = cookies.map((each) => each.split(";")[0]).join("; ");
  const call = (method: string, path: string, json?: unknown, headers: Record<string, string> = {}) =>
    app.call(method, path, json, { key: null, headers: { cookie, ...headers } });
  const write = (method: string, path: string, json?: unknown) =>
    call(method, path, json, { ...SAME, "x-verk-csrf": body.csrf_token });
  return { body, cookies, cookie, call, write };
}
const sessions = () => app.ctx.db.$client.query("SELECT * FROM browser_sessions").all() as { hash: string }[];

describe("a session", () => {
  test("acts for its key, and its cookie cannot be read by the page", async () => {
    const { body, cookies, call } = await signIn();
    expect(body).toMatchObject({
      object: "browser_session",
      key: { name: "test", scopes: ["*"] },
      workspace: { name: "alpha" },
    });
    expect(cookies[0]).toMatch(/^verk_session=[\w-]{43}; Path=\/; Max-Age=604800; SameSite=Strict; HttpOnly$/);
    expect(cookies[1]).toBe("verk_signed_in=1; Path=/; Max-Age=604800; SameSite=Strict");
    expect(await call("GET", "/v1/account")).toMatchObject({ status: 200, body: { id: app.workspaceA } });
    expect(await call("GET", "/v1/browser_sessions/current")).toMatchObject({ status: 200, body });
    expect(JSON.stringify(sessions())).not.toContain(cookies[0]?.split(/[=;]/)[1]);
  });

  test("is only sent over https where the browser came by https", async () => {
    const { cookies } = await signIn(app.keyA, { "x-forwarded-proto": "https" });
    expect(cookies.every((cookie) => cookie.includes("; Secure"))).toBeTrue();
  });

  test("is open to every key, also to one that may only read", async () => {
    for (const scope of ["read", "metrics", "detect"] as const) await signIn(app.keyOf("alpha", [scope]).key);
  });

  test("comes after a key in the header, and cannot make another session", async () => {
    const { cookie, write } = await signIn();
    const both = await app.call("GET", "/v1/account", undefined, { key: app.keyB, headers: { cookie } });
    expect(both.body.id).toBe(app.workspaceB);
    expect((await write("POST", "/v1/browser_sessions")).status).toBe(400);
  });

  test("works for detection, which has its own header for keys", async () => {
    const { write } = await signIn();
    expect((await write("POST", "/api/detect", { nonsense: true })).status).not.toBe(401);
  });
});

describe("a write", () => {
  const make = { name: "made" };
  test("needs the token of the session and a page of this server", async () => {
    const { body, call, write } = await signIn();
    const csrf = { "x-verk-csrf": body.csrf_token as string };
    const refused = { status: 403, body: { error: { code: "csrf_failed" } } };
    expect(await call("POST", "/v1/api_keys", make)).toMatchObject(refused);
    expect(await call("POST", "/v1/api_keys", make, csrf)).toMatchObject(refused);
    expect(await call("POST", "/v1/api_keys", make, SAME)).toMatchObject(refused);
    expect(await call("POST", "/v1/api_keys", make, { ...SAME, "x-verk-csrf": "x" })).toMatchObject(refused);
    for (const site of ["cross-site", "same-site", "none"])
      expect(await call("POST", "/v1/api_keys", make, { ...csrf, "sec-fetch-site": site })).toMatchObject(refused);
    expect(
      await call("POST", "/v1/api_keys", make, { ...csrf, origin: "https://evil.test", host: "localhost" }),
    ).toMatchObject(refused);
    expect(
      (await call("POST", "/v1/api_keys", make, { ...csrf, origin: "http://localhost", host: "localhost" })).status,
    ).toBe(201);
    expect((await write("POST", "/v1/api_keys", make)).status).toBe(201);
  });

  test("with the token of another session is refused", async () => {
    const other = (await signIn()).body.csrf_token as string;
    const { call } = await signIn();
    expect((await call("POST", "/v1/api_keys", make, { ...SAME, "x-verk-csrf": other })).status).toBe(403);
  });
});

describe("a session ends", () => {
  test("by signing out, which the audit log shows with the sign-in", async () => {
    const { body, call, write } = await signIn();
    const out = await write("DELETE", "/v1/browser_sessions/current");
    expect(out).toMatchObject({ status: 200, body: { id: body.id, deleted: true } });
    expect(out.headers.getSetCookie().every((cookie) => cookie.includes("=; Path=/; Max-Age=0;"))).toBeTrue();
    expect((await call("GET", "/v1/account")).status).toBe(401);
    await durable(app.ctx.db);
    const { data } = (await app.call("GET", "/v1/account/audit_log")).body;
    const entries = data.map(({ method, route }: { method: string; route: string }) => `${method} ${route}`);
    expect(entries.slice(0, 2)).toEqual(["DELETE /v1/browser_sessions/current", "POST /v1/browser_sessions"]);
  });

  test("at once when its key is revoked", async () => {
    const { row, key } = app.keyOf("alpha", ["*"]);
    const { call } = await signIn(key);
    await app.call("DELETE", `/v1/api_keys/${row.id}`);
    expect(await call("GET", "/v1/account")).toMatchObject({
      status: 401,
      body: { error: { code: "revoked_api_key" } },
    });
  });

  test("after 12 hours without a request; uses in between prolong it, also over a restart", async () => {
    const { call } = await signIn();
    clock.advance(11 * HOUR_MS);
    expect((await call("GET", "/v1/account")).status).toBe(200);
    recordUses(app.ctx);
    clock.advance(11 * HOUR_MS);
    expect((await call("GET", "/v1/account")).status).toBe(200);
    recordUses(app.ctx);
    clock.advance(12 * HOUR_MS);
    expect((await call("GET", "/v1/account")).status).toBe(401);
  });

  test("after seven days at the latest, and is deleted then", async () => {
    const { call } = await signIn();
    for (let hours = 0; hours < 7 * 24 - 6; hours += 6) {
      clock.advance(6 * HOUR_MS);
      expect((await call("GET", "/v1/account")).status).toBe(200);
    }
    recordUses(app.ctx);
    expect(await prune(app.ctx)).toBe(0);
    clock.advance(6 * HOUR_MS + 1);
    expect((await call("GET", "/v1/account")).status).toBe(401);
    expect(await prune(app.ctx)).toBe(1);
    expect(sessions()).toEqual([]);
  });

  test("in the database when its key is revoked", async () => {
    const { row, key } = app.keyOf("alpha", ["*"]);
    await signIn(key);
    await signIn();
    await app.call("DELETE", `/v1/api_keys/${row.id}`);
    clock.advance(DAY_MS / 48);
    expect(await prune(app.ctx)).toBe(1);
  });
});
