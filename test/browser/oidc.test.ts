/** Sign-in through a real provider in a real browser. The provider is another site: 127.0.0.1, not localhost. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CLIENT, type StartedProvider, startProvider } from "../oidc_kit.ts";
import { CHROMIUM, type Dashboard, openDashboard, startDashboard } from "./kit.ts";

let provider: StartedProvider;
let world: Awaited<ReturnType<typeof startDashboard>>;
let page: Dashboard;

/** Fills and sends the forms of the provider: the sign-in, then the consent. */
async function passProvider(login: string) {
  for (const prompt of ["login", "consent"]) {
    const has = `document.querySelector('[name="prompt"]')?.value === "${prompt}"`;
    await page.waitFor(`the provider's page ${prompt}`, () => page.run<boolean>(has).catch(() => false));
    await page.run(`for (const [name, value] of [["login", "${login}"], ["password", "any"]]) {
      const field = document.querySelector(\`[name="\${name}"]\`);
      if (field) field.value = value;
    }
    setTimeout(() => document.forms[0].submit())`);
  }
}

describe.skipIf(CHROMIUM === null)("a person of the provider", () => {
  beforeAll(async () => {
    provider = await startProvider();
    const env = {
      ...{ VERK_OIDC__ISSUER: provider.issuer, VERK_OIDC__CLIENT_ID: CLIENT.id, VERK_OIDC__NAME: "Lab ID" },
      ...{ VERK_OIDC__CLIENT_SECRET: CLIENT.secret, VERK_OIDC__ROLES: "staff=member" },
      VERK_OIDC__SCOPES: "openid,profile,email,groups",
    };
    world = await startDashboard({ signIn: false, env });
    const origin = world.server.url.replace("127.0.0.1", "localhost");
    provider.register(`${origin}/v1/logins/oidc/callback`);
    page = await openDashboard(origin);
  }, 60_000);
  afterAll(async () => {
    await page?.close();
    await world?.close();
    await provider?.close();
  });

  test("without a group is refused with the reason on the sign-in page", async () => {
    provider.add({ sub: "bo", email: "bo@example.com", email_verified: true, groups: [] });
    await page.at("/");
    await page.click("link", "Sign in with Lab ID");
    await passProvider("bo");
    await page.waitForText("None of your groups has a role on this server");
    expect(await page.run<string>("location.hash")).toBe("");
    await page.send("Network.clearBrowserCookies");
  }, 60_000);

  test("signs in by the button, comes back to the page that was asked for, and stays signed in", async () => {
    provider.add({ sub: "ada", email: "ada@example.com", email_verified: true, name: "Ada", groups: ["staff"] });
    await page.at("/me");
    expect(await page.axe()).toEqual([]);
    await page.click("link", "Sign in with Lab ID");
    await passProvider("ada");
    await page.waitForText("ada@example.com");
    expect(await page.path()).toBe("/me");
    await page.waitForText("provider"); // how the session began
    await page.at("/runs");
    await page.waitFor("the page", () => page.run<boolean>("!!document.querySelector('.app')"));
    for (const secret of [CLIENT.secret, "code=", "access_token"]) expect(world.server.stderr()).not.toContain(secret);
  }, 60_000);
});
