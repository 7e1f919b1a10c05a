// tier: all (every page in a browser)
/** Sign-in through a real OpenID Connect provider in a real browser, from one site to another and back. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startBinary } from "../binary.ts";
import { oidcFlags, type StartedProvider, startProvider } from "../oidc_kit.ts";
import { CHROMIUM, type Dashboard, openDashboard } from "./kit.ts";
import { promptOf, signInByLink } from "./provider_page.ts";

let provider: StartedProvider;
let server: Awaited<ReturnType<typeof startBinary>>;
let page: Dashboard;

const ADA = { sub: "ada", email: "ada@example.com", email_verified: true, name: "Ada", groups: ["staff"] };
const LINK = "Sign in with Example Login";

/** The settings of the kit as environment variables. */
const environment = (issuer: string) =>
  Object.fromEntries(
    Object.entries(oidcFlags(issuer, { "oidc.workspace": "default", "oidc.name": "Example Login" })).map(
      ([path, value]) => [`VERK_${path.replace(".", "__").toUpperCase()}`, String(value)],
    ),
  );

describe.skipIf(CHROMIUM === null)("a person with an account at the provider", () => {
  beforeAll(async () => {
    provider = await startProvider();
    provider.add(ADA);
    server = await startBinary({ env: environment(provider.issuer) });
    await server.apiKey(); // without a key, the server shows its setup page
    // Another name than that of the provider: a browser takes two ports of one host for the same site.
    const origin = server.url.replace("127.0.0.1", "localhost");
    provider.register(`${origin}/v1/logins/oidc/callback`);
    page = await openDashboard(origin);
  }, 60_000);
  afterAll(async () => {
    await page?.close();
    await server?.kill();
    await provider?.close();
  });

  test("who declines at the provider reads it on the sign-in page", async () => {
    await page.at("/datasets");
    await page.waitFor("the link", () => page.has("link", LINK));
    expect(await page.check({ expected: /401/ })).toEqual([]);
    await page.click("link", LINK);
    await page.waitFor("the provider", async () => (await promptOf(page)) === "login");
    await page.click("link", "[ Cancel ]");
    await page.waitForText("The provider has not signed you in");
    await page.waitFor("a clean address", async () => (await page.run<string>("location.hash")) === "");
  }, 60_000);

  test("signs in, comes back to the page that was asked for, and signs out", async () => {
    await page.at("/datasets");
    await signInByLink(page, LINK, "ada");
    await page.waitForText("No dataset yet");
    expect(await page.path()).toBe("/datasets");
    await page.at("/me");
    await page.waitForText("ada@example.com");
    await page.waitForText("provider");
    const { cookies } = (await page.send("Network.getCookies", { urls: [page.origin] })) as { cookies: Cookie[] };
    expect(cookies.find(({ name }) => name === "verk_session")).toMatchObject({ httpOnly: true, sameSite: "Strict" });
    expect(await page.run<string>("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])")).toBe(
      `[{"verk.theme":"auto"},{}]`,
    );
    await page.click("button", "Sign out");
    await page.waitFor("the sign-in page", () => page.has("link", LINK));
    expect(await page.run<number>("fetch('/v1/me').then(({ status }) => status)")).toBe(401);
  }, 60_000);

  test("who has lost every group with a role is refused with the reason", async () => {
    provider.add({ ...ADA, groups: [] });
    await page.at("/");
    await signInByLink(page, LINK, "ada");
    await page.waitForText("None of your groups has a role");
    expect(await page.run<number>("fetch('/v1/me').then(({ status }) => status)")).toBe(401);
    for (const secret of ["code=", "the secret of the client"]) expect(server.stderr()).not.toContain(secret);
  }, 60_000);
});

type Cookie = { name: string; httpOnly: boolean; sameSite?: string };
