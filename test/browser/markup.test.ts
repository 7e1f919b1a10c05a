// tier: all (every page in a browser)
/** Every text that a user can store is markup here. Each page shows it as text; nothing of it becomes an element. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { PAGES } from "../../src/dashboard/pages/pages.ts";
import { match } from "../../src/dashboard/shell/match.ts";
import { tempDir } from "../harness.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";
import { fillWorld, type Ids, name, text } from "./markup_world.ts";

/**
 * Address of a page → the kinds of stored text that a reader sees there. Together they are all kinds of the world, and
 * all pages of the dashboard.
 */
const SEEN = (ids: Ids): Record<string, string[]> => ({
  "/": [name("run"), name("failed run"), text("run error"), name("deployment"), name("own workspace")],
  "/runs": [name("run"), name("failed run"), text("run error")],
  [`/runs/${ids.run}?step=1`]: [
    ...[name("run"), text("prompt"), text("printed line"), text("reward error"), text("reward code")],
    JSON.stringify(text("metadata")),
  ],
  [`/runs/${ids.failed}`]: [name("failed run"), text("run error")],
  [`/runs/new?from=${ids.run}`]: [name("run"), name("dataset"), text("reward code")],
  [`/runs/compare?ids=${ids.run},${ids.failed}`]: [name("run"), name("failed run")],
  [`/playground?cols=${ids.deployment},${ids.run},model:${encodeURIComponent(name("address"))}&prompt=${encodeURIComponent(text("prompt of a link"))}`]:
    [name("deployment"), name("run"), name("address"), text("prompt of a link")],
  "/models": [name("model")],
  [`/models/${ids.model}`]: [name("model")],
  "/datasets": [name("dataset")],
  [`/datasets/${ids.dataset}`]: [name("dataset"), text("prompt")],
  [`/datasets/${ids.dataset}?tab=columns`]: [name("column")],
  [`/datasets/${ids.dataset}?tab=about`]: [text("metadata"), name("key").slice(0, 60)],
  [`/datasets/${ids.dataset}?row=1`]: [text("prompt"), text("cell"), name("column")],
  [`/datasets/${ids.dataset}?tab=changes&from=${ids.older}&to=${ids.newer}`]: [JSON.stringify(text("later prompt"))],
  [`/datasets/${ids.dataset}?tab=lineage`]: [name("run")],
  "/rewards": [name("reward")],
  "/rewards?tab=evaluators": [name("evaluator"), text("description")],
  [`/rewards/${ids.reward}`]: [name("reward"), text("reward code")],
  [`/rewards/evaluators/${ids.evaluator}`]: [name("evaluator"), text("description")],
  "/experiments": [name("experiment")],
  "/experiments/new": [name("dataset"), name("evaluator"), name("deployment")],
  [`/experiments/${ids.experiment}?show=all`]: [
    ...[name("experiment"), name("target good"), name("target bad"), text("prompt"), text("answer")],
    ...[text("evaluator error"), name("dataset"), name("evaluator")],
  ],
  "/annotate": [name("queue")],
  [`/annotate/${ids.queue}`]: [name("queue"), text("instructions"), text("item input"), name("label").slice(0, 64)],
  [`/annotate/${ids.queue}/work`]: [
    ...[name("queue"), text("instructions"), text("item input"), text("item output"), text("item reference")],
    ...[name("label").slice(0, 64), name("option"), text("hint")],
  ],
  "/deployments": [name("deployment")],
  "/deployments/new": [name("run")],
  [`/deployments/${ids.deployment}`]: [name("deployment")],
  [`/deployments/${ids.deployment}?tab=connect`]: [name("deployment")],
  "/agents": [name("agent"), text("description")],
  "/agents/new": [name("deployment")],
  [`/agents/${encodeURIComponent(name("agent"))}`]: [name("agent"), text("description")],
  [`/agents/${encodeURIComponent(name("agent"))}/edit`]: [name("agent"), text("description")],
  "/rollouts": [name("rollout task"), name("deployment")],
  [`/rollouts/${ids.rollout}`]: [
    ...[name("rollout task"), text("rollout message"), text("rollout metadata"), name("rollout note").slice(0, 60)],
    ...[JSON.stringify(text("tool")), name("metric").slice(0, 90)],
  ],
  [`/rollouts/${ids.rollout}?tab=tokens`]: [text("rollout message")],
  [`/rollouts/compare?ids=${ids.rollout},${ids.rollout}`]: [name("rollout task"), text("rollout message")],
  "/traces": [name("deployment"), name("chat message"), name("user"), name("tag").slice(0, 64), name("score")],
  [`/traces/${ids.trace}`]: [
    ...[text("chat message"), text("system prompt"), text("trace metadata"), name("note").slice(0, 60)],
    ...[name("score"), text("score value"), text("score comment"), name("deployment")],
  ],
  "/conversations": [],
  "/conversations/talk": [text("chat message")], // the name itself may have no markup
  "/monitors": [name("monitor")],
  "/monitors?new=1": [name("deployment")],
  [`/monitors/${ids.monitor}`]: [name("monitor")],
  "/detect": [],
  [`/detect/${ids.detection}`]: [name("software"), text("feedback")],
  "/webhooks": [text("about the hook")],
  [`/webhooks/${ids.endpoint}?delivery=${ids.delivery}`]: [text("about the hook"), text("answer of a receiver")],
  [`/webhooks/${ids.endpoint}?tab=settings`]: [text("about the hook")],
  "/keys": [name("key name")],
  "/keys?tab=workspaces": [name("workspace"), name("own workspace")],
  "/usage": [name("key name"), name("grant")],
  "/audit": [name("key name"), name("audited id")],
  "/settings": [],
  "/people": [],
  "/regions": [name("region")],
  "/me": [],
  "/welcome": [],
});

