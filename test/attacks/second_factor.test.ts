/** Attacks on the second factor: guesses, codes used twice, stolen keys, and the way around it. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { durable } from "../../src/platform/db/db.ts";
import { authenticate } from "../../src/resources/access/api_keys/authenticate.ts";
import { fakeClock, type TestApp, testApp } from "../harness.ts";
import { addUser, authenticator, beginningFactor, openBrowser, PASSWORD, signedIn, withFactor } from "../people_kit.ts";

let clock: ReturnType<typeof fakeClock>;
let app: TestApp;
beforeAll(() => {
  clock = fakeClock();
  app = testApp({ clock });
});
afterAll(() => app.close().then(app.remove));

const STEP_MS = 30_000;
const codeOfError = async (call: Promise<{ status: number; body: { error?: { code: string } } }>) => {
  const { status, body } = await call;
  return [status, body.error?.code];
};

describe("sign-in with a second factor", () => {
  test("from enrolment to the next sign-in", async () => {
    const { email } = addUser(app);
    const [browser, other] = [await signedIn(app, email), await signedIn(app, email)];
    const begun = await browser.call("POST", "/v1/me/second_factor", { password: PASSWORD });
    expect(begun.body.otpauth_uri).toStartWith("otpauth://totp/Verk:");
    expect((await openBrowser(app).signIn(email)).status).toBe(201); // not yet confirmed
    const code = authenticator(begun.body.secret, () => clock.now());
    const confirmed = await browser.call("POST", "/v1/me/second_factor/confirm", { code: code() });
    expect(confirmed.body.recovery_codes).toHaveLength(10);
    expect((await browser.call("GET", "/v1/me")).body).toMatchObject({
      user: { email, second_factor: true },
      recovery_codes_left: 10,
    });
    expect((await other.call("GET", "/v1/account")).status).toBe(401); // it began without the factor
    expect(await codeOfError(openBrowser(app).signIn(email))).toEqual([401, "second_factor_required"]);
    clock.advance(STEP_MS);
    expect((await openBrowser(app).signIn(email, { code: code() })).status).toBe(201);
  });

  test("a wrong password tells nothing about the factor, with the right code or without one", async () => {
    const { user, code } = await withFactor(app);
    for (const more of [{}, { code: code(1) }])
      expect(await codeOfError(openBrowser(app).signIn(user.email, more, "a wrong password"))).toEqual([
        401,
        "invalid_credentials",
      ]);
    expect((await openBrowser(app).signIn(user.email, { code: code(1) })).status).toBe(201); // it was not used up
  });

  test("replay: a code works once, also for two requests at the same time, and an older one not at all", async () => {
    const { user, code } = await withFactor(app);
    expect((await openBrowser(app).signIn(user.email, { code: code() })).status).toBe(401); // it confirmed
    const both = await Promise.all([1, 2].map(() => openBrowser(app).signIn(user.email, { code: code(1) })));
    expect(both.map(({ status }) => status).sort()).toEqual([201, 401]);
    clock.advance(2 * STEP_MS);
    expect((await openBrowser(app).signIn(user.email, { code: code(1) })).status).toBe(201);
    expect((await openBrowser(app).signIn(user.email, { code: code() })).status).toBe(401);
  });

  test("a recovery code works once, in any spelling", async () => {
    const { user, browser, recoveryCodes } = await withFactor(app);
    const [first = ""] = recoveryCodes;
    const typed = first.toUpperCase().replaceAll("-", " ");
    expect((await openBrowser(app).signIn(user.email, { code: typed })).status).toBe(201);
    expect((await openBrowser(app).signIn(user.email, { code: first })).status).toBe(401);
    expect((await browser.call("GET", "/v1/me")).body.recovery_codes_left).toBe(9);
  });

  test("brute force: five guesses of a code, then one each five minutes; the owner's browser still gets in", async () => {
    const { user, browser, code } = await withFactor(app);
    const guess = () => openBrowser(app).signIn(user.email, { code: "000000" });
    const statuses: number[] = [];
    for (let i = 0; i < 7; i++) statuses.push((await guess()).status);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429]);
    expect((await openBrowser(app).signIn(user.email, { code: code(1) })).status).toBe(429);
    expect((await browser.signIn(user.email, { code: code(1) })).status).toBe(201);
    clock.advance(300_000);
    expect([(await guess()).status, (await guess()).status]).toEqual([401, 429]);
  });
});

describe("the factor itself", () => {
  test("needs the password to begin, and the password and a code to remove", async () => {
    const { user, browser, code } = await withFactor(app);
    const path = "/v1/me/second_factor";
    expect(await codeOfError(browser.call("POST", path, { password: PASSWORD }))).toEqual([400, "unsupported_state"]);
    const wrong = { password: "wrong", code: code(1) };
    expect((await browser.call("POST", `${path}/remove`, wrong)).body.error.param).toBe("/password");
    const noCode = { password: PASSWORD, code: "000000" };
    expect((await browser.call("POST", `${path}/remove`, noCode)).body.error.param).toBe("/code");
    expect((await browser.call("POST", `${path}/remove`, { password: PASSWORD, code: code(1) })).status).toBe(200);
    expect((await openBrowser(app).signIn(user.email)).status).toBe(201);
    expect((await browser.call("POST", path, { password: "wrong" })).status).toBe(400);
  });

  test("cannot be changed with a key, not even with one of the same person", async () => {
    const user = addUser(app, { role: "admin" });
    const { key } = (await (await signedIn(app, user.email)).call("POST", "/v1/api_keys", { name: "stolen" })).body;
    const begun = app.call("POST", "/v1/me/second_factor", { password: PASSWORD }, { key });
    expect(await codeOfError(begun)).toEqual([400, "unsupported_state"]);
    expect(authenticate(app.ctx, key).userId).toBe(user.id);
  });

  test("that waits longer than ten minutes for its first code has to begin again", async () => {
    const { browser, code } = await beginningFactor(app);
    clock.advance(600_001);
    const confirmed = browser.call("POST", "/v1/me/second_factor/confirm", { code: code() });
    expect(await codeOfError(confirmed)).toEqual([400, "unsupported_state"]);
  });

  test("is removed by an owner; of a person with other workspaces only by the operator", async () => {
    const { user } = await withFactor(app);
    const path = `/v1/users/${user.id}/second_factor`;
    const admin = await signedIn(app, addUser(app, { role: "admin" }).email);
    const member = await signedIn(app, addUser(app).email);
    expect((await member.call("DELETE", path)).status).toBe(403);
    addUser(app, { email: user.email, workspaceId: app.workspaceB });
    expect((await admin.call("DELETE", path)).status).toBe(403);
    expect((await openBrowser(app).signIn(user.email)).status).toBe(401);
    const alone = await withFactor(app);
    expect((await admin.call("DELETE", `/v1/users/${alone.user.id}/second_factor`)).body.second_factor).toBeFalse();
    expect((await openBrowser(app).signIn(alone.user.email)).status).toBe(201);
  });

  test("is sealed: neither the secret nor a recovery code is in the database or in the log", async () => {
    const { email } = addUser(app);
    const browser = await signedIn(app, email);
    const { body } = await browser.call("POST", "/v1/me/second_factor", { password: PASSWORD });
    const code = authenticator(body.secret, () => clock.now());
    const confirmed = await browser.call("POST", "/v1/me/second_factor/confirm", { code: code() });
    await durable(app.ctx.db);
    app.ctx.db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
    const stored = Buffer.from(app.ctx.db.$client.serialize()).toString("latin1");
    const secrets = [body.secret, ...confirmed.body.recovery_codes] as string[];
    for (const text of [stored, JSON.stringify(app.log)])
      for (const secret of secrets) expect(text).not.toContain(secret);
    expect(stored).not.toContain(secrets[1]?.replaceAll("-", ""));
  });
});

test("a changed password ends the other sessions and needs the old one", async () => {
  const { email } = addUser(app);
  const [desk, phone] = [await signedIn(app, email), await signedIn(app, email)];
  const change = (password: string) =>
    desk.call("POST", "/v1/me/password", { password, new_password: "five rivers of glass" });
  expect((await change("wrong")).status).toBe(400);
  expect((await change(PASSWORD)).status).toBe(200);
  expect((await desk.call("GET", "/v1/me")).status).toBe(200);
  expect((await phone.call("GET", "/v1/me")).status).toBe(401);
  expect((await openBrowser(app).signIn(email)).status).toBe(401);
});
