// tier: all (every page in a browser)
/** One user from the setup link to a revoked key: trains, serves, compares, detects and delivers in one browser. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { isRight, splitRows } from "../../src/lib/training/sums.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";

const PICTURE = join(import.meta.dir, "../fixtures/images/blocks_444.jpg");
const TRAINING_MS = 240_000;

type World = Awaited<ReturnType<typeof startDashboard>>;
/** All that a user without a mouse has. */
type Keyboard = Omit<Dashboard, "click" | "drop" | "at">;

let world: World;
const receiver = startTlsReceiver((_, count) => new Response("busy", { status: count === 0 ? 500 : 200 }));

describe.skipIf(CHROMIUM === null)("the whole path", () => {
  beforeAll(async () => {
    const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"] };
    world = await startDashboard({ signIn: false, env });
  }, 60_000);
  afterAll(async () => {
    await world?.close();
    await receiver.stop();
  });

  test("setup link, first run, slider, deployment, playground, detection, webhook, revoked key", async () => {
    const { page } = world;
    await openSetupLink(world);
    await page.run("window.isSameDocument = true"); // a reload would lose it
    await firstRunByKeyboard(page);
    const job = await watchRun(page);
    await slide(page, job);
    const tuned = await deploy(page);
    await compare(page, job, tuned);
    await detect(page);
    await deliver(page);
    await visitTheRest(page);
    expect(await page.run<boolean>("window.isSameDocument")).toBeTrue();
    await revoke(page);
  }, 420_000);

  test("search opens a page, ? lists the keys, and sign-out locks the page", async () => {
    const { page } = world;
    await page.press("k", "ctrl");
    await page.waitFor("the search", () => page.run<boolean>("document.activeElement?.role === 'combobox'"));
    await page.type("datas");
    await page.press("Enter");
    await page.waitFor("the datasets", async () => (await page.path()) === "/datasets");
    await page.press("?");
    await page.waitFor("the list of keys", () => page.has("dialog", "Keyboard"));
    await page.press("Escape");
    await page.waitFor("the list to close", async () => !(await page.has("dialog", "Keyboard")));
    await page.at("/nowhere");
    expect(await page.check({ expected: /401/ })).toEqual([]);
    await page.tabTo("Sign out");
    await page.press("Enter");
    await page.waitForText("Sign in");
    expect(await page.check({ expected: /401/ })).toEqual([]);
  }, 60_000);
});

async function openSetupLink({ page, server }: World) {
  const [link = ""] = /http:\S+\/setup\?token=[\w-]+/.exec(server.stderr()) ?? [];
  await page.send("Browser.grantPermissions", { permissions: ["clipboardReadWrite", "clipboardSanitizedWrite"] });
  await page.at(new URL(link).pathname + new URL(link).search);
}

/** Presses the button that Tab reaches under this name. */
async function use(page: Keyboard, name: string) {
  await page.tabTo(name);
  await page.press("Enter");
}

async function firstRunByKeyboard(page: Keyboard) {
  await use(page, "Create my admin key");
  await page.waitForText("it is shown only now");
  const key = await page.run<string>("document.querySelector('code').innerText");
  expect(key).toMatch(/^vk_\w{43}$/);
  expect(await page.path()).toBe("/setup"); // without the token
  await use(page, "Copy the key");
  await page.waitForText("Copied");
  expect(await page.run<string>("navigator.clipboard.readText()")).toBe(key);
  expect(await page.check()).toEqual([]);

  await use(page, "Get started");
  const bare = `[...document.querySelectorAll(".setup-checks .pill:not(.good)")]
    .filter((pill) => !pill.closest("li").querySelector(".setup-fix")).length`;
  await page.waitFor("the checks", () =>
    page.run<boolean>("document.querySelectorAll('.setup-checks li').length > 10"),
  );
  expect(await page.run<number>(bare)).toBe(0); // every problem has its fix
  expect(await page.check()).toEqual([]);

  await use(page, "Train verk-tiny now");
  const label = () => page.run<string>("document.querySelector('.chart [role=img]')?.ariaLabel ?? ''");
  const first = await page.waitFor("a curve", label, TRAINING_MS);
  await page.waitFor("the curve to grow", async () => (await label()) !== first, TRAINING_MS);
  expect(await page.path()).toContain("/welcome?run=job_");
  expect(await page.check()).toEqual([]);

  await page.press("k", "ctrl");
  await page.waitFor("the search", () => page.run<boolean>("document.activeElement?.role === 'combobox'"));
  await page.type("first-run");
  await page.waitFor("the run", () =>
    page.run<boolean>("!!document.querySelector('#found-0')?.innerText.includes('Run')"),
  );
  await page.press("Enter");
  await page.waitFor("the page of the run", async () => (await page.path()).startsWith("/runs/job_"));
}

