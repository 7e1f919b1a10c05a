// tier: all (every page in a browser)
/** Keys, usage, audit log, regions and settings, as a user sees them. */
import { describe, expect, test } from "bun:test";
import { makeKey } from "../cli.ts";
import { CHROMIUM, type Dashboard, openDashboard, SIZES, startDashboard } from "./kit.ts";

const XSS = '<img src=x onerror="window.hacked=1">';

async function clean(page: Dashboard) {
  expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  expect(await page.axe()).toEqual([]);
  for (const size of [SIZES.phone, SIZES.tablet, SIZES.desktop]) {
    await page.resize(size);
    expect(await page.faults()).toEqual([]);
  }
}

describe.skipIf(CHROMIUM === null)("account pages", () => {
  test("a key is made and shown once; revoked, its page is locked out", async () => {
    const { server, page, close } = await startDashboard({ signIn: false });
    await page.signIn((await makeKey(server.dir, "--scope", "admin")).key);
    await page.at("/keys");
    await page.click("button", "New key");
    await page.waitFor("the focus on the first field", async () => (await page.focused()) === "Name");
    await page.press("Escape");
    await page.waitFor("the focus on the opener", async () => (await page.focused()) === "New key");
    await page.waitFor("the end of the dialog", async () => !(await page.has("textbox", "Name")));
    await page.press("Enter");
    await page.waitFor("the dialog", () => page.has("textbox", "Name"));
    await page.type(XSS);
    await page.click("button", "Create key");
    await page.waitForText("This is the only time that the key is shown");
    const key = await page.run<string>(`document.querySelector("dialog code").innerText`);
    await page.click("button", "Done");
    await page.waitForText(XSS);
    expect(await page.text()).not.toContain(key);
    await clean(page);

    const other = await openDashboard(server.url);
    await other.signIn(key);
    await other.at("/datasets");
    await other.waitForText("No dataset yet");
    await page.click("button", `Revoke ${XSS}`);
    await page.click("button", "Revoke");
    await page.waitFor("the key to go", async () => !(await page.has("button", `Revoke ${XSS}`)));
    await other.at("/datasets");
    await other.waitFor("the sign-in page", () => other.run<boolean>("!!document.querySelector('.gate')"));
    await other.close();

    for (const [path, text] of [
      ["/usage", "Credit left"],
      ["/audit", "/v1/api_keys"],
      ["/regions", "This machine"],
      ["/settings?q=listen", "Address and port to listen on"],
    ] as const) {
      await page.at(path);
      await page.waitForText(text);
      await clean(page);
    }
    await close();
  }, 60_000);
});
