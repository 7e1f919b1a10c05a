/** Attacks on invitations: links used twice, kept, made by others, and accounts taken over. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { durable } from "../../src/platform/db/db.ts";
import { fakeClock, type TestApp, testApp } from "../harness.ts";
import { addUser, openBrowser, PASSWORD, signedIn, tokenOf, withFactor } from "../people_kit.ts";

let clock: ReturnType<typeof fakeClock>;
let app: TestApp;
beforeAll(() => {
  clock = fakeClock();
  app = testApp({ clock });
});
afterAll(() => app.close().then(app.remove));

const newEmail = () => `n${crypto.randomUUID()}@example.com`;
const invite = async (json: object, key?: string) => {
  const { status, body } = await app.call("POST", "/v1/invitations", json, key ? { key } : {});
  if (status !== 201) throw new Error(JSON.stringify(body));
  return { status, id: body.id as string, url: body.url as string, token: tokenOf(body.url) };
};
const accept = (token: string, more: object = {}) =>
  openBrowser(app).call("POST", "/v1/logins/invitations", { token, password: PASSWORD, ...more });

test("an invited person chooses a password, has the role, and signs in with it later", async () => {
  const email = newEmail();
  const { url, token } = await invite({ email: email.toUpperCase(), role: "viewer" });
  expect(new URL(url).search).toBe(""); // the token is behind the #, which reaches no log
  const browser = openBrowser(app);
  const accepted = await browser.call("POST", "/v1/logins/invitations", { token, password: PASSWORD, name: "Bo" });
  expect(accepted).toMatchObject({ status: 201, body: { user: { email, name: "Bo", role: "viewer" } } });
  expect((await browser.call("POST", "/v1/volumes", { name: "v" })).status).toBe(403);
  expect((await openBrowser(app).signIn(email)).status).toBe(201);
  expect((await app.call("GET", "/v1/invitations?limit=100")).body.data).toEqual([]);
});

test("a link works once, also for two requests at the same time", async () => {
  const { token } = await invite({ email: newEmail() });
  const both = await Promise.all([accept(token), accept(token)]);
  expect(both.map(({ status }) => status).sort()).toEqual([201, 404]);
  expect((await accept(token)).status).toBe(404);
});

test("a link that expired, was withdrawn, was replaced, or never was gets the same answer", async () => {
  const [email, other] = [newEmail(), newEmail()];
  const expired = await invite({ email: newEmail(), expires_in_hours: 1 });
  clock.advance(3_600_001);
  const withdrawn = await invite({ email: other });
  await app.call("DELETE", `/v1/invitations/${withdrawn.id}`);
  const replaced = await invite({ email });
  await invite({ email });
  const messages = new Set<string>();
  for (const token of [expired.token, withdrawn.token, replaced.token, "x".repeat(43)]) {
    const { status, body } = await accept(token);
    expect(status).toBe(404);
    messages.add(body.error.message);
  }
  expect(messages.size).toBe(1);
});

test("a weak password leaves the invitation open", async () => {
  const { token } = await invite({ email: newEmail() });
  expect(await accept(token, { password: "short" })).toMatchObject({
    status: 422,
    body: { error: { param: "/password" } },
  });
  expect((await accept(token)).status).toBe(201);
});

test("rights: only an owner invites owners, members invite no one, and a removed manager's links end", async () => {
  const boss = addUser(app, { role: "admin" });
  const [admin, member] = [await signedIn(app, boss.email), await signedIn(app, addUser(app).email)];
  const post = (browser: typeof admin, role: string) =>
    browser.call("POST", "/v1/invitations", { email: newEmail(), role });
  expect((await post(admin, "owner")).status).toBe(403);
  expect((await post(member, "viewer")).status).toBe(403);
  const { body } = await post(admin, "admin");
  await app.call("DELETE", `/v1/users/${boss.id}`);
  expect((await accept(tokenOf(body.url))).status).toBe(404);
});

test("S1: joining with an account needs its own password and second factor, and nothing changes before", async () => {
  const { user, code } = await withFactor(app);
  const { token } = await invite({ email: user.email, role: "admin" }, app.keyB);
  const mine = { has_account: true };
  expect((await accept(token, { ...mine, password: "the attacker's own" })).status).toBe(401);
  expect((await accept(token, mine)).body.error.code).toBe("second_factor_required");
  expect((await openBrowser(app).signIn(user.email, { code: code(1) })).status).toBe(201); // nothing has changed
  clock.advance(60_000);
  const joined = await accept(token, { ...mine, code: code() });
  expect(joined).toMatchObject({ status: 201, body: { workspace: { id: app.workspaceB }, user: { name: "Ada" } } });
});

test("S1: the session of a browser proves the account, if the invited address is its own and is proven", async () => {
  const { email } = addUser(app);
  const join = (browser: ReturnType<typeof openBrowser>, token: string, headers = {}) =>
    browser.call("POST", "/v1/logins/invitations", { token, has_account: true }, headers);
  const { token } = await invite({ email }, app.keyB);
  const other = await signedIn(app, addUser(app).email);
  for (const browser of [openBrowser(app), other]) expect((await join(browser, token)).status).toBe(401);
  const browser = await signedIn(app, email);
  expect((await join(browser, token, { "x-verk-csrf": "forged" })).status).toBe(403);
  expect(await join(browser, token)).toMatchObject({ status: 201, body: { workspace: { id: app.workspaceB } } });
  expect((await browser.call("GET", "/v1/me")).body.workspaces).toHaveLength(2);

  const claimed = newEmail();
  const claimer = openBrowser(app);
  const first = { token: (await invite({ email: claimed })).token, password: PASSWORD };
  expect((await claimer.call("POST", "/v1/logins/invitations", first)).status).toBe(201);
  const second = (await invite({ email: claimed }, app.keyB)).token;
  expect((await join(claimer, second)).status).toBe(401);
  expect((await accept(second, { has_account: true })).status).toBe(401); // its password proves nothing either
});

test("S1: no answer to an invitation tells whether the address has an account elsewhere", async () => {
  const claimed = newEmail();
  expect((await accept((await invite({ email: claimed })).token)).status).toBe(201);
  const removed = addUser(app);
  await app.call("DELETE", `/v1/users/${removed.id}`);
  const { user: protectedUser } = await withFactor(app);
  const emails = [newEmail(), addUser(app).email, claimed, removed.email, protectedUser.email];
  /** The answer without what differs between any two answers. */
  const shapeOf = ({ status, body, headers }: Awaited<ReturnType<typeof accept>>, email: string) => {
    const text = JSON.stringify(body)
      .replaceAll(email, "EMAIL")
      .replaceAll(/(?:usr|key|inv|brs|req)_\w{26}/g, "ID");
    const plain = text
      .replaceAll(/"(csrf_token|url|request_id)":"[^"]*"/g, '"$1":""')
      .replaceAll(/\d{4}-\d\d-\S{10,20}Z/g, "AT");
    return [status, plain, [...headers.keys()].sort()];
  };
  const create = async (email: string) => app.call("POST", "/v1/invitations", { email }, { key: app.keyB });
  const shapes = {
    create: new Set<string>(),
    list: new Set<string>(),
    wrong: new Set<string>(),
    made: new Set<string>(),
  };
  for (const email of emails) {
    const created = await create(email);
    const token = tokenOf(created.body.url);
    shapes.create.add(JSON.stringify(shapeOf(created, email)));
    const listed = (await app.call("GET", "/v1/invitations", undefined, { key: app.keyB })).body.data.length;
    shapes.list.add(`${listed}`);
    const wrong = await accept(token, { has_account: true, password: "not the password" });
    shapes.wrong.add(JSON.stringify(shapeOf(wrong, email)));
    const made = await accept(token, { name: "Bo", password: "another password" });
    shapes.made.add(JSON.stringify(shapeOf(made, email)));
    const again = await create(email);
    expect([again.status, again.body.error.code]).toEqual([400, "name_taken"]); // of the own workspace
  }
  expect(Object.entries(shapes).map(([step, { size }]) => [step, size])).toEqual([
    ["create", 1],
    ["list", 1],
    ["wrong", 1],
    ["made", 1],
  ]);
  expect([...shapes.made][0]).toStartWith("[201");
  expect([...shapes.wrong][0]).toStartWith("[401");
});

test("S1: all passwords of an address have one salt, so a sign-in costs one hash however many accounts there are", async () => {
  const email = newEmail();
  for (const key of [app.keyA, app.keyB]) await accept((await invite({ email }, key)).token);
  const found = app.ctx.db.$client
    .query<{ password_hash: string }, [string]>("SELECT password_hash FROM people WHERE email = ?")
    .all(email);
  expect(found).toHaveLength(2);
  expect(new Set(found.map((row) => row.password_hash.split("$").slice(0, -1).join("$"))).size).toBe(1);
});

test("another site cannot accept for its visitor, and no token or password is stored or logged", async () => {
  const { token } = await invite({ email: newEmail() });
  const forged = await openBrowser(app).call(
    "POST",
    "/v1/logins/invitations",
    { token, password: PASSWORD },
    { "sec-fetch-site": "cross-site" },
  );
  expect(forged.status).toBe(403);
  expect((await accept(token)).status).toBe(201);
  await durable(app.ctx.db);
  app.ctx.db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  for (const text of [Buffer.from(app.ctx.db.$client.serialize()).toString("latin1"), JSON.stringify(app.log)])
    for (const secret of [token, PASSWORD]) expect(text).not.toContain(secret);
});
