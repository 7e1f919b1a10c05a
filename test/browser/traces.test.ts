// tier: all (every page in a browser)
/** Traces, as a user sees them: found, kept, compared, and made into rows. Every stored text is markup. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { until } from "../harness.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = '<img src=x onerror="window.hacked=1"><b>x</b>';

describe.skipIf(CHROMIUM === null)("traces", () => {
  let world: Awaited<ReturnType<typeof startDashboard>>;
  beforeAll(async () => {
    world = await startDashboard();
  }, 120_000);
  afterAll(() => world?.close());

  async function clean(expected = /^$/) {
    const { page } = world;
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
    expect(await page.axe()).toEqual([]);
    for (const size of [SIZES.phone, SIZES.tablet, SIZES.desktop]) {
      await page.resize(size);
      expect(await page.faults({ expected })).toEqual([]);
    }
  }

  /** The button is off until the deployments are loaded. */
  async function sendAgain() {
    const { page } = world;
    await page.waitFor("a deployment", () =>
      page.run<boolean>(`document.querySelector("dialog footer .primary")?.disabled === false`),
    );
    await page.click("button", "Send again");
  }

  /** A request to the deployment, once its trace is stored. */
  async function chat(content: string, more: object = {}): Promise<string> {
    const { server } = world;
    const body = { model: "demo", max_tokens: 6, messages: [{ role: "user", content }], ...more };
    const { headers } = await server.call("POST", "/v1/chat/completions", body);
    const id = headers.get("x-trace-id") ?? "";
    await until("the trace", async () => (await server.call("GET", `/v1/traces/${id}`)).status === 200);
    return id;
  }

  test("the empty list leads to a deployment, whose form asks what is kept", async () => {
    const { page, server } = world;
    await until("the built-in model", async () => {
      const { body } = await server.call("GET", "/v1/models?registry=true");
      return body.data.some((model: { status: string }) => model.status === "ready");
    });
    await page.at("/traces");
    await page.waitForText("No trace yet");
    await clean();
    await page.click("link", "New deployment");
    await page.waitForText("Kept of each request");
    await page.click("textbox", "Name");
    await page.type("demo");
    await page.click("button", "Deploy");
    await page.waitForText("Serving", 60_000);
    const { body } = await server.call("GET", "/v1/deployments");
    expect(body.data).toMatchObject([{ name: "demo", capture: "none" }]);
  }, 120_000);

  test("requests that were not kept are told apart; a switch keeps those to come", async () => {
    const { page, server } = world;
    const ids = [await chat("a fox"), await chat("another fox")];
    await page.at("/traces?q=fox");
    await page.waitForText("2 of 2 requests were not kept");
    await page.click("button", "Clear filters");
    for (const id of ids) await page.waitForText(`…${id.slice(-6)}`);
    await page.tabTo("Keep the content of demo");
    await page.press("Enter");
    await page.waitForText("From the next request on");
    await page.click("button", "Keep");
    await page.waitForText("The content of new requests is kept.");
    expect((await server.call("GET", "/v1/deployments")).body.data[0].capture).toBe("full");
    await clean();
  }, 60_000);

  test("rows have words, user, tags and scores; facets count them and choose", async () => {
    const { page, server } = world;
    const trace = await chat(`${MARKUP} fox`, { user: MARKUP, metadata: { tags: [MARKUP], conversation_id: "talk" } });
    await chat("plain", { metadata: { user_id: "ann", conversation_id: "talk" } });
    await server.call("POST", `/v1/traces/${trace}/scores`, { name: MARKUP, value: MARKUP });
    const body = { resourceSpans: [{ scopeSpans: [{ spans: [SPAN] }] }] };
    expect((await server.call("POST", "/v1/traces", body)).status).toBe(200);
    await page.at("/traces");
    await page.waitForText(`${MARKUP} fox`);
    await page.waitForText("question of another program");
    await page.waitForText("2 of 5 requests were not kept");
    await clean();
    await page.run(`document.querySelector('.traces-facet button[title="ann"]').focus()`);
    await page.press("Enter");
    await page.waitFor("one row", () => page.run<boolean>("document.querySelectorAll('.rowlink').length === 1"));
    expect(await page.path()).toBe("/traces?user=ann");
    await page.press("Enter"); // the same value again leaves it
    await page.waitFor("all rows", () => page.run<boolean>("document.querySelectorAll('.rowlink').length === 5"));
    await page.at("/traces?status=error&user=nobody");
    await page.waitForText("No trace matches");
    await clean();
  }, 60_000);

  test("from a trace: compare, copy as curl, a row of a dataset, the playground, and the end of it", async () => {
    const { page, server } = world;
    const trace = await chat(`${MARKUP} again`, { metadata: { conversation_id: "talk" }, temperature: 0 });
    await page.at(`/traces/${trace}`);
    await page.waitForText(`${MARKUP} again`);
    await clean();
    await page.click("button", "Compare with another model");
    await sendAgain();
    await page.waitForText("gave 1 answer", 60_000);
    await page.press("Escape");
    expect(await page.run<number>(`document.querySelectorAll("[aria-label='Copy as curl']").length`)).toBe(1);

    await page.click("button", "Add to dataset");
    await page.waitForText("As the model should have said it");
    await page.run(`document.querySelector("dialog textarea").select()`);
    await page.click("textbox", "Answer");
    await page.press("a", "ctrl");
    await page.type(`right ${MARKUP}`);
    await page.click("button", "Add row");
    await page.waitForText("1 live");
    await page.waitForText(`right ${MARKUP}`);
    const id = (await page.path()).split("/")[2]?.split("?")[0];
    const { body: rows } = await server.call("GET", `/v1/datasets/${id}/rows`);
    expect(rows.data[0].data).toEqual({
      messages: [
        { role: "user", content: `${MARKUP} again` },
        { role: "assistant", content: `right ${MARKUP}` },
      ],
    });

    await page.at("/conversations/talk");
    await page.waitForText(`${MARKUP} again`);
    await clean();
    await page.click("button", "Compare with another model");
    await sendAgain();
    await page.waitForText("gave 3 answers", 60_000);

    await page.at(`/traces/${trace}`);
    await page.click("button", "Open in playground");
    await page.waitFor("the playground", async () => (await page.path()).startsWith("/playground"));
    await page.waitForText(`${MARKUP} again`);
    await page.at(`/traces/${trace}`);
    await page.click("button", "Delete");
    await page.waitForText("Its content, its scores");
    await page.tabTo("Delete");
    await page.press("Enter");
    await page.waitFor("the list", async () => (await page.path()) === "/traces");
    expect((await server.call("GET", `/v1/traces/${trace}`)).status).toBe(404);
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  }, 120_000);
});

const text = (key: string, value: string) => ({ key, value: { stringValue: value } });
const SPAN = {
  traceId: "5b8efff798038103d269b633813fc60c",
  spanId: "eee19b7ec3c1b174",
  name: "chat",
  startTimeUnixNano: "1544712660000000000",
  endTimeUnixNano: "1544712661000000000",
  attributes: [
    text("gen_ai.operation.name", "chat"),
    text("gen_ai.request.model", MARKUP),
    text("user.id", MARKUP),
    text("gen_ai.input.messages", JSON.stringify([{ role: "user", content: "question of another program" }])),
    text("gen_ai.output.messages", JSON.stringify([{ role: "assistant", content: MARKUP }])),
  ],
};
