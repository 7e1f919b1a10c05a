/** Attacks on the sign-in through a provider: forged tokens, replay, mix-up, CSRF, open redirects, leaks. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { loadConfig } from "../../src/platform/config/config.ts";
import { durable } from "../../src/platform/db/db.ts";
import { fakeClock, type TestApp } from "../harness.ts";
import { ALGORITHMS, type Forged, startForger } from "../oidc_forger.ts";
import { atProvider, begin, CLIENT, comeBack, oidcApp, oidcFlags, startProvider } from "../oidc_kit.ts";
import { type Browser, openBrowser } from "../people_kit.ts";

const clock = fakeClock();
let forger: Awaited<ReturnType<typeof startForger>>;
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

const failed = (why: string) => `/#sign-in-failed=${why}`;
const CODE = "a-code-of-the-provider";
const seconds = () => Math.floor(clock.now() / 1000);

/** A sign-in up to the answer of the provider, which `more` changes. */
async function attempt(forged: Forged, more: Record<string, string> = {}, browser = openBrowser(app)) {
  const url = new URL(await begin(browser));
  forger.forge(forged, url.searchParams.get("nonce") ?? "");
  const query = { code: CODE, state: url.searchParams.get("state") ?? "", iss: forger.issuer, ...more };
  const back = `/v1/logins/oidc/callback?${new URLSearchParams(query)}`;
  const answer = await browser.call("GET", back, undefined, { "sec-fetch-site": "cross-site" });
  return { browser, back, url, location: answer.headers.get("location"), isIn: browser.jar.has("verk_session") };
}
const refused = async (forged: Forged, why = "invalid_token") => {
  const { location, isIn } = await attempt(forged);
  expect([location, isIn]).toEqual([failed(why), false]);
};

