/** S1: a tenant claims the address of a person, and waits for the real person to join. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import * as persons from "../../src/resources/access/people/persons.ts";
import * as people from "../../src/resources/access/people/service.ts";
import { fakeClock, type TestApp, testApp } from "../harness.ts";
import { oidcApp, type StartedProvider, signInThrough, startProvider } from "../oidc_kit.ts";
import { addUser, authenticator, openBrowser, PASSWORD, signedIn, tokenOf, withFactor } from "../people_kit.ts";

const ATTACKERS = "attacker chosen pw 1";
const clock = fakeClock();
let app: TestApp;
beforeAll(() => {
  app = testApp({ clock });
});
afterEach(() => clock.advance(3_600_000)); // forgives the failed attempts of the test before
afterAll(() => app.close().then(app.remove));

const newEmail = () => `victim-${crypto.randomUUID()}@corp.test`;
const statusOf = async (call: Promise<{ status: number }>) => (await call).status;

async function invite(at: TestApp, email: string, { key = at.keyB, role = "annotator" } = {}) {
  const { status, body } = await at.call("POST", "/v1/invitations", { email, role }, { key });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return tokenOf(body.url);
}
const accept = (at: TestApp, token: string, more: object = {}, browser = openBrowser(at)) =>
  browser.call("POST", "/v1/logins/invitations", { token, ...more });

/** The manager of a workspace (beta) invites an address, opens the link himself and sets the password. */
async function claim(at: TestApp, email: string, options: Parameters<typeof invite>[2] = {}) {
  const browser = openBrowser(at);
  const token = await invite(at, email, options);
  const { status } = await accept(at, token, { password: ATTACKERS, name: "Eve" }, browser);
  return { browser, status };
}

/** The workspaces that a password opens: without a name, and by the name of each workspace of the test. */
async function opened(at: TestApp, email: string, password = ATTACKERS) {
  const names = new Set<string>();
  for (const workspace of [undefined, "alpha", "beta", "operators"]) {
    const more = workspace === undefined ? {} : { workspace };
    const { status, body } = await openBrowser(at).signIn(email, more, password);
    if (status === 201) names.add(body.workspace.name);
  }
  return [...names];
}

describe("a password of an invitation opens its workspace alone", () => {
  test("S1 A: also after the operator has made the person an owner and an operator", async () => {
    const email = newEmail();
    expect((await claim(app, email)).status).toBe(201);
    addUser(app, { email, role: "owner", isOperator: true });
    expect(await opened(app, email)).toEqual(["beta"]);
    const attacker = openBrowser(app);
    await attacker.signIn(email, {}, ATTACKERS);
    expect(await statusOf(attacker.call("GET", "/v1/workspaces"))).toBe(403);
    expect((await attacker.call("GET", "/v1/me")).body.workspaces).toHaveLength(1);
    const real = await signedIn(app, email);
    expect(await statusOf(real.call("GET", "/v1/workspaces"))).toBe(200);
  });

  test("S1: the session and the second factor of a claimed account go no further either", async () => {
    const email = newEmail();
    const { browser } = await claim(app, email);
    expect(await statusOf(browser.call("POST", "/v1/me/second_factor", { password: ATTACKERS }))).toBe(200);
    addUser(app, { email, role: "owner" });
    expect((await browser.call("GET", "/v1/me")).body.workspaces).toMatchObject([{ name: "beta" }]);
    const real = await signedIn(app, email); // asks for no code of the attacker's app
    expect((await real.call("GET", "/v1/me")).body.workspaces).toMatchObject([{ name: "alpha" }]);
  });

  test("S1: a second workspace that invites the address gets another account", async () => {
    const email = newEmail();
    await claim(app, email);
    const accepted = await accept(app, await invite(app, email, { key: app.keyA }), { password: PASSWORD });
    expect(accepted).toMatchObject({ status: 201, body: { workspace: { name: "alpha" } } });
    expect(await opened(app, email)).toEqual(["beta"]);
    expect(await opened(app, email, PASSWORD)).toEqual(["alpha"]); // the older claim does not shut the person out
  });

  test("S1: an invitation never changes the account of a person who is known", async () => {
    const { user, browser, code } = await withFactor(app);
    expect((await claim(app, user.email)).status).toBe(201);
    expect(await opened(app, user.email)).toEqual(["beta"]);
    expect((await browser.call("GET", "/v1/me")).body).toMatchObject({ user: { name: "Ada", second_factor: true } });
    expect(await statusOf(openBrowser(app).signIn(user.email))).toBe(401); // the code is asked for as before
    expect(await statusOf(openBrowser(app).signIn(user.email, { code: code(1) }))).toBe(201);
  });

  test("S1: the browser of a claimed account has no attempts of its own against the other accounts", async () => {
    const { email } = addUser(app);
    const { browser } = await claim(app, email);
    const guesses: number[] = [];
    for (let i = 0; i < 12; i++) {
      expect(await statusOf(browser.signIn(email, { workspace: "beta" }, ATTACKERS))).toBe(201); // a fresh device
      guesses.push(await statusOf(browser.signIn(email, {}, `guess ${i} of many`)));
    }
    expect(guesses.slice(10)).toEqual([429, 429]);
    expect(await statusOf(browser.signIn(email, {}))).toBe(429); // the right password tells nothing now
  });

  test("S1: the codes of a claimed account do not use up those of the person", async () => {
    const { user, code } = await withFactor(app);
    const { browser } = await claim(app, user.email);
    const begun = (await browser.call("POST", "/v1/me/second_factor", { password: ATTACKERS })).body;
    const own = authenticator(begun.secret, clock.now);
    await browser.call("POST", "/v1/me/second_factor/confirm", { code: own() });
    for (let i = 0; i < 6; i++) await openBrowser(app).signIn(user.email, { code: "000000" }, ATTACKERS);
    expect(await statusOf(openBrowser(app).signIn(user.email, { code: code(1) }))).toBe(201);
  });
});