let world: Awaited<ReturnType<typeof startDashboard>>;
let ids: Ids;
const receiver = startTlsReceiver(() => new Response(text("answer of a receiver"), { status: 500 }));

/** Text of a page as its reader can find it: elements, fields, and words on hover. */
const SHOWN = `document.body.textContent + [...document.querySelectorAll("input, textarea, option, [title], [placeholder]")]
  .map((at) => [at.value, at.title, at.placeholder, at.label].join("\\n")).join("\\n")`;
/** Elements and attributes that only stored text could have made. */
const FOREIGN = `[...document.querySelectorAll("*")].filter((at) =>
  [...at.attributes].some(({ name, value }) => /^on/.test(name) || /^\\s*javascript:/i.test(value)) ||
  (at.localName === "script" && !at.src.startsWith(location.origin + "/assets/") && at.type !== "application/json") ||
  (at.localName === "img" && !/^(blob|data):/.test(at.src)) || ["iframe", "object", "embed", "base"].includes(at.localName)
).map((at) => at.outerHTML.slice(0, 200))`;

/** Markup that ran or became an element, and all else that no page may do; an empty list is good. */
async function problemsOf(page: Dashboard, path: string): Promise<string[]> {
  const hit = await page.run<number | null>("window.wasHit ?? null");
  const found = [
    ...(hit === null ? [] : [`markup ran: ${hit}`]),
    ...(await page.run<string[]>(FOREIGN)),
    ...(await page.faults({ expected: /status of 4\d\d/ })).filter((each) => !each.startsWith("layout shift")), // opened parts move others
  ];
  page.complaints.length = 0; // report each once
  return found.map((each) => `${path}: ${each.slice(0, 300)}`);
}