describe("forged ID tokens", () => {
  test.each([...ALGORITHMS])("a true one with %s is taken", async (algorithm) => {
    expect(await attempt({ algorithm })).toMatchObject({ location: "/", isIn: true });
  });

  test("alg none, HMAC with the public key or the client secret, and other algorithms are refused", async () => {
    await refused({ make: (claims) => new UnsecuredJWT(claims).encode() });
    const hmac =
      (secret: string, alg = "HS256") =>
      (claims: JWTPayload) =>
        new SignJWT(claims).setProtectedHeader({ alg, kid: "RS256" }).sign(new TextEncoder().encode(secret));
    await refused({ make: hmac(await exportSPKI(forger.publicKey())) });
    await refused({ make: hmac(CLIENT.secret.padEnd(64), "HS512") });
    const { privateKey } = await generateKeyPair("RS512");
    await refused({ make: (claims) => new SignJWT(claims).setProtectedHeader({ alg: "RS512" }).sign(privateKey) });
  });

  test("a foreign key is refused, under the name of ours and inside the token", async () => {
    const { privateKey, publicKey } = await generateKeyPair("RS256", { extractable: true });
    const jwk = await exportJWK(publicKey);
    for (const header of [{ kid: "RS256" }, { kid: "RS256", jwk }, { jwk }, { jku: "http://127.0.0.1/keys" }])
      await refused({
        make: (claims) => new SignJWT(claims).setProtectedHeader({ alg: "RS256", ...header }).sign(privateKey),
      });
  });

  test("changed claims, a cut signature and text that is no token are refused", async () => {
    const changed = async (claims: JWTPayload) => {
      const [header, , signature] = (await forger.sign(claims, "RS256")).split(".");
      const other = Buffer.from(JSON.stringify({ ...claims, groups: ["admins"] })).toString("base64url");
      return `${header}.${other}.${signature}`;
    };
    await refused({ make: changed });
    await refused({ make: async (claims) => (await forger.sign(claims, "RS256")).replace(/\.[^.]*$/, ".") });
    await refused({ make: () => "no token" });
  });

  const others: [string, () => Record<string, unknown>][] = [
    ["another nonce", () => ({ nonce: "of another sign-in" })],
    ["no nonce", () => ({ nonce: undefined })],
    ["another audience", () => ({ aud: "another client" })],
    ["no audience", () => ({ aud: undefined })],
    ["several audiences and no azp", () => ({ aud: [CLIENT.id, "another client"] })],
    ["the azp of another client", () => ({ azp: "another client" })],
    ["another issuer", () => ({ iss: "https://provider.example" })],
    ["the issuer with a slash", () => ({ iss: `${forger.issuer}/` })],
    ["no subject", () => ({ sub: undefined })],
    ["an empty subject", () => ({ sub: "" })],
    ["a subject that is a number", () => ({ sub: 7 })],
    ["no expiry", () => ({ exp: undefined })],
    ["no time of issue", () => ({ iat: undefined })],
    ["an expiry that is a text", () => ({ exp: "9999999999" })],
    ["a start in the future", () => ({ nbf: seconds() + 120 })],
  ];
  test.each(others)("%s is refused", async (_name, claims) => {
    await refused({ claims: claims() });
  });

  test("clock skew: a minute is tolerated in both directions, and more is not", async () => {
    const at = (exp: number, iat: number) => ({ claims: { exp: seconds() + exp, iat: seconds() + iat } });
    for (const good of [at(-55, -100), at(300, 55), at(300, -600)]) expect((await attempt(good)).location).toBe("/");
    for (const bad of [at(-65, -100), at(300, 65), at(86_400, -700)]) await refused(bad);
  });

  test("userinfo about another person is refused", async () => {
    const claims = { email: undefined, groups: undefined };
    const info = { email: "forged@example.com", email_verified: true, groups: ["admins"] };
    await refused({ claims, userinfo: { ...info, sub: "someone else" } });
    expect((await attempt({ claims, userinfo: { ...info, sub: "forged" } })).location).toBe("/");
  });

  test("an address counts as verified only by the claims that it came with, and only by true", async () => {
    const info = { sub: "forged", email: "forged@example.com", groups: ["staff"] };
    await refused({ claims: { email: undefined, groups: undefined }, userinfo: info }, "no_email");
    for (const value of ["true", 1, false, null]) await refused({ claims: { email_verified: value } }, "no_email");
  });
});

test("new keys of the provider are read again, at most once a minute", async () => {
  clock.advance(3_600_000); // the next sign-in reads them
  expect((await attempt({})).location).toBe("/");
  await forger.rotate("RS256-second");
  expect((await attempt({})).location).toBe(failed("invalid_token"));
  clock.advance(61_000);
  expect((await attempt({})).location).toBe("/");
  await forger.rotate("RS256");
  clock.advance(3_600_000);
});

describe("replay", () => {
  test("an answer works once, also for a copy of the browser's cookies", async () => {
    const browser = openBrowser(app);
    const pending = await begin(browser);
    const cookies = new Map(browser.jar);
    const { searchParams } = new URL(pending);
    forger.forge({}, searchParams.get("nonce") ?? "");
    const query = new URLSearchParams({ code: CODE, state: searchParams.get("state") ?? "", iss: forger.issuer });
    const back = `http://localhost/v1/logins/oidc/callback?${query}`;
    expect((await comeBack(browser, back)).headers.get("location")).toBe("/");
    const thief = openBrowser(app);
    for (const [name, value] of cookies) thief.jar.set(name, value);
    for (const each of [browser, thief])
      expect((await comeBack(each, back)).headers.get("location")).toBe(failed("expired"));
    expect(thief.jar.has("verk_session")).toBe(false);
  });

  test("two answers at the same time make one session", async () => {
    const { browser, back } = await attempt({}, { state: "wrong" });
    expect(back).toContain("wrong");
    const url = new URL(await begin(browser));
    forger.forge({}, url.searchParams.get("nonce") ?? "");
    const query = { code: CODE, state: url.searchParams.get("state") ?? "", iss: forger.issuer };
    const path = `/v1/logins/oidc/callback?${new URLSearchParams(query)}`;
    const both = await Promise.all([browser.call("GET", path), browser.call("GET", path)]);
    expect(both.map(({ headers }) => headers.get("location")).sort()).toEqual(["/", failed("expired")].sort());
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
    const browser = openBrowser(app);
    const { searchParams } = new URL(await begin(browser));
    forger.forge({}, searchParams.get("nonce") ?? "");
    clock.advance(600_000);
    const query = new URLSearchParams({ code: CODE, state: searchParams.get("state") ?? "", iss: forger.issuer });
    const answer = await comeBack(browser, `http://localhost/v1/logins/oidc/callback?${query}`);
    expect(answer.headers.get("location")).toBe(failed("expired"));
  });
});

