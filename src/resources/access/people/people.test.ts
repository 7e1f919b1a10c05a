import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { addUser, openBrowser, PASSWORD, signedIn, withFactor } from "../../../../test/people_kit.ts";
import { durable } from "../../../platform/db/db.ts";
import * as keys from "../api_keys/service.ts";
import * as workspaces from "../workspaces/service.ts";
import * as persons from "./persons.ts";
import type { Role } from "./policy.ts";
import * as secondFactor from "./second_factor/service.ts";
import * as people from "./service.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const statusOf = async (call: Promise<{ status: number }>) => (await call).status;

describe("a user", () => {
  test("signs in, acts with the role, and every audit entry names the person", async () => {
    const user = addUser(app, { role: "admin" });
    const browser = openBrowser(app);
    const signIn = await browser.signIn(user.email.toUpperCase());
    expect(signIn).toMatchObject({
      status: 201,
      body: {
        user: { id: user.id, email: user.email, role: "admin" },
        key: { name: user.email, scopes: ["*"] },
        workspace: { id: app.workspaceA },
      },
    });
    expect(await browser.call("POST", "/v1/volumes", { name: "mine" })).toMatchObject({ status: 201 });
    await durable(app.ctx.db);
    const { data } = (await app.call("GET", `/v1/account/audit_log?user_id=${user.id}`)).body;
    expect(data.map(({ method, route }: { method: string; route: string }) => `${method} ${route}`)).toEqual([
      "POST /v1/volumes",
      "POST /v1/logins",
    ]);
    expect(data[0]).toMatchObject({ user: { id: user.id, email: user.email, name: "Ada" } });
    expect((await app.call("GET", `/v1/users/${user.id}`)).body.last_sign_in_at).not.toBeNull();
  });

  test.each([
    ["owner", 201, 201, 200],
    ["admin", 201, 201, 200],
    ["member", 201, 403, 200],
    ["viewer", 403, 403, 200],
    ["annotator", 403, 403, 403],
  ] as [Role, number, number, number][])(
    "%s: makes a volume %d, makes a key of the workspace %d, reads datasets %d",
    async (role, volume, key, datasets) => {
      const browser = await signedIn(app, addUser(app, { role }).email);
      expect(await statusOf(browser.call("POST", "/v1/volumes", { name: `v-${role}` }))).toBe(volume);
      expect(await statusOf(browser.call("POST", "/v1/api_keys", { name: "k" }))).toBe(key);
      expect(await statusOf(browser.call("GET", "/v1/datasets"))).toBe(datasets);
      expect(await statusOf(browser.call("GET", "/v1/annotation_queues"))).toBe(200);
      expect(await statusOf(browser.call("GET", "/v1/workspaces"))).toBe(403);
    },
  );

  test("who is an operator manages the installation", async () => {
    const browser = await signedIn(app, addUser(app, { role: "owner", isOperator: true }).email);
    expect(await statusOf(browser.call("GET", "/v1/workspaces"))).toBe(200);
  });

  test("has a seat that no route of the keys knows", async () => {
    const user = addUser(app, { role: "admin" });
    const seat = keys.mustGet(app.ctx, app.workspaceA, user.keyId);
    for (const text of [seat.hash, seat.id, ""])
      expect(await statusOf(app.call("GET", "/v1/account", undefined, { key: text }))).toBe(401);
    const { data } = (await app.call("GET", "/v1/api_keys?limit=100")).body;
    expect(data.some(({ id }: { id: string }) => id === seat.id)).toBeFalse();
    expect(await statusOf(app.call("DELETE", `/v1/api_keys/${seat.id}`))).toBe(404);
  });

  test("of two workspaces chooses one, and has its role there", async () => {
    const { email } = addUser(app, { role: "admin" });
    const other = addUser(app, { role: "viewer", email, workspaceId: app.workspaceB });
    const first = await signedIn(app, email);
    expect((await first.call("GET", "/v1/account")).body.id).toBe(app.workspaceA);
    const second = await signedIn(app, email, { workspace: "beta" });
    expect((await second.call("GET", "/v1/account")).body.id).toBe(app.workspaceB);
    expect(await statusOf(second.call("POST", "/v1/volumes", { name: "x" }))).toBe(403);
    expect(await statusOf(app.call("GET", `/v1/users/${other.id}`))).toBe(404);
    expect(await statusOf(openBrowser(app).signIn(email, { workspace: "operators" }))).toBe(401);
  });
});

