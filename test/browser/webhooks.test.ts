// tier: all (pages in a browser)
/** Webhooks as a person uses them: an endpoint, a test with its answer, the timeline, filters, resending. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `"'><img src=x onerror=window.hacked=1>`;
let status = 200;
const receiver = startTlsReceiver(() => new Response(`${MARKUP} answered`, { status }));
let open: Awaited<ReturnType<typeof startDashboard>>;
beforeAll(async () => {
  const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"] };
  if (CHROMIUM !== null) open = await startDashboard({ env });
});
afterAll(async () => {
  await open?.close();
  await receiver.stop();
});

const call = async (method: string, path: string, body?: unknown) => (await open.server.call(method, path, body)).body;
const rows = () => open.page.run<number>("document.querySelectorAll('.webhooks-delivery').length");

describe.skipIf(CHROMIUM === null)("webhooks", () => {
  test("a test event shows its answer at once, and the timeline has the request; by mouse", async () => {
    const { page } = open;
    await page.at("/webhooks");
    await page.click("button", "New endpoint");
    await page.waitFor("the field", async () => (await page.focused()) === "Address");
    await page.type(`${receiver.url}/hook`);
    await page.click("button", "Create endpoint");
    await page.click("link", "Open the endpoint");
    await page.waitForText("No delivery yet");
    expect(await page.check()).toEqual([]);
    await page.click("button", "Send test event");
    await page.waitForText("200 in");
    await page.waitForText(`${MARKUP} answered`);
    await page.waitForText("webhook-signature");
    expect(await page.check()).toEqual([]);
    await page.click("button", "Show in the timeline");
    await page.waitForText("Attempt 1");
    const sent = receiver.got[0];
    await page.waitForText(sent?.headers.get("webhook-signature") ?? "no signature");
    await page.waitForText(JSON.parse(sent?.body ?? "{}").id);
    await page.click("button", "Resend webhook.test");
    await page.waitForText("Attempt 2");
    expect(receiver.got.map(({ body }) => body)).toEqual([sent?.body ?? "", sent?.body ?? ""]);
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
    expect(await page.check()).toEqual([]);
  }, 120_000);

  test("what failed is found by its state and resent, by keyboard", async () => {
    const { page } = open;
    status = 500;
    const { id } = await call("POST", "/v1/webhooks", { url: `${receiver.url}/broken`, description: MARKUP });
    await call("POST", `/v1/webhooks/${id}/test`);
    await page.at(`/webhooks/${id}`);
    await page.waitForText("500 in");
    await page.tabTo("State");
    for (const state of ["succeeded", "pending"]) {
      await page.press("ArrowDown");
      await page.waitFor("the filter", async () => (await page.path()).includes(`state=${state}`));
    }
    await page.waitFor("the delivery", async () => (await rows()) === 1);
    await page.run("document.querySelector('.webhooks-delivery button').focus()");
    await page.press("Enter");
    await page.waitForText("Look into its log");
    await page.tabTo("Resend webhook.test");
    const before = receiver.got.length;
    status = 200;
    await page.press("Enter");
    await page.waitFor("another request", () => receiver.got.length > before);
    await page.waitForText("No delivery is like this");
    expect(await page.check()).toEqual([]);
    await page.tabTo("Show all");
    await page.press("Enter");
    await page.waitFor("the delivery", async () => (await rows()) === 1);
    expect(receiver.got.at(-1)?.headers.get("webhook-id")).toBe(receiver.got.at(-2)?.headers.get("webhook-id") ?? "");
    await page.resize(SIZES.phone);
    await page.tabTo("Resend what failed");
    await page.press("Enter");
    await page.waitForText("Events since");
    expect(await page.check()).toEqual([]);
    await page.press("Escape");
    await page.resize(SIZES.desktop);
  }, 120_000);
});