describe.skipIf(CHROMIUM === null)("markup in stored text", () => {
  beforeAll(async () => {
    const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"] };
    world = await startDashboard({ env, isAdmin: true });
    await world.page.send("Page.addScriptToEvaluateOnNewDocument", {
      source: "window.hit = (n) => { window.wasHit = n; }; window.alert = window.hit;",
    });
    ids = await fillWorld(world.server.call, receiver.url);
  }, 240_000);
  afterAll(async () => {
    await world?.close();
    await receiver.stop();
  });

  test("every page shows it as text", async () => {
    const { page } = world;
    const seen = SEEN(ids);
    const patterns = Object.keys(seen).map(
      (path) => PAGES.find((each) => match(each.path, path.split("?")[0] ?? ""))?.path,
    );
    expect([...new Set(patterns)].sort()).toEqual(PAGES.map(({ path }) => path).sort()); // no page is left out
    const problems: string[] = [];
    for (const [path, texts] of Object.entries(seen)) {
      await page.at(path);
      let missing = texts;
      const isShown = async () => {
        await page.run(`for (const at of document.querySelectorAll("details:not([open]) > summary")) at.click()`);
        const shown = await page.run<string>(SHOWN);
        missing = texts.filter((each) => !shown.includes(each));
        return missing.length === 0;
      };
      await page.waitFor(path, isShown, 10_000).catch(() => {});
      problems.push(...missing.map((each) => `${path} does not show ${each}`), ...(await problemsOf(page, path)));
      await page.resize(SIZES.phone);
      problems.push(...(await problemsOf(page, `${path} on a phone`)));
      await page.resize(SIZES.desktop);
    }
    expect(problems).toEqual([]);
  }, 240_000);

  test("no page has a serious finding of axe, on a desktop and on a phone of 390 px", async () => {
    const { page } = world;
    const first = new Map<string, string>(); // one address of each page
    for (const path of Object.keys(SEEN(ids))) {
      const pattern = PAGES.find((each) => match(each.path, path.split("?")[0] ?? ""))?.path ?? "";
      if (!first.has(pattern)) first.set(pattern, path);
    }
    expect([...first.keys()].sort()).toEqual(PAGES.map((each) => each.path).sort());
    const problems: string[] = [];
    for (const path of first.values()) {
      await page.resize(SIZES.desktop);
      await page.at(path);
      problems.push(...(await page.axe()).map((each) => `${path}: ${each.slice(0, 300)}`));
      await page.resize({ width: 390, height: 844 });
      problems.push(...(await page.axe()).map((each) => `${path} on a phone: ${each.slice(0, 300)}`));
      problems.push(...(await problemsOf(page, `${path} on a phone`)));
    }
    await page.resize(SIZES.desktop);
    expect(problems).toEqual([]);
  }, 360_000);

  test("an address with markup is text too", async () => {
    const { page } = world;
    const evil = encodeURIComponent(text("id"));
    for (const { path } of PAGES.filter((each) => each.path.includes(":id"))) {
      const address = `${path.replace(":id", evil)}?tab=${evil}&q=${evil}&step=${evil}`;
      await page.at(address);
      expect(await problemsOf(page, path)).toEqual([]);
    }
    for (const query of [
      "runs?q=",
      "traces?q=",
      "audit?q=",
      "settings?q=",
      "runs/compare?ids=",
      "datasets?q=",
      "welcome?run=",
    ]) {
      await page.at(`/${query}${evil}`);
      expect(await problemsOf(page, query)).toEqual([]);
    }
  }, 120_000);

  test("names of files, search results and notes are text", async () => {
    const { page } = world;
    const file = join(tempDir(), name("file").replaceAll("/", ""));
    await Bun.write(file, "no picture");
    await page.at("/detect");
    await page.drop("region", "Files to detect", [file]);
    await page.waitForText(name("file"));
    await page.press("k", "ctrl");
    await page.waitFor("the search", () => page.run<boolean>("document.activeElement?.role === 'combobox'"));
    await page.type("failed run");
    await page.waitFor("a result", async () => (await page.run<string>(SHOWN)).includes(name("failed run")));
    await page.press("Escape");
    expect(await problemsOf(page, "/detect")).toEqual([]);
  }, 60_000);

  test("an exported run is one file without code, and shows it as text", async () => {
    const { page } = world;
    await page.at(`/runs/${ids.run}`);
    await page.run(`URL.createObjectURL = (blob) => { window.saved = blob.text(); return "blob:none"; };
      HTMLAnchorElement.prototype.click = () => {};`);
    await page.click("button", "Save report");
    await page.waitForText("Saved as one HTML file");
    const file = join(tempDir(), "run.html");
    await Bun.write(file, await page.run<string>("window.saved"));
    await page.send("Page.navigate", { url: "about:blank" }); // the run's page asks no more
    await page.waitFor("an empty page", () => page.run<boolean>("document.body.innerText === ''"));
    await page.send("Page.navigate", { url: `file://${file}` });
    await page.waitForText("What it wrote");
    const shown = await page.run<string>("document.body.textContent");
    for (const each of [name("run"), text("prompt"), text("reward code"), text("reward error")])
      expect(shown).toContain(each);
    expect(await page.run<unknown>("window.wasHit ?? null")).toBeNull();
    expect(await page.run<string[]>(FOREIGN)).toEqual([]);
    const requests = page.requests.slice(page.requests.indexOf(`file://${file}`));
    expect(requests).toEqual([`file://${file}`]); // it asks for nothing else
  }, 60_000);
});
