/** Attacks on the sign-in with a password, and on the session that it makes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../harness.ts";
import { addUser, openBrowser, PASSWORD, signedIn } from "../people_kit.ts";

let clock: ReturnType<typeof fakeClock>;
let app: TestApp;
beforeAll(() => {
  clock = fakeClock();
  app = testApp({ clock });
});
afterAll(() => app.close().then(app.remove));

const statuses = async (count: number, call: () => Promise<{ status: number }>) => {
  const all: number[] = [];
  for (let i = 0; i < count; i++) all.push((await call()).status);
  return all;
};

describe("brute force", () => {
  test("an account takes ten wrong passwords, then one each half minute; its owner's browser still gets in", async () => {
    const { email } = addUser(app);
    const owner = await signedIn(app, email);
    const attacker = openBrowser(app);
    const guess = () => attacker.signIn(email, {}, "wrong");
    expect(await statuses(12, guess)).toEqual([...Array<number>(10).fill(401), 429, 429]);
    const blocked = await attacker.signIn(email); // the right password tells nothing now
    expect(blocked.status).toBe(429);
    expect(Number(blocked.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await owner.signIn(email)).status).toBe(201);
    clock.advance(30_000);
    expect(await statuses(2, guess)).toEqual([401, 429]);
    clock.advance(3_600_000);
  });

  test("attempts at the same time count too", async () => {
    const { email } = addUser(app);
    const all = await Promise.all(Array.from({ length: 20 }, () => openBrowser(app).signIn(email, {}, "wrong")));
    expect(all.filter(({ status }) => status === 401)).toHaveLength(10);
    clock.advance(3_600_000);
  });

  test("one address takes 50 wrong passwords for any accounts", async () => {
    const emails = Array.from({ length: 11 }, () => addUser(app).email);
    const guesses = emails.flatMap((email) =>
      Array.from({ length: 5 }, () => openBrowser(app).signIn(email, {}, "wrong")),
    );
    const all = await Promise.all(guesses);
    expect(all.filter(({ status }) => status === 401)).toHaveLength(50);
    clock.advance(3_600_000);
  });

  test("the cookie of another person's browser, or a changed one, gives no attempts", async () => {
    const [{ email }, other] = [addUser(app), addUser(app)];
    const attacker = await signedIn(app, other.email);
    await statuses(10, () => attacker.signIn(email, {}, "wrong"));
    expect((await attacker.signIn(email, {}, "wrong")).status).toBe(429);
    attacker.jar.set("verk_device", `${"a".repeat(22)}.${"b".repeat(43)}`);
    expect((await attacker.signIn(email, {}, "wrong")).status).toBe(429);
    clock.advance(3_600_000);
  });

  test("successful sign-ins are not limited", async () => {
    const { email } = addUser(app);
    expect(new Set(await statuses(15, () => openBrowser(app).signIn(email)))).toEqual(new Set([201]));
  });

  test("an unknown address, a wrong password and a person without a workspace get the same answer", async () => {
    const { email } = addUser(app);
    const removed = addUser(app);
    await app.call("DELETE", `/v1/users/${removed.id}`);
    const answers = await Promise.all([
      openBrowser(app).signIn("nobody@example.com"),
      openBrowser(app).signIn(email, {}, "wrong"),
      openBrowser(app).signIn(removed.email),
    ]);
    const [first] = answers;
    for (const { status, body } of answers)
      expect([status, body.error.code, body.error.message]).toEqual([
        401,
        "invalid_credentials",
        first?.body.error.message,
      ]);
  });
});

describe("clock skew", () => {
  test("a new time of day gives an attacker no attempts, and a clock that is set back locks nobody out", async () => {
    const { email } = addUser(app);
    const attacker = openBrowser(app);
    await statuses(10, () => attacker.signIn(email, {}, "wrong"));
    clock.set(86_400_000);
    expect((await attacker.signIn(email, {}, "wrong")).status).toBe(429);
    clock.set(-2 * 86_400_000);
    expect((await attacker.signIn(email, {}, "wrong")).status).toBe(429);
    clock.advance(3_600_000);
    const browser = await signedIn(app, email);
    clock.set(-3_600_000);
    expect((await browser.call("GET", "/v1/account")).status).toBe(200);
    clock.set(86_400_000 + 3_600_000);
  });
});

describe("session fixation", () => {
  test("a token that an attacker planted is not used, and the session that was there before ends", async () => {
    const { email } = addUser(app);
    const browser = openBrowser(app);
    browser.jar.set("verk_session", "p".repeat(43));
    await browser.signIn(email);
    const token = browser.jar.get("verk_session");
    expect(token).not.toBe("p".repeat(43));
    const before = new Map(browser.jar);
    await browser.signIn(email);
    expect(browser.jar.get("verk_session")).not.toBe(token as string);
    const old = openBrowser(app);
    for (const [name, value] of before) old.jar.set(name, value);
    expect((await old.call("GET", "/v1/account")).status).toBe(401);
  });

  test("the cookies cannot be read by a page, and go to no other site", async () => {
    const answer = await openBrowser(app).signIn(addUser(app).email);
    const cookies = answer.headers.getSetCookie();
    expect(cookies.map((each) => each.split("=")[0])).toEqual(["verk_session", "verk_signed_in", "verk_device"]);
    for (const cookie of cookies) expect(cookie).toContain("SameSite=Strict");
    for (const secret of [cookies[0], cookies[2]]) expect(secret).toContain("HttpOnly");
  });
});

describe("CSRF", () => {
  test("another site can neither write with the session nor sign its visitor in", async () => {
    const { email } = addUser(app);
    const browser = await signedIn(app, email);
    const foreign = [{ "sec-fetch-site": "cross-site" }, { "sec-fetch-site": "same-site" }];
    for (const headers of foreign) {
      const write = await browser.call("POST", "/v1/volumes", { name: "forged" }, headers);
      expect(write).toMatchObject({ status: 403, body: { error: { code: "csrf_failed" } } });
      const login = await browser.call("POST", "/v1/logins", { email, password: PASSWORD }, headers);
      expect(login).toMatchObject({ status: 403, body: { error: { code: "csrf_failed" } } });
    }
    const origin = { origin: "https://evil.example", host: "localhost" };
    const headers = { ...origin, "content-type": "application/json" };
    const json = { email, password: PASSWORD };
    expect((await app.call("POST", "/v1/logins", json, { key: null, headers })).status).toBe(403);
    const form = { "content-type": "text/plain" };
    expect((await browser.call("POST", "/v1/logins", json, form)).status).toBe(415);
  });
});

describe("sessions", () => {
  test("users list and end their own, admins those of the workspace, and others none", async () => {
    const [ada, bo] = [addUser(app), addUser(app)];
    const [desk, phone, foreign] = [
      await signedIn(app, ada.email),
      await signedIn(app, ada.email),
      await signedIn(app, bo.email),
    ];
    const { data } = (await desk.call("GET", "/v1/browser_sessions")).body;
    expect(data.map(({ current, method }: { current: boolean; method: string }) => [current, method])).toEqual([
      [false, "password"],
      [true, "password"],
    ]);
    const phoneId = data[0].id as string;
    expect((await foreign.call("DELETE", `/v1/browser_sessions/${phoneId}`)).status).toBe(404);
    expect((await desk.call("DELETE", `/v1/browser_sessions/${phoneId}`)).status).toBe(200);
    expect((await phone.call("GET", "/v1/account")).status).toBe(401);
    const [mine] = (await foreign.call("GET", "/v1/browser_sessions")).body.data;
    const admin = await signedIn(app, addUser(app, { role: "admin" }).email);
    expect((await admin.call("DELETE", `/v1/browser_sessions/${mine.id}`)).status).toBe(200);
    expect((await foreign.call("GET", "/v1/account")).status).toBe(401);
  });

  test("end after 12 hours without a request", async () => {
    const browser = await signedIn(app, addUser(app).email);
    clock.advance(12 * 3_600_000);
    expect((await browser.call("GET", "/v1/account")).status).toBe(401);
  });
});
