// tier: all (pages in a browser)
/** Settings as an operator uses them: search, a change, the lines for the file. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `/tmp/"'><img src=x onerror=window.hacked=1>`;
let open: Awaited<ReturnType<typeof startDashboard>>;
beforeAll(async () => {
  const env = { VERK_WEBHOOKS__RETENTION_DAYS: "9", VERK_DETECT__MODELS_DIR: MARKUP };
  if (CHROMIUM !== null) open = await startDashboard({ isAdmin: true, env });
});
afterAll(() => open?.close());

const settingOf = async (name: string) => {
  const { data } = (await open.server.call("GET", "/v1/settings")).body;
  return data.find((each: { name: string }) => each.name === name);
};

describe.skipIf(CHROMIUM === null)("settings", () => {
  test("a limit is found, changed and set back, by keyboard", async () => {
    const { page } = open;
    await page.at("/settings");
    await page.waitForText("http.listen");
    expect(await page.check()).toEqual([]);
    await page.tabTo("Search the settings");
    await page.type("monitors workspace");
    await page.waitFor("one setting", async () => !(await page.text()).includes("http.listen"));
    await page.tabTo("Change monitors.max_per_workspace");
    await page.press("Enter");
    await page.waitFor("the value", async () => (await page.focused()) === "Value");
    await page.run("document.activeElement.select()");
    await page.type("0");
    await page.press("Enter");
    await page.waitFor("the refusal", () => page.run("!!document.querySelector('dialog .bad')"));
    expect(await page.check({ expected: /422/ })).toEqual([]);
    await page.run("document.querySelector('dialog input').select()");
    await page.type("7");
    await page.press("Enter");
    await page.waitForText("monitors.max_per_workspace is 7 now");
    await page.waitForText("Dashboard");
    expect(await settingOf("monitors.max_per_workspace")).toMatchObject({ value: 7, set_by: "dashboard" });
    await page.tabTo("Change monitors.max_per_workspace");
    await page.press("Enter");
    await page.click("button", "Use the default");
    await page.waitForText("back at its default");
    expect(await settingOf("monitors.max_per_workspace")).toMatchObject({ value: 100, set_by: "default" });
    const { data } = (await open.server.call("GET", "/v1/account/audit_log")).body;
    const entries = data.filter((each: { route: string }) => each.route === "/v1/settings/{name}");
    expect(entries.map((each: { method: string; status: number }) => [each.method, each.status])).toEqual([
      ["PATCH", 200],
      ["PATCH", 200],
      ["PATCH", 422],
    ]);
  }, 120_000);

  test("a setting that a variable sets names the variable and the line for the file, on a phone", async () => {
    const { page } = open;
    await page.resize(SIZES.phone);
    await page.at("/settings?show=changed");
    await page.waitForText("webhooks.retention_days");
    await page.waitForText(MARKUP);
    expect(await page.check({ expected: /422/ })).toEqual([]);
    await page.click("button", "How to change webhooks.retention_days");
    await page.waitForText("VERK_WEBHOOKS__RETENTION_DAYS");
    await page.waitForText("retention_days = 9");
    expect(await page.check({ expected: /422/ })).toEqual([]);
    await page.press("Escape");
    await page.click("button", "How to change detect.models_dir");
    await page.waitForText("models_dir = ");
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
    expect(await page.check({ expected: /422/ })).toEqual([]);
    await page.press("Escape");
    await page.at("/settings?q=nothing+like+this");
    await page.click("button", "Show all settings");
    await page.waitForText("http.listen");
    await page.resize(SIZES.desktop);
  }, 120_000);
});
