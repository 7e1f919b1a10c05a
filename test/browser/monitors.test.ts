// tier: all (pages in a browser)
/** Monitors as a person uses them: a dialog with a preview, the curve with alarms, a silence, an edit. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `m"'><img src=x onerror=window.hacked=1>`;
let open: Awaited<ReturnType<typeof startDashboard>>;
beforeAll(async () => {
  if (CHROMIUM !== null) open = await startDashboard({ env: { VERK_MONITORS__INTERVAL_SECONDS: "2" } });
});
afterAll(() => open?.close());

const call = async (method: string, path: string, body?: unknown) => (await open.server.call(method, path, body)).body;
/** Chooses an option of the focused list by its beginning. */
const choose = async (value: string) => {
  await open.page.run(`(() => { const at = document.activeElement; at.value = ${JSON.stringify(value)};
    at.dispatchEvent(new Event("change", { bubbles: true })); })()`);
};

describe.skipIf(CHROMIUM === null)("monitors", () => {
  test("the dialog says how often a rule would have fired, by keyboard", async () => {
    const { page } = open;
    await page.at("/monitors");
    await page.waitForText("No monitor yet");
    expect(await page.check()).toEqual([]);
    await page.tabTo("New monitor");
    await page.press("Enter");
    await page.waitFor("the first field", async () => (await page.focused()) === "Name");
    await page.type(MARKUP);
    await page.tabTo("Watch");
    await choose("error_rate");
    await page.tabTo("Alert above");
    await page.type("0.5");
    await page.waitForText("It would not have fired.");
    await page.waitForText("In the last 1 d");
    expect(await page.check()).toEqual([]);
    await page.resize(SIZES.phone);
    expect(await page.check()).toEqual([]);
    await page.resize(SIZES.desktop);
    await page.tabTo("Watch");
    await choose("balance");
    await page.waitForText("The past of this figure is not kept");
    await page.tabTo("Create monitor");
    await page.press("Enter");
    await page.waitFor("its page", async () => /^\/monitors\/mon_/.test(await page.path()));
    await page.waitForText(MARKUP);
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  }, 120_000);

  test("an alarm begins, is listed and muted, and ends after an edit, by mouse", async () => {
    const { page } = open;
    const { id } = await call("POST", "/v1/monitors", {
      name: "low",
      metric: "balance",
      thresholds: { alert: 1e6 },
    });
    await page.at(`/monitors/${id}`);
    await page.waitForText("still on");
    expect(await page.text()).toContain("Alert below $1,000,000.00");
    await page.waitFor("the curve", () => page.run("!!document.querySelector('.plot canvas')"));
    expect(await page.check()).toEqual([]);
    await page.click("button", "Mute for 1 hour");
    await page.waitForText("Muted until");
    expect((await call("GET", `/v1/monitors/${id}`)).muted_until).not.toBeNull();
    await page.click("button", "Unmute");
    await page.waitFor("the buttons", () => page.has("button", "Mute for 1 day"));
    await page.click("button", "Edit");
    await page.waitForText("It would have fired once");
    expect(await page.check()).toEqual([]);
    await page.run(
      `[...document.querySelectorAll("dialog label")].find((at) => at.innerText === "Alert below").control.select()`,
    );
    await page.type("1");
    await page.waitForText("It would not have fired.");
    await page.click("button", "Save");
    await page.waitFor("the end of the alarm", async () => !(await page.text()).includes("still on"));
    expect(await call("GET", `/v1/monitors/${id}`)).toMatchObject({ severity: "ok", thresholds: { alert: 1 } });
    expect(await page.check()).toEqual([]);
  }, 120_000);
});