describe("a change of the role", () => {
  test("takes effect at once, and narrows the keys that the user has made", async () => {
    const user = addUser(app, { role: "admin" });
    const browser = await signedIn(app, user.email);
    const { key } = (await browser.call("POST", "/v1/api_keys", { name: "wide", scopes: ["*"] })).body;
    const narrow = (await browser.call("POST", "/v1/api_keys", { name: "narrow", scopes: ["training"] })).body;
    const patched = await app.call("PATCH", `/v1/users/${user.id}`, { role: "viewer" });
    expect(patched).toMatchObject({ status: 200, body: { role: "viewer" } });
    expect(await statusOf(browser.call("POST", "/v1/volumes", { name: "late" }))).toBe(403);
    expect(await statusOf(app.call("POST", "/v1/volumes", { name: "late" }, { key }))).toBe(403);
    expect(await statusOf(app.call("GET", "/v1/volumes", undefined, { key }))).toBe(200);
    expect(await statusOf(app.call("GET", "/v1/volumes", undefined, { key: narrow.key }))).toBe(401);
  });

  test("of an owner needs an owner, and one owner stays", async () => {
    const { id: workspaceId } = workspaces.create(app.ctx, { name: "owned", metadata: {} });
    const owner = addUser(app, { role: "owner", workspaceId });
    const admin = addUser(app, { role: "admin", workspaceId });
    const [asOwner, asAdmin] = [await signedIn(app, owner.email), await signedIn(app, admin.email)];
    const role = (value: string) => ({ role: value });
    expect(await statusOf(asAdmin.call("PATCH", `/v1/users/${owner.id}`, role("viewer")))).toBe(403);
    expect(await statusOf(asAdmin.call("DELETE", `/v1/users/${owner.id}`))).toBe(403);
    expect(await statusOf(asAdmin.call("PATCH", `/v1/users/${admin.id}`, role("owner")))).toBe(403);
    expect(await statusOf(asOwner.call("PATCH", `/v1/users/${owner.id}`, role("member")))).toBe(400);
    expect(await statusOf(asOwner.call("DELETE", `/v1/users/${owner.id}`))).toBe(400);
    expect(await statusOf(asOwner.call("PATCH", `/v1/users/${admin.id}`, role("owner")))).toBe(200);
    expect(await statusOf(asAdmin.call("DELETE", `/v1/users/${owner.id}`))).toBe(200); // an owner now
    expect(await statusOf(asOwner.call("GET", "/v1/account"))).toBe(401);
  });
});

describe("a user who is removed", () => {
  test("loses sessions and keys, and may be added again; the audit log keeps the name", async () => {
    const user = addUser(app, { role: "admin" });
    const browser = await signedIn(app, user.email);
    const { key } = (await browser.call("POST", "/v1/api_keys", { name: "k" })).body;
    expect(await statusOf(app.call("DELETE", `/v1/users/${user.id}`))).toBe(200);
    expect(await statusOf(browser.call("GET", "/v1/account"))).toBe(401);
    expect(await statusOf(app.call("GET", "/v1/account", undefined, { key }))).toBe(401);
    expect(await statusOf(browser.signIn(user.email))).toBe(401);
    await durable(app.ctx.db);
    const { data } = (await app.call("GET", `/v1/account/audit_log?user_id=${user.id}`)).body;
    expect(data.at(-1).user.email).toBe(user.email);
    const again = addUser(app, { role: "viewer", email: user.email });
    expect(again.id).not.toBe(user.id);
    expect(await statusOf(browser.signIn(user.email))).toBe(201);
    expect(() => addUser(app, { email: user.email })).toThrow("already");
  });

  test("because the workspace is deleted leaves no row behind that keeps the workspace", async () => {
    const { id: workspaceId } = workspaces.create(app.ctx, { name: "closing", metadata: {} });
    const { email } = addUser(app, { workspaceId, role: "owner" });
    const browser = await signedIn(app, email);
    workspaces.remove(app.ctx, workspaceId);
    expect(await statusOf(browser.call("GET", "/v1/account"))).toBe(401);
    people.removeAll(app.ctx, workspaceId);
    expect(people.list(app.ctx, workspaceId, { limit: 10 }).data).toEqual([]);
  });
});

test("a new password ends every session of the person, in all workspaces", async () => {
  const user = addUser(app);
  addUser(app, { email: user.email, workspaceId: app.workspaceB });
  const [here, there] = [await signedIn(app, user.email), await signedIn(app, user.email, { workspace: "beta" })];
  const hash = await Bun.password.hash("another password", { algorithm: "argon2id", memoryCost: 8, timeCost: 1 });
  people.setPassword(app.ctx, user.personId, hash);
  for (const browser of [here, there]) expect(await statusOf(browser.call("GET", "/v1/account"))).toBe(401);
  expect(await statusOf(here.signIn(user.email))).toBe(401);
  expect(await statusOf(here.signIn(user.email, {}, "another password"))).toBe(201);
});

test("S1: a known person who is made an operator gets new credentials, unless the operator keeps them", async () => {
  const { user, browser, code } = await withFactor(app);
  const operators = app.keyOf("operators", ["admin"]).workspaceId;
  const to = { workspaceId: operators, email: user.email, name: "x", role: "owner", isOperator: true } as const;
  const kept = people.vouch(app.ctx, { ...to, passwordHash: undefined });
  expect((await browser.call("GET", "/v1/me")).body).toMatchObject({ user: { second_factor: true, name: "Ada" } });
  const { body } = await openBrowser(app).signIn(user.email, { workspace: "operators", code: code(1) });
  expect(body.key.scopes).toEqual(["admin"]);
  people.remove(app.ctx, { workspaceId: operators, id: kept.id });
  const passwordHash = await Bun.password.hash("another password", {
    algorithm: "argon2id",
    memoryCost: 8,
    timeCost: 1,
  });
  people.vouch(app.ctx, { ...to, passwordHash });
  expect(await statusOf(browser.call("GET", "/v1/me"))).toBe(401);
  expect(await statusOf(openBrowser(app).signIn(user.email))).toBe(401);
  expect(await statusOf(openBrowser(app).signIn(user.email, {}, "another password"))).toBe(201); // without a code
});