test("S1: guesses by a claimed account, whose password is set to the guess, count against the person", async () => {
  const { email } = addUser(app);
  await claim(app, email); // an attempt as this account tries the password of the person too
  const statuses: number[] = [];
  for (let i = 0; i < 12; i++) statuses.push(await statusOf(openBrowser(app).signIn(email, {}, ATTACKERS)));
  expect(statuses).toEqual([...Array<number>(10).fill(201), 429, 429]);
});

test("S1: the database refuses an unproven person in a second workspace, and as an operator", async () => {
  const email = newEmail();
  await claim(app, email);
  const person = persons.findUnproven(app.ctx, app.workspaceB, email);
  if (!person) throw new Error("no person");
  expect(person).toMatchObject({ provenBy: null, workspaceId: app.workspaceB });
  const { workspaceA: workspaceId } = app;
  expect(() => people.join(app.ctx, person, { workspaceId, role: "viewer" })).toThrow("one workspace");
  const { id } = people.mustFind(app.ctx, app.workspaceB, email);
  const set = (column: string, value: string | number) => () =>
    app.ctx.db.$client.query(`UPDATE users SET ${column} = ? WHERE id = ?`).run(value, id);
  expect(set("is_operator", 1)).toThrow("one workspace");
  expect(set("workspace_id", workspaceId)).toThrow("one workspace");
});

describe("through a provider", () => {
  let provider: StartedProvider;
  const apps: TestApp[] = [];
  beforeAll(async () => {
    provider = await startProvider();
  });
  afterAll(async () => {
    for (const each of apps) await each.close().then(each.remove);
    await provider.close();
  });
  const newApp = (linkExisting: boolean) => {
    const made = oidcApp(provider.issuer, { flags: { "oidc.link_existing": linkExisting } });
    apps.push(made);
    return made;
  };
  const account = () => {
    const sub = `sub-${crypto.randomUUID()}`;
    const email = `${sub}@corp.test`;
    provider.add({ sub, email, email_verified: true, name: "Boss", groups: ["admins"] });
    return { sub, email };
  };

  test.each([true, false])(
    "S1 B: a claimed address neither opens the person's account nor shuts the person out (link_existing %p)",
    async (linkExisting) => {
      const at = newApp(linkExisting);
      const { sub, email } = account();
      expect((await claim(at, email)).status).toBe(201);
      const { browser, location } = await signInThrough(at, sub);
      expect(location).toBe("/");
      expect((await browser.call("GET", "/v1/me")).body).toMatchObject({
        user: { email, role: "admin", name: "Boss" },
        workspaces: [{ name: "alpha" }],
        has_password: false,
      });
      expect(await opened(at, email)).toEqual(["beta"]);
    },
  );

  test.each([true, false])(
    "S1: a claim in the provider's own workspace ends when the person comes (link_existing %p)",
    async (linkExisting) => {
      const at = newApp(linkExisting);
      const { sub, email } = account();
      const { browser: attacker } = await claim(at, email, { key: at.keyA, role: "admin" });
      const { key } = (await attacker.call("POST", "/v1/api_keys", { name: "kept" })).body;
      const { browser, location } = await signInThrough(at, sub);
      expect(location).toBe("/");
      expect((await browser.call("GET", "/v1/me")).body.user).toMatchObject({ email, name: "Boss", role: "admin" });
      expect(await statusOf(attacker.call("GET", "/v1/me"))).toBe(401);
      expect(await statusOf(at.call("GET", "/v1/volumes", undefined, { key }))).toBe(401);
      expect(await opened(at, email)).toEqual([]);
    },
  );

  test("S1 B: linking an account removes its password, its second factor and its sessions", async () => {
    const at = newApp(true);
    const { user, browser: old, code } = await withFactor(at);
    addUser(at, { email: user.email, workspaceId: at.workspaceB });
    const sub = `sub-${crypto.randomUUID()}`;
    provider.add({ sub, email: user.email, email_verified: true, groups: ["staff"] });
    const { browser, location } = await signInThrough(at, sub);
    expect(location).toBe("/");
    const { body } = await browser.call("GET", "/v1/me");
    expect(body).toMatchObject({ user: { id: user.id, second_factor: false }, has_password: false });
    expect(await statusOf(old.call("GET", "/v1/me"))).toBe(401);
    for (const workspace of ["alpha", "beta"])
      expect(await statusOf(openBrowser(at).signIn(user.email, { code: code(1), workspace }))).toBe(401);
  });

  test("S1 C: a removed person who was claimed meanwhile comes back without the claimer's password", async () => {
    const at = newApp(false);
    const { sub, email } = account();
    const first = await signInThrough(at, sub);
    const { id } = (await first.browser.call("GET", "/v1/me")).body.user;
    await at.call("DELETE", `/v1/users/${id}`);
    expect((await claim(at, email)).status).toBe(201);
    expect((await signInThrough(at, sub)).location).toBe("/#sign-in-failed=removed");
    addUser(at, { email, role: "admin" });
    expect(await opened(at, email)).toEqual(["beta"]);
    expect((await signInThrough(at, sub)).location).toBe("/");
    expect(await opened(at, email)).toEqual(["beta"]);
  });
});
