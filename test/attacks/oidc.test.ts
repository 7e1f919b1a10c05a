/** Attacks on the sign-in through a provider: replay, CSRF, fixation, mix-up, open redirects, leaks. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { loadConfig } from "../../src/platform/config/config.ts";
import { durable } from "../../src/platform/db/db.ts";
import { fakeClock, type TestApp } from "../harness.ts";
import { attempt, CODE, type Forger, failed, pending, startForger } from "../oidc_forger.ts";
import { atProvider, begin, CLIENT, comeBack, oidcApp, oidcFlags, startProvider } from "../oidc_kit.ts";
import { openBrowser } from "../people_kit.ts";

const clock = fakeClock();
let forger: Forger;
let app: TestApp;
beforeAll(async () => {
  forger = await startForger(clock.now);
  app = oidcApp(forger.issuer, { clock });
});
afterEach(() => clock.advance(300_000)); // forgives the failed attempts of the test before
afterAll(async () => {
  await app.close();
  app.remove();
  await forger.close();
});

const locationOf = ({ headers }: { headers: Headers }) => headers.get("location");

describe("replay", () => {
  test("an answer works once, also for a copy of the browser's cookies", async () => {
    const { browser, back } = await pending(app, forger);
    const thief = openBrowser(app);
    for (const [name, value] of browser.jar) thief.jar.set(name, value);
    expect(locationOf(await comeBack(browser, back))).toBe("/");
    for (const each of [browser, thief]) expect(locationOf(await comeBack(each, back))).toBe(failed("expired"));
    expect(thief.jar.has("verk_session")).toBe(false);
  });

  test("two answers at the same time make one session", async () => {
    const { browser, back } = await pending(app, forger);
    const both = await Promise.all([comeBack(browser, back), comeBack(browser, back)]);
    expect(both.map(locationOf).sort()).toEqual(["/", failed("expired")].sort());
  });

  test("a real provider refuses the code of another sign-in: the verifier does not fit", async () => {
    const provider = await startProvider();
    provider.add({ sub: "ada", email: "ada@example.com", email_verified: true, groups: ["staff"] });
    const real = oidcApp(provider.issuer);
    const [victim, thief] = [openBrowser(real), openBrowser(real)];
    const stolen = new URL(await atProvider(await begin(victim), "ada"));
    const own = new URL(await begin(thief));
    stolen.searchParams.set("state", own.searchParams.get("state") ?? "");
    expect((await comeBack(thief, stolen.href)).headers.get("location")).toBe(failed("provider"));
    expect(real.log.join("\n")).toContain("invalid_grant");
    await real.close();
    real.remove();
    await provider.close();
  }, 30_000);

  test("a sign-in ends after ten minutes", async () => {
    const { browser, back } = await pending(app, forger);
    clock.advance(600_000);
    expect(locationOf(await comeBack(browser, back))).toBe(failed("expired"));
  });
});

describe("CSRF and fixation", () => {
  test("a browser does not take the answer to another browser's sign-in", async () => {
    const { back } = await pending(app, forger);
    const [stranger, busy] = [openBrowser(app), openBrowser(app)];
    await begin(busy); // has a sign-in of its own
    for (const victim of [stranger, busy]) {
      expect(locationOf(await comeBack(victim, back))).toBe(failed("expired"));
      expect(victim.jar.has("verk_session")).toBe(false);
    }
  });

  test("the cookie of a sign-in cannot be made, changed, read by a page or sent by another page's request", async () => {
    const browser = openBrowser(app);
    const { headers } = await browser.call("GET", "/v1/logins/oidc");
    const [cookie = ""] = headers.getSetCookie();
    for (const part of ["HttpOnly", "SameSite=Lax", "Path=/v1/logins/oidc", "Max-Age=600"])
      expect(cookie).toContain(part);
    const url = new URL(headers.get("location") ?? "");
    const [value = "", proof = ""] = (browser.jar.get("verk_oidc") ?? "").split(".");
    const content = JSON.parse(Buffer.from(value, "base64url").toString());
    for (const secret of ["state", "nonce"])
      expect(JSON.stringify(content)).not.toContain(url.searchParams.get(secret));
    const changed = Buffer.from(JSON.stringify({ ...content, returnTo: "https://evil.example" })).toString("base64url");
    for (const planted of [`${changed}.${proof}`, `${value}.${"a".repeat(43)}`, `${changed}.`]) {
      browser.jar.set("verk_oidc", planted);
      const query = new URLSearchParams({ code: CODE, state: url.searchParams.get("state") ?? "" });
      const answer = await comeBack(browser, `http://localhost/v1/logins/oidc/callback?${query}`);
      expect(answer.headers.get("location")).toBe(failed("expired"));
    }
  });

  test("every sign-in makes a new session, and the one that the browser sends with it ends", async () => {
    const browser = openBrowser(app);
    browser.jar.set("verk_session", "p".repeat(43));
    await attempt(app, forger, { browser });
    const first = browser.jar.get("verk_session") ?? "";
    expect(first).not.toBe("p".repeat(43));
    await attempt(app, forger, { browser });
    expect(browser.jar.get("verk_session")).not.toBe(first);
    const old = openBrowser(app);
    old.jar.set("verk_session", first);
    expect((await old.call("GET", "/v1/me")).status).toBe(401);
  });
});

test("mix-up: an answer that names another issuer, none, or two is refused before the code is sent", async () => {
  const before = forger.sent.length;
  const iss = "https://attacker.example";
  expect((await attempt(app, forger, { query: { iss } })).location).toBe(failed("invalid_token"));
  for (const change of [
    (url: URL) => url.searchParams.delete("iss"),
    (url: URL) => url.searchParams.append("iss", iss),
  ]) {
    const { browser, back } = await pending(app, forger);
    const changed = new URL(back);
    change(changed);
    expect(locationOf(await comeBack(browser, changed.href))).toBe(failed("invalid_token"));
  }
  expect(forger.sent).toHaveLength(before);
});

test.each([
  ["/runs?status=failed#top", "/runs?status=failed#top"],
  ["//evil.example", "/"],
  ["/\\evil.example", "/"],
  ["/.//evil.example", "/"],
  ["/a/..//evil.example", "/"],
  ["https://evil.example/", "/"],
  ["javascript:alert(1)", "/"],
  ["/\t/evil.example", "/"],
  ["/x\r\nset-cookie: a=b", "/"],
  ["runs", "/"],
  ["", "/"],
])("open redirect: return_to %p leads to %p", async (returnTo, wanted) => {
  expect((await attempt(app, forger, { returnTo })).location).toBe(wanted);
});

describe("the provider's addresses", () => {
  const start = async (metadata: Record<string, unknown>) => {
    forger.setMetadata(metadata);
    clock.advance(3_600_000); // discovery is read again
    const { headers } = await openBrowser(app).call("GET", "/v1/logins/oidc");
    return headers.get("location");
  };

  test("discovery cannot lead the server to another port of the machine, the metadata service, or plain HTTP", async () => {
    const other = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.json({ keys: [] }) });
    const bad = [`http://127.0.0.1:${other.port}/jwks`, "https://169.254.169.254/keys", "http://provider.example/jwks"];
    for (const uri of [...bad, "file:///etc/passwd"]) expect(await start({ jwks_uri: uri })).toBe(failed("provider"));
    expect(await start({ authorization_endpoint: "javascript:alert(1)" })).toBe(failed("provider"));
    expect(await start({ issuer: "https://provider.example" })).toBe(failed("provider"));
    expect(await start({})).toStartWith(`${forger.issuer}/auth?`);
    await other.stop(true);
  });

  test("settings: plain HTTP only on the same machine, and no provider without a client and roles", () => {
    const load = (more: Record<string, unknown>) => () =>
      loadConfig({ env: { HOME: app.dir }, flags: { data_dir: app.dir, ...oidcFlags(forger.issuer, more) } });
    expect(load({})).not.toThrow();
    for (const issuer of ["http://provider.example", "http://127.0.0.1.evil.example", "ftp://x", "https://x/?a=b"])
      expect(load({ "oidc.issuer": issuer })).toThrow("oidc.issuer");
    for (const more of [{ "oidc.client_id": "" }, { "oidc.roles": [] }]) expect(load(more)).toThrow("oidc.roles");
    expect(load({ "oidc.roles": ["staff=king"] })).toThrow("group=role");
    expect(load({ "oidc.client_secret_file": "/x" })).toThrow("not both");
  });
});

test("failed answers have a limit for an address", async () => {
  const all: (string | null)[] = [];
  for (let i = 0; i < 52; i++) all.push((await attempt(app, forger, { make: () => "no token" })).location);
  expect(all.slice(0, 50)).toEqual(Array(50).fill(failed("invalid_token")));
  expect(all.slice(50)).toEqual(Array(2).fill(failed("too_many")));
  clock.advance(300_000);
  expect((await attempt(app, forger)).location).toBe("/");
});

test("no token, code or secret is stored or logged", async () => {
  forger.sent.length = 0;
  expect((await attempt(app, forger)).location).toBe("/");
  await attempt(app, forger, { claims: { nonce: "wrong" } });
  await attempt(app, forger, { make: () => "secret-that-is-no-token" });
  const denied = { error: "access_denied", error_description: "secret-description" };
  const { url } = await attempt(app, forger, { query: denied });
  await durable(app.ctx.db);
  app.ctx.db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const signatures = forger.sent.map((token) => token.split(".").at(-1) ?? token);
  const secrets = [...forger.sent, ...signatures, CODE, CLIENT.secret, "secret-description"];
  for (const name of ["state", "nonce"]) secrets.push(url.searchParams.get(name) ?? "missing");
  expect(forger.sent.length).toBeGreaterThan(5);
  for (const text of [Buffer.from(app.ctx.db.$client.serialize()).toString("latin1"), app.log.join("\n")])
    for (const secret of secrets) expect(text).not.toContain(secret);
  expect(app.log.join("\n")).toContain("access_denied");
});
