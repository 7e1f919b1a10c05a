/** Sign-in through a real OpenID Connect provider, from the button to the session. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { durable } from "../../src/platform/db/db.ts";
import { type TestApp, tempDir, testApp } from "../harness.ts";
import { CLIENT, oidcApp, type StartedProvider, signInThrough, startProvider } from "../oidc_kit.ts";
import { addUser, openBrowser, PASSWORD } from "../people_kit.ts";

let provider: StartedProvider;
let app: TestApp;
beforeAll(async () => {
  provider = await startProvider();
  app = oidcApp(provider.issuer, { flags: { "oidc.name": "Lab ID" } });
});
afterAll(async () => {
  await app.close();
  app.remove();
  await provider.close();
});

const failed = (why: string) => `/#sign-in-failed=${why}`;
let made = 0;
/** An account of the provider with a verified address. */
const account = (more: { groups?: string[]; email?: string; email_verified?: boolean } = {}) => {
  const sub = `sub-${++made}`;
  return provider.add({
    sub,
    email: `${sub}@example.com`,
    email_verified: true,
    name: "Ada L",
    groups: ["staff"],
    ...more,
  });
};

test("the sign-in page knows the provider, and offers no password on a server without one", async () => {
  const { body } = await app.call("GET", "/v1/logins/options", undefined, { key: null });
  expect(body).toEqual({ object: "sign_in_options", password: false, oidc: { name: "Lab ID" } });
});

test("a new person gets an account with the role of the group, without a password", async () => {
  const { sub, email } = account({ groups: ["other", "staff", "guests"] });
  const { browser, answer, location } = await signInThrough(app, sub);
  expect([answer.status, location]).toEqual([303, "/"]);
  const { body } = await browser.call("GET", "/v1/me");
  expect(body).toMatchObject({
    user: { email: email as string, name: "Ada L", role: "member", operator: false },
    workspace: { id: app.workspaceA },
    has_password: false,
  });
  const [session] = (await browser.call("GET", "/v1/browser_sessions")).body.data;
  expect(session).toMatchObject({ method: "oidc", current: true });
  expect((await openBrowser(app).signIn(email as string, {}, PASSWORD)).status).toBe(401);
  expect((await openBrowser(app).signIn(email as string, {}, "null")).status).toBe(401);
});

test("the same subject is the same person, whatever the address is now", async () => {
  const { sub } = account();
  const first = await signInThrough(app, sub);
  const { body: before } = await first.browser.call("GET", "/v1/me");
  account({ email: "unrelated@example.com" });
  provider.add({ sub, email: `renamed-${sub}@example.com`, email_verified: true, groups: ["staff"] });
  const second = await signInThrough(app, sub);
  expect((await second.browser.call("GET", "/v1/me")).body.user.id).toBe(before.user.id);
});

test("a role follows the groups at the next sign-in; without a group the person is refused, and sessions and keys end", async () => {
  const { sub, email = "" } = account({ groups: ["staff", "admins"] });
  const { browser } = await signInThrough(app, sub);
  expect((await browser.call("GET", "/v1/me")).body.user.role).toBe("admin");
  await browser.call("GET", "/v1/browser_sessions/current"); // gives the browser the token for writes
  const { key } = (await browser.call("POST", "/v1/api_keys", { name: "notebook" })).body;
  const keyStatus = async () => (await app.call("GET", "/v1/volumes", undefined, { key })).status;
  provider.add({ sub, email, email_verified: true, groups: ["guests"] });
  const demoted = await signInThrough(app, sub);
  await demoted.browser.call("GET", "/v1/browser_sessions/current"); // gives the browser the token for writes
  const write = await demoted.browser.call("POST", "/v1/volumes", { name: "v" });
  expect(write).toMatchObject({ status: 403, body: { error: { code: "missing_scope" } } });
  expect(await keyStatus()).toBe(200);
  provider.add({ sub, email, email_verified: true, groups: [] });
  expect((await signInThrough(app, sub)).location).toBe(failed("no_role"));
  expect((await demoted.browser.call("GET", "/v1/me")).status).toBe(401);
  expect(await keyStatus()).toBe(401);
  provider.add({ sub, email, email_verified: true, groups: ["guests"] });
  const again = await signInThrough(app, sub);
  expect((await again.browser.call("GET", "/v1/me")).body.user.role).toBe("viewer");
});