/** The run is still under way: its curve grows in the page that is open. */
async function watchRun(page: Dashboard): Promise<string> {
  const picture = () => page.run<string>("document.querySelector('.chart canvas')?.toDataURL() ?? ''");
  const last = () => page.run<number>("Number(document.querySelector('#runs-step')?.max ?? 0)");
  const before = { picture: await page.waitFor("a curve", picture), step: await page.waitFor("a step", last) };
  expect(before.step).toBeLessThan(24);
  await page.waitFor("more steps", async () => (await last()) > before.step);
  await page.waitFor("the curve to grow", async () => (await picture()) !== before.picture);
  await page.waitForText("Completed · 24 steps", TRAINING_MS);
  await page.waitForText("done after 24 steps"); // the log
  const reward = await page.run<string>("document.querySelector('.stats .stat b, .stats b').innerText");
  expect(Number.parseFloat(reward)).toBeGreaterThan(0.5); // it begins near 0.15
  expect(await page.check()).toEqual([]);
  return (await page.path()).split("/")[2] ?? "";
}

async function slide(page: Dashboard, job: string) {
  const shown = () => page.run<string>("document.querySelector('.runs-samples')?.innerText ?? ''");
  const latest = await page.waitFor("the samples", shown);
  await page.run("document.querySelector('#runs-step').focus()");
  for (let step = 24; step > 20; step--) await page.press("ArrowLeft");
  await page.waitFor("the address", async () => (await page.path()) === `/runs/${job}?step=20`);
  const { data } = (await world.server.call("GET", `/v1/training_jobs/${job}/samples?step=20&limit=100`)).body;
  const [best] = (data as { prompt: string; advantage: number }[]).toSorted((a, b) => b.advantage - a.advantage);
  await page.waitFor("other samples", async () => {
    const now = await shown();
    return now !== latest && now.includes(String(best?.prompt));
  });
  expect(await page.check()).toEqual([]);
}

async function deploy(page: Dashboard): Promise<string> {
  await page.click("button", "Deploy best");
  await page.click("button", "Deploy");
  await page.waitFor("the deployment", async () => (await page.path()).startsWith("/deployments/dep_"));
  await page.waitForText("1 replica ready", 60_000);
  expect(await page.check()).toEqual([]);
  return (await page.path()).split("/")[2] ?? "";
}

/** A held-out question that only the tuned model answers correctly. */
async function questionOf(base: string, tuned: string): Promise<string> {
  const right = async (id: string, row: { prompt: string; answer: number }) => {
    const body = { messages: [{ role: "user", content: row.prompt }], temperature: 0, max_tokens: 8 };
    const { body: said } = await world.server.call("POST", `/v1/deployments/${id}/chat/completions`, body);
    return isRight(said.choices[0].message.content, row);
  };
  for (const row of splitRows().heldOut) if (!(await right(base, row)) && (await right(tuned, row))) return row.prompt;
  throw new Error("the tuned model is not better than base");
}