test("S1: who is removed and invited again begins without the old password and second factor", async () => {
  const email = "again@example.com";
  const join = (passwordHash: string) =>
    people.claim(app.ctx, { workspaceId: app.workspaceA, email, name: "Bo", role: "viewer", passwordHash });
  const first = join("$argon2id$v=19$m=8,t=1,p=1$b2xkc2FsdA$AAAA");
  secondFactor.begin(app.ctx, people.personOf(app.ctx, first), "Verk");
  people.remove(app.ctx, { workspaceId: app.workspaceA, id: first.id });
  const hash = await Bun.password.hash(PASSWORD, { algorithm: "argon2id", memoryCost: 8, timeCost: 1 });
  expect(join(hash)).toMatchObject({ personId: first.personId });
  expect((await (await signedIn(app, email)).call("GET", "/v1/me")).body).toMatchObject({ recovery_codes_left: null });
  expect(persons.withEmail(app.ctx, email)).toHaveLength(1);
});

test("without users the sign-in page offers no password", async () => {
  const fresh = testApp();
  const options = () => fresh.call("GET", "/v1/logins/options", undefined, { key: null });
  expect((await options()).body.password).toBeFalse();
  addUser(fresh);
  expect((await options()).body.password).toBeTrue();
  await fresh.close().then(fresh.remove);
});

test("no password is in the database, in an answer or in the log", async () => {
  const { email } = addUser(app);
  const { body } = await openBrowser(app).signIn(email);
  await openBrowser(app).signIn(email, {}, "a wrong password");
  await durable(app.ctx.db);
  const { $client } = app.ctx.db;
  $client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const bytes = Buffer.from($client.serialize()).toString("latin1");
  for (const text of [bytes, JSON.stringify(body), JSON.stringify(app.log)]) {
    expect(text).not.toContain(PASSWORD);
    expect(text).not.toContain("a wrong password");
  }
});

describe("sessions of a user", () => {
  test("those who manage the user see them, end one or all; others do not", async () => {
    const user = addUser(app);
    const [first, second] = [await signedIn(app, user.email), await signedIn(app, user.email)];
    const path = `/v1/users/${user.id}`;
    expect((await app.call("GET", path)).body).toMatchObject({ sessions: 2, last_seen_at: expect.any(String) });
    const { data } = (await app.call("GET", `${path}/sessions`)).body;
    expect(data).toHaveLength(2);
    expect(data[0]).toMatchObject({ method: "password", current: false });
    for (const role of ["viewer", "member"] as const) {
      const other = await signedIn(app, addUser(app, { role }).email);
      expect(await statusOf(other.call("GET", `${path}/sessions`))).toBe(403);
      expect(await statusOf(other.call("DELETE", `${path}/sessions`))).toBe(403);
    }
    const admin = await signedIn(app, addUser(app, { role: "admin" }).email);
    const owner = addUser(app, { role: "owner" });
    expect(await statusOf(admin.call("GET", `/v1/users/${owner.id}/sessions`))).toBe(403);
    expect(await statusOf(app.call("GET", `${path}/sessions`, undefined, { key: app.keyB }))).toBe(404);
    expect(await statusOf(admin.call("DELETE", `/v1/browser_sessions/${data[0].id}`))).toBe(200);
    expect([await statusOf(first.call("GET", "/v1/me")), await statusOf(second.call("GET", "/v1/me"))].sort()).toEqual([
      200, 401,
    ]);
    expect((await admin.call("DELETE", `${path}/sessions`)).body).toMatchObject({ sessions: 0, last_seen_at: null });
    expect(await statusOf(second.call("GET", "/v1/me"))).toBe(401);
    expect(await statusOf(first.call("GET", "/v1/me"))).toBe(401);
  });
});

test("an invitation that expired stays in the list for a month, and says who made it", async () => {
  const clock = fakeClock();
  const late = testApp({ clock });
  const email = (name: string) => `${name}@example.com`;
  const invite = (name: string) =>
    late.call("POST", "/v1/invitations", { email: email(name), expires_in_hours: 1, role: "viewer" });
  expect((await invite("one")).body).toMatchObject({ status: "open", invited_by: null });
  clock.advance(2 * 3_600_000);
  await invite("two");
  const list = async () =>
    (await late.call("GET", "/v1/invitations")).body.data.map((each: { email: string; status: string }) => [
      each.email,
      each.status,
    ]);
  expect(await list()).toEqual([
    [email("two"), "open"],
    [email("one"), "expired"],
  ]);
  clock.advance(31 * 86_400_000);
  expect(await list()).toEqual([]);
  await late.close();
  late.remove();
});
