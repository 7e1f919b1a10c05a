/** Forged, changed, old and foreign ID tokens at the sign-in through a provider. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { exportJWK, exportSPKI, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { fakeClock, type TestApp } from "../harness.ts";
import { ALGORITHMS, attempt, type Forged, type Forger, failed, startForger } from "../oidc_forger.ts";
import { CLIENT, oidcApp } from "../oidc_kit.ts";

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

const seconds = () => Math.floor(clock.now() / 1000);
const refused = async (forged: Forged, why = "invalid_token") => {
  const { location, isIn } = await attempt(app, forger, forged);
  expect([location, isIn]).toEqual([failed(why), false]);
};

describe("forged ID tokens", () => {
  test.each([...ALGORITHMS])("a true one with %s is taken", async (algorithm) => {
    expect(await attempt(app, forger, { algorithm })).toMatchObject({ location: "/", isIn: true });
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
    for (const good of [at(-55, -100), at(300, 55), at(300, -600)])
      expect((await attempt(app, forger, good)).location).toBe("/");
    for (const bad of [at(-65, -100), at(300, 65), at(86_400, -700)]) await refused(bad);
  });

  test("userinfo about another person is refused", async () => {
    const claims = { email: undefined, groups: undefined };
    const info = { email: "forged@example.com", email_verified: true, groups: ["admins"] };
    await refused({ claims, userinfo: { ...info, sub: "someone else" } });
    expect((await attempt(app, forger, { claims, userinfo: { ...info, sub: "forged" } })).location).toBe("/");
  });

  test("an address counts as verified only by the claims that it came with, and only by true", async () => {
    const info = { sub: "new", email: "forged@example.com", groups: ["staff"] };
    await refused({ claims: { sub: "new", email: undefined, groups: undefined }, userinfo: info }, "no_email");
    for (const value of ["true", 1, false, null])
      await refused({ claims: { sub: "new", email_verified: value } }, "no_email");
  });
});

test("new keys of the provider are read again, at most once a minute", async () => {
  clock.advance(3_600_000); // the next sign-in reads them
  expect((await attempt(app, forger)).location).toBe("/");
  await forger.rotate("RS256-second");
  expect((await attempt(app, forger)).location).toBe(failed("invalid_token"));
  clock.advance(61_000);
  expect((await attempt(app, forger)).location).toBe("/");
  await forger.rotate("RS256");
  clock.advance(3_600_000);
});