test("a stranger without a matching group is refused, and no account is made", async () => {
  const { sub, email } = account({ groups: ["others"] });
  expect((await signInThrough(app, sub)).location).toBe(failed("no_role"));
  const { data } = (await app.call("GET", "/v1/users?limit=100")).body;
  expect(data.map((user: { email: string }) => user.email)).not.toContain(email);
});

test("a removed user stays out until an owner adds the person again", async () => {
  const { sub } = account();
  const { browser } = await signInThrough(app, sub);
  const { id, email } = (await browser.call("GET", "/v1/me")).body.user;
  await app.call("DELETE", `/v1/users/${id}`);
  expect((await signInThrough(app, sub)).location).toBe(failed("removed"));
  addUser(app, { email, role: "viewer" });
  expect((await signInThrough(app, sub)).location).toBe("/");
});

describe("an existing account", () => {
  test("with a password is not opened by the provider, unless oidc.link_existing says so", async () => {
    const { email } = addUser(app);
    const { sub } = account({ email });
    expect((await signInThrough(app, sub)).location).toBe(failed("account_exists"));
    const linking = oidcApp(provider.issuer, { flags: { "oidc.link_existing": true } });
    const mine = addUser(linking, { email, role: "viewer" });
    const { browser, location } = await signInThrough(linking, sub);
    expect(location).toBe("/");
    expect((await browser.call("GET", "/v1/me")).body.user).toMatchObject({ id: mine.id, role: "member" });
    await linking.close();
    linking.remove();
  });

  test("is not opened by an address that the provider has not verified, or has given to someone else", async () => {
    const unverified = account({ email_verified: false });
    expect((await signInThrough(app, unverified.sub)).location).toBe(failed("no_email"));
    const first = account();
    await signInThrough(app, first.sub);
    const second = account({ email: first.email as string });
    expect((await signInThrough(app, second.sub)).location).toBe(failed("account_exists"));
  });
});

test("the client secret may stand in a file, and a wrong one fails with the reason in the log", async () => {
  const file = join(tempDir(), "secret");
  const other = oidcApp(provider.issuer, { flags: { "oidc.client_secret": "", "oidc.client_secret_file": file } });
  const { sub } = account();
  expect((await signInThrough(other, sub)).location).toBe(failed("provider"));
  writeFileSync(file, "wrong\n");
  expect((await signInThrough(other, sub)).location).toBe(failed("provider"));
  expect(other.log.join("\n")).toContain("/token answered 401: invalid_client");
  writeFileSync(file, `${CLIENT.secret}\n`);
  expect((await signInThrough(other, sub)).location).toBe("/");
  await other.close();
  other.remove();
});

test("a provider that cannot be reached leads back to the sign-in page; without a provider there is no such page", async () => {
  const other = oidcApp("http://127.0.0.1:9"); // a closed port
  const { headers } = await openBrowser(other).call("GET", "/v1/logins/oidc");
  expect(headers.get("location")).toBe(failed("provider"));
  await other.close();
  other.remove();
  const plain = testApp();
  for (const path of ["/v1/logins/oidc", "/v1/logins/oidc/callback?code=x&state=y"])
    expect((await plain.call("GET", path, undefined, { key: null })).status).toBe(404);
  expect((await plain.call("GET", "/v1/logins/options")).body.oidc).toBeNull();
  await plain.close();
  plain.remove();
});

test("the audit log names the person who signed in", async () => {
  const { sub } = account();
  const { browser } = await signInThrough(app, sub);
  await durable(app.ctx.db);
  const { id } = (await browser.call("GET", "/v1/me")).body.user;
  const { data } = (await app.call("GET", `/v1/account/audit_log?user_id=${id}`)).body;
  expect(data[0]).toMatchObject({ route: "/v1/logins/oidc/callback", status: 303, user: { id } });
});
