// tier: all (a model and a browser)
/** Markdown in answers: elements while it is written, text where it attacks, and a conversation that nothing replaces for good. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { tempDir } from "../harness.ts";
import { recordedModel } from "../serving/recorded_model.ts";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";

const CODE = 'let a = "<b>1</b>";\n  hit(6);';
const ANSWER = `# Title *one*

Some **bold**, \`code <i>\` and a [page](https://example.com/a?b=1 "t"). See https://example.com/x.

- one
- two
  1. inner

| Name | Sum |
|:--|--:|
| \`a\` | 12 |
| b | <img src=x onerror=hit(1)> |

\`\`\`js
${CODE}
\`\`\`

> quoted

<script>hit(2)</script><img src=https://example.com/i.png onerror=hit(3)>
[run](javascript:hit(4)) ![picture](https://example.com/p.png) [data](data:text/html,<script>hit(5)</script>) <javascript:hit(7)>
[![x](javascript:hit(8))](javascript:hit(9)) [bad](JaVaScRiPt&colon;hit(10))
`;
const LONG = `### Start\n\n${Array.from({ length: 300 }, (_, i) => `- item **${i}** of a \`list\`\n\nParagraph ${i}.\n`).join("\n")}`;

let world: Awaited<ReturnType<typeof startDashboard>>;
let deployment = "";

const shapes = (page: Dashboard) =>
  page.run<
    Record<string, string[]>
  >(`Object.fromEntries(["h3", "strong", "em", "li", "th", "td", "blockquote", "pre", "code"].map((name) =>
    [name, [...document.querySelectorAll(".markdown " + name)].map((at) => at.textContent.trim())]))`);
const turnCount = (page: Dashboard) => page.run<number>(`document.querySelectorAll(".playground-turn").length`);
const isDone = (page: Dashboard, turns: number) =>
  page.waitFor(
    "the answer",
    async () => (await turnCount(page)) === turns && (await page.has("button", "Send")),
    120_000,
  );

async function ask(page: Dashboard, text: string, turns: number) {
  await page.click("textbox", "Message");
  await page.type(text);
  await page.press("Enter");
  await isDone(page, turns);
}

describe.skipIf(CHROMIUM === null)("Markdown in answers", () => {
  beforeAll(async () => {
    world = await startDashboard();
    await world.page.send("Page.addScriptToEvaluateOnNewDocument", {
      source: "window.hit = (n) => { window.wasHit = n; };",
    });
    const file = recordedModel(tempDir(), [ANSWER, LONG]);
    await world.server.verk(["models", "import", file, "--name", "writer"]);
    const { body } = await world.server.call("POST", "/v1/deployments", {
      model: "writer",
      name: "writer",
      context_length: 32_768,
      parallel: 1,
    });
    deployment = body.id;
  }, 180_000);
  afterAll(() => world?.close());

  test("headings, lists, tables, code and links are elements; markup and addresses that run code are text", async () => {
    const { page } = world;
    await page.at(`/playground?cols=${deployment}&temperature=0`);
    await ask(page, "Write.", 2);
    expect(await page.run<unknown>("window.wasHit ?? null")).toBeNull();
    const shown = await shapes(page);
    expect(shown).toMatchObject({
      h3: ["Title one"],
      strong: ["bold"],
      em: ["one"],
      li: ["one", "twoinner", "inner"],
      th: ["Name", "Sum"],
      td: ["a", "12", "b", "<img src=x onerror=hit(1)>"],
      blockquote: ["quoted"],
      pre: [CODE],
    });
    expect(shown["code"]).toContain("code <i>");
    const links = await page.run<string[]>(
      `[...document.querySelectorAll(".markdown a")].map((at) => at.href + " " + at.target + " " + at.rel)`,
    );
    const open = "_blank noreferrer noopener nofollow";
    expect(links).toEqual([
      `https://example.com/a?b=1 ${open}`,
      `https://example.com/x ${open}`,
      `https://example.com/i.png ${open}`, // of the text <img …>
      `https://example.com/p.png ${open}`,
    ]);
    const text = await page.text();
    for (const each of [
      "<script>hit(2)</script>",
      "[run](javascript:hit(4))",
      "<javascript:hit(7)>",
      "JaVaScRiPt&colon;",
    ])
      expect(text).toContain(each);
    expect(await page.run<number>(`document.querySelectorAll(".markdown :is(img, script, iframe, i, b)").length`)).toBe(
      0,
    );
    expect(await page.run<number>(`document.querySelectorAll(".markdown .playground-token").length`)).toBeGreaterThan(
      20,
    );

    await page.send("Browser.grantPermissions", { permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
    await page.click("button", "Copy the code");
    await page.waitFor("the code", async () => (await page.run<string>("navigator.clipboard.readText()")) === CODE);
    expect(await page.check()).toEqual([]);
    await page.resize(SIZES.phone);
    expect(await page.axe()).toEqual([]);
    await page.resize(SIZES.desktop);

    await page.tabTo("Markdown");
    await page.press(" ");
    await page.waitFor("the text as it is", () => page.run<boolean>(`!document.querySelector(".markdown")`));
    expect(await page.text()).toContain("# Title *one*");
    expect(await page.run<unknown>("window.wasHit ?? null")).toBeNull();
    expect(page.requests.filter((url) => url.includes("example.com"))).toEqual([]);
  }, 240_000);

  test("while an answer is written, blocks that are complete stay the same elements", async () => {
    const { page } = world;
    await page.at(`/playground?cols=${deployment}&temperature=0`);
    await ask(page, "Write.", 2);
    await page.click("textbox", "Message");
    await page.type("More.");
    await page.press("Enter");
    const block = `document.querySelectorAll(".markdown")[1]?.children`;
    await page.waitFor("some blocks", () => page.run<boolean>(`${block}?.length > 12`), 120_000);
    await page.run(`window.early = [...${block}].slice(0, 8), window.long = 0,
      new PerformanceObserver((list) => { window.long += list.getEntries().length; }).observe({ type: "longtask" }), 0`);
    await isDone(page, 4);
    expect(await page.run<boolean>(`window.early.every((at, i) => at === ${block}[i])`)).toBeTrue();
    expect(await page.run<number>(`${block}.length`)).toBe(601);
    expect(await page.run<string>(`${block}[600].textContent`)).toBe("Paragraph 299.");
  }, 240_000);

  test("a conversation that another page replaced before it was saved comes back with one button", async () => {
    const { page } = world;
    await page.at(`/playground?cols=${deployment}&temperature=0&max_tokens=16`);
    await ask(page, "Keep me.", 2);
    await page.click("link", "Agents");
    await page.waitForText("Agents");
    await page.run(`history.pushState(null, "", "/playground?cols=${deployment}&prompt=Other"),
      dispatchEvent(new PopStateEvent("popstate"))`);
    await page.waitFor("the other start", () =>
      page.run<boolean>(`document.querySelector("#playground-message")?.value === "Other"`),
    );
    expect(await turnCount(page)).toBe(0);
    await ask(page, " question", 2);
    await page.tabTo("Back to the earlier conversation");
    await page.press("Enter");
    await page.waitForText("Keep me.");
    expect(await page.path()).toContain("max_tokens=16");
    expect(await page.check()).toEqual([]);
    await page.click("button", "Back to the earlier conversation"); // to the other one, which is not saved either
    await page.waitForText("Other question");
    await page.click("button", "New conversation");
    await page.waitFor("an empty one", async () => (await turnCount(page)) === 0);
    await page.click("button", "Back to the earlier conversation");
    await page.waitForText("Other question");
    const { body } = await world.server.call("GET", "/v1/conversations");
    expect(body.data).toEqual([]); // nothing was stored
  }, 120_000);
});