async function compare(page: Dashboard, job: string, tuned: string) {
  await page.run(`document.querySelector('nav a[href="/runs"]').focus()`);
  await page.press("Enter");
  await page.click("link", "first-run");
  await page.click("link", "Compare in the playground");
  await page.waitFor("the playground", async () => (await page.path()).startsWith("/playground"));
  await page.click("textbox", "Message");
  await page.type("Hello.");
  await page.press("Enter");
  const untuned = await page.waitFor("base to serve", async () => {
    const { data } = (await world.server.call("GET", "/v1/deployments")).body;
    return data.find(({ model, status }: Record<string, string>) => model === "verk-tiny" && status === "serving")?.id;
  });
  await page.waitFor("the answers", () => page.has("button", "Send"), 60_000);
  await page.click("button", "New conversation");
  await page.type(await questionOf(untuned, tuned));
  await page.press("Enter");
  await page.waitForText("Answered by verk-tiny, no adapter");
  await page.waitForText("Answered by verk-tiny with adapter first-run");
  const proofs = `[...document.querySelectorAll(".playground-column")].slice(0, 2)
    .every((each) => each.querySelector(".playground-proof"))`;
  await page.waitFor("both answers", () => page.run<boolean>(proofs));
  const answered = `[...document.querySelectorAll(".playground-column")].slice(0, 2).map((each) =>
    ["h2", ".playground-answer .markdown", ".playground-proof"].map((part) => each.querySelector(part)).map((at) => at.title || at.textContent))`;
  const [plain, trained] = await page.run<[string, string, string][]>(answered);
  const modelOf = async (id = "") => (await world.server.call("GET", `/v1/models/${id}`)).body;
  const [, base, none] = /^system_fingerprint: (mdl_\w+)(\+mdl_\w+)?$/.exec(plain?.[2] ?? "") ?? [];
  const [, same, adapter] = /^system_fingerprint: (mdl_\w+)\+(mdl_\w+)$/.exec(trained?.[2] ?? "") ?? [];
  expect([none, same, plain?.[0]]).toEqual([undefined, base, "verk-tiny"]); // base is base
  expect(await modelOf(base)).toMatchObject({ name: "verk-tiny", job_id: null });
  expect(await modelOf(adapter)).toMatchObject({ job_id: job });
  expect(trained?.[0]).toContain("first-run step 24");
  expect(plain?.[1]).not.toBe(trained?.[1]);
  expect(await page.check()).toEqual([]);
}

async function detect(page: Dashboard) {
  await page.click("link", "Detect");
  await page.drop("region", "Files to detect", [PICTURE]);
  await page.waitForText("blocks_444.jpg");
  await page.waitForText("1 generated", 60_000); // the end of the scale
  await page.waitFor("the squares", () => page.run<boolean>("!!document.querySelector('.detect-frame rect')"));
  expect(await page.check()).toEqual([]);
}

async function deliver(page: Dashboard) {
  await page.click("link", "Webhooks");
  await page.click("button", "New endpoint");
  await page.click("textbox", "Address");
  await page.type(`${receiver.url}/hook`);
  await page.press("Enter");
  await page.waitForText("whsec_");
  expect(await page.check()).toEqual([]);
  await page.click("link", "Open the endpoint");
  await page.click("button", "Send test event");
  await page.waitForText("500 in");
  await page.press("Escape");
  await page.click("button", "Resend webhook.test");
  await page.waitForText("2 attempts");
  expect(receiver.got.map(({ path }) => path)).toEqual(["/hook", "/hook"]);
  expect(await page.check()).toEqual([]);
}

/** Pages of the navigation that the path has not seen. */
async function visitTheRest(page: Dashboard) {
  for (const [name, path] of [
    ["Home", "/"],
    ["Datasets", "/datasets"],
    ["Deployments", "/deployments"],
    ["Usage", "/usage"],
  ] as const) {
    await page.click("link", name);
    const isThere = `location.pathname === "${path}" && !!document.querySelector("h1") && !document.querySelector("[aria-busy=true]")`;
    await page.waitFor(`the page ${name}`, () => page.run<boolean>(isThere));
    expect([name, await page.check()]).toEqual([name, []]);
  }
}

async function revoke(page: Dashboard) {
  await page.click("link", "Keys");
  await page.click("button", "Revoke setup");
  expect(await page.check()).toEqual([]);
  await page.click("button", "Revoke");
  await page.waitForText("This API key was revoked");
  expect(await page.text()).not.toContain("Webhooks");
  expect(await page.check({ expected: /401/ })).toEqual([]);
  await page.tabTo("API key");
  await page.type(await world.server.apiKey());
  await page.press("Enter");
  await page.waitForText("Keys");
  await page.resize(SIZES.desktop);
}
