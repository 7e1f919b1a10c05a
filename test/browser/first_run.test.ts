/** From the setup link to a trained model, with the keyboard alone. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

describe.skipIf(CHROMIUM === null)("the first run", () => {
  let world: Awaited<ReturnType<typeof startDashboard>>;
  beforeAll(async () => {
    world = await startDashboard({ signIn: false });
  }, 60_000);
  afterAll(() => world.close());
  /** Presses the button that Tab reaches under this name. */
  const use = async (name: string) => {
    await world.page.tabTo(name);
    await world.page.press("Enter");
  };

  test("the setup link gives a key, and the address does not keep the token", async () => {
    const { page, server } = world;
    const [link = ""] = /http:\S+\/setup\?token=[\w-]+/.exec(server.stderr()) ?? [];
    await page.at(new URL(link).pathname + new URL(link).search);
    await use("Create my admin key");
    await page.waitForText("it is shown only now");
    expect(await page.run<string>("document.querySelector('code').innerText")).toMatch(/^vk_\w{43}$/);
    expect(await page.path()).toBe("/setup");
    expect(await page.axe()).toEqual([]);
    await page.tabTo("Copy the key");
  }, 60_000);

  test("the machine is checked, and every problem has its fix", async () => {
    const { page } = world;
    await use("Check this machine");
    await page.waitFor("the checks", () =>
      page.run<boolean>("document.querySelectorAll('.setup-checks li').length > 10"),
    );
    const bare =
      "[...document.querySelectorAll('.setup-checks .pill:not(.good)')].filter((p) => !p.closest('li').querySelector('.setup-fix'))";
    expect(await page.run<number>(`${bare}.length`)).toBe(0);
    expect(await page.axe()).toEqual([]);
  }, 60_000);

  test("verk-tiny is trained and watched live to its end", async () => {
    const { page } = world;
    await use("Train verk-tiny now");
    await page.waitForText("step 3 of 24", 120_000);
    expect(await page.path()).toContain("/welcome?run=job_");
    await page.waitFor("the curve", () => page.run<boolean>("!!document.querySelector('.chart canvas')"));
    await page.waitForText("Done. Serve it and talk to it", 240_000);
    expect(await page.text()).toContain("step 24 of 24");
    const score = await page.run<string>("document.querySelector('.facts dd').innerText");
    expect(Number(score)).toBeGreaterThan(0.5); // it begins near 0.15
    expect(await page.axe()).toEqual([]);
    expect(await page.faults()).toEqual([]);
  }, 420_000);

  test("home shows the run, at every size, without a fault", async () => {
    const { page } = world;
    await use("Go home");
    await page.waitForText("Recent runs");
    await page.waitForText("first-run");
    for (const path of ["/", "/welcome", "/nowhere"]) {
      await page.at(path);
      for (const size of Object.values(SIZES)) {
        await page.resize(size);
        expect({ path, ...size, faults: await page.faults() }).toEqual({ path, ...size, faults: [] });
        expect({ path, ...size, axe: await page.axe() }).toEqual({ path, ...size, axe: [] });
      }
    }
  }, 120_000);

  test("search opens a page, and ? lists the keys", async () => {
    const { page } = world;
    await page.resize(SIZES.desktop);
    await page.at("/welcome");
    await page.press("k", "ctrl");
    await page.waitFor("the search", () => page.run<boolean>("document.activeElement?.role === 'combobox'"));
    await page.type("hom");
    await page.press("Enter");
    await page.waitFor("home", async () => (await page.path()) === "/");
    await page.press("?");
    await page.waitFor("the list of keys", () => page.has("dialog", "Keyboard"));
    await page.press("Escape");
    await page.waitFor("the list to close", async () => !(await page.has("dialog", "Keyboard")));
  }, 60_000);

  test("a revoked key locks the page out, and another key lets it in again", async () => {
    const { page, server } = world;
    await page.at("/");
    const { data } = (await server.call("GET", "/v1/api_keys")).body;
    const setup = data.find(({ name }: { name: string }) => name === "setup");
    await server.call("DELETE", `/v1/api_keys/${setup.id}`);
    await page.waitForText("This API key was revoked");
    expect(await page.text()).not.toContain("first-run");
    await page.tabTo("API key");
    await page.type(await server.apiKey());
    await page.press("Enter");
    await page.waitForText("first-run");
    await use("Sign out");
    await page.waitForText("Sign in");
    expect(await page.faults({ expected: /401/ })).toEqual([]);
  }, 60_000);
});
