// tier: all (every page in a browser)
/** Detect and webhooks in a real browser: dropped files, a delivery that is resent, strings as text. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `<img src=x onerror="document.title='owned'">`;
const PICTURE = join(import.meta.dir, "../fixtures/images/blocks_444.jpg");

let world: Awaited<ReturnType<typeof startDashboard>>;
const receiver = startTlsReceiver((_, count) => new Response(MARKUP, { status: count === 0 ? 500 : 200 }));

/** Drops the file as a browser does when a user lets it go over the card. */
const drop = (name: string, type: string, bytes: Uint8Array) => `(() => {
  const raw = Uint8Array.from(atob(${JSON.stringify(Buffer.from(bytes).toString("base64"))}), (c) => c.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([raw], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} }));
  document.querySelector(".detect-drop").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer }));
})()`;

describe.skipIf(CHROMIUM === null)("detect and webhooks", () => {
  beforeAll(async () => {
    const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"] };
    world = await startDashboard({ env });
  }, 60_000);
  afterAll(async () => {
    await world?.close();
    await receiver.stop();
  });

  test("a dropped picture has a score, squares, copies and feedback; a broken one says why", async () => {
    const { page } = world;
    await page.at("/detect");
    await page.tabTo("Choose files");
    await page.run(drop(MARKUP, "image/jpeg", readFileSync(PICTURE)));
    await page.waitForText("1 generated", 30_000);
    await page.waitFor("the squares", () =>
      page.run<boolean>(`document.querySelectorAll(".detect-frame rect").length > 0`),
    );
    expect(await page.text()).toContain(MARKUP);
    expect(await page.run<string>("document.title")).toBe("Detect · Verk");
    await page.click("button", "Re-encode");
    await page.waitFor("all copies", async () => /the answer (stays|flips)/.test(await page.text()), 30_000);
    await page.waitFor("the scores of the models and of the copies", () =>
      page.run<boolean>(`document.querySelectorAll(".chart canvas").length === 2`),
    );
    const report = await page.run<[string, number]>(`(async () => {
      const link = [...document.querySelectorAll("a")].find((at) => at.innerText === "Report");
      const answer = await fetch(link.href);
      return [await answer.text(), answer.status];
    })()`);
    expect(report[1]).toBe(200);
    expect(report[0]).toContain("<h1>Detection report</h1>");
    await page.click("button", "It was real");
    await page.waitForText("You said real");
    expect(await page.axe()).toEqual([]);
    for (const size of Object.values(SIZES)) {
      await page.resize(size);
      expect(await page.faults()).toEqual([]);
    }
    await page.resize(SIZES.desktop);
    await page.run(drop("broken.png", "image/png", new TextEncoder().encode("no picture")));
    await page.waitForText("not supported");
    await page.waitForText("2 files");
    expect(await page.faults({ expected: /415/ })).toEqual([]);
  }, 60_000);

  test("three files on a phone move nothing and are scored", async () => {
    const { page } = world;
    await page.resize(SIZES.phone);
    await page.at("/detect");
    const images = ["blocks_444.jpg", "blocks_420.jpg", "blocks.webp"];
    await page.drop(
      "region",
      "Files to detect",
      images.map((name) => join(import.meta.dir, "../fixtures/images", name)),
    );
    await page.waitForText("3 done", 30_000);
    for (const name of images) expect(await page.text()).toContain(name);
    expect(await page.check({ expected: /415/ })).toEqual([]);
    await page.resize(SIZES.phone);
    expect(await page.axe()).toEqual([]); // its controls are another size on a phone
    await page.resize(SIZES.desktop);
  }, 60_000);

  test("a delivery that failed is resent, with every attempt and answer as text", async () => {
    const { page } = world;
    await page.at("/webhooks");
    await page.click("button", "New endpoint");
    await page.click("textbox", "Address");
    await page.type(`${receiver.url}/hook`);
    await page.click("textbox", "About");
    await page.type(MARKUP);
    await page.press("Enter");
    await page.waitForText("whsec_");
    await page.click("link", "Open the endpoint");
    await page.click("button", "Send test event");
    await page.waitForText("500 in");
    await page.press("Escape");
    await page.click("button", "Resend webhook.test");
    await page.waitForText("2 attempts");
    await page.run(`document.querySelector(".webhooks-delivery button").click()`);
    await page.waitForText("Attempt 2");
    const shown = await page.text();
    expect(shown).toContain(MARKUP);
    expect(shown).toContain("resent by hand");
    expect(receiver.got.map(({ path }) => path)).toEqual(["/hook", "/hook"]);
    expect(await page.axe()).toEqual([]);
    for (const size of Object.values(SIZES)) {
      await page.resize(size);
      expect(await page.faults({ expected: /415/ })).toEqual([]);
    }
    await page.resize(SIZES.desktop);
    await page.click("button", "Resend what failed");
    await page.click("button", "Resend");
    await page.waitForText("No event failed in this time");
    await page.click("button", "Settings");
    await page.click("button", "Rotate");
    await page.waitForText("The secret is new");
    await page.click("button", "Disable");
    await page.waitForText("Disabled by hand");
    await page.at("/webhooks?tab=feed");
    await world.server.call("POST", "/v1/datasets", { name: MARKUP, format: "prompt" });
    await page.waitForText("dataset.created");
    expect(await page.faults({ expected: /415/ })).toEqual([]);
    expect(await page.axe()).toEqual([]);
  }, 60_000);
});