describe("CSRF and fixation", () => {
  test("a browser does not take the answer to another browser's sign-in", async () => {
    const attacker = new URL(await begin(openBrowser(app)));
    const state = attacker.searchParams.get("state") ?? "";
    expect(await attempt({}, { state })).toMatchObject({ location: failed("expired"), isIn: false });
    const victim = openBrowser(app); // without a sign-in of its own
    const query = new URLSearchParams({ code: CODE, state, iss: forger.issuer });
    await comeBack(victim, `http://localhost/v1/logins/oidc/callback?${query}`);
    expect(victim.jar.has("verk_session")).toBe(false);
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

  test("every sign-in makes a new session, and the one that the browser had before ends", async () => {
    const browser = openBrowser(app);
    browser.jar.set("verk_session", "p".repeat(43));
    await attempt({}, {}, browser);
    const first = browser.jar.get("verk_session") ?? "";
    expect(first).not.toBe("p".repeat(43));
    await attempt({}, {}, browser);
    expect(browser.jar.get("verk_session")).not.toBe(first);
    const old = openBrowser(app);
    old.jar.set("verk_session", first);
    expect((await old.call("GET", "/v1/me")).status).toBe(401);
  });
});

test("mix-up: an answer that names another issuer, none, or two is refused before the code is sent", async () => {
  const before = forger.sent.length;
  expect((await attempt({}, { iss: "https://attacker.example" })).location).toBe(failed("invalid_token"));
  const browser = openBrowser(app);
  for (const query of [`code=${CODE}`, `code=${CODE}&iss=${forger.issuer}&iss=https://attacker.example`]) {
    const state = new URL(await begin(browser)).searchParams.get("state");
    const answer = await comeBack(browser, `http://localhost/v1/logins/oidc/callback?${query}&state=${state}`);
    expect(answer.headers.get("location")).toBe(failed("invalid_token"));
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
])("open redirect: return_to %p leads to %p", async (given, wanted) => {
  const browser: Browser = openBrowser(app);
  const { searchParams } = new URL(await begin(browser, given));
  forger.forge({}, searchParams.get("nonce") ?? "");
  const query = new URLSearchParams({ code: CODE, state: searchParams.get("state") ?? "", iss: forger.issuer });
  const answer = await comeBack(browser, `http://localhost/v1/logins/oidc/callback?${query}`);
  expect(answer.headers.get("location")).toBe(wanted);
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
  for (let i = 0; i < 52; i++) all.push((await attempt({ make: () => "no token" })).location);
  expect(all.slice(0, 50)).toEqual(Array(50).fill(failed("invalid_token")));
  expect(all.slice(50)).toEqual(Array(2).fill(failed("too_many")));
  clock.advance(300_000);
  expect((await attempt({})).location).toBe("/");
});

test("no token, code or secret is stored or logged", async () => {
  forger.sent.length = 0;
  expect((await attempt({})).location).toBe("/");
  await attempt({ claims: { nonce: "wrong" } });
  await attempt({ make: () => "secret-that-is-no-token" });
  const { url } = await attempt({}, { error: "access_denied", error_description: "secret-description" });
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
