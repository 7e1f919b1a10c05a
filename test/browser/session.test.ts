// tier: all (every page in a browser)
/** The session of the browser and its connection: what the page keeps, when it locks, how it heals. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { CHROMIUM, type Dashboard, startDashboard } from "./kit.ts";

let world: Awaited<ReturnType<typeof startDashboard>>;
type Tab = Omit<Dashboard, "close" | "tab">;

async function signInByForm(tab: Tab, key: string) {
  await tab.waitFor("the sign-in page", () => tab.run<boolean>("document.activeElement?.type === 'password'"));
  await tab.type(key);
  await tab.press("Enter");
  await tab.waitFor("the page", () => tab.run<boolean>("!!document.querySelector('.app')"));
}

describe.skipIf(CHROMIUM === null)("the session", () => {
  beforeAll(async () => {
    world = await startDashboard({ signIn: false });
  }, 60_000);
  afterAll(() => world?.close());

  test("no script can read it, nothing of it is stored, and sign-out or a revoked key locks every tab", async () => {
    const { server, page } = world;
    const { id, key } = await makeKey(server.dir, "--scope", "admin");
    await page.at("/");
    await signInByForm(page, key);
    const { cookies } = (await page.send("Network.getCookies", { urls: [server.url] })) as { cookies: Cookie[] };
    expect(cookies.map(({ name, httpOnly, sameSite, path }) => ({ name, httpOnly, sameSite, path }))).toEqual(
      expect.arrayContaining([
        { name: "verk_session", httpOnly: true, sameSite: "Strict", path: "/" },
        { name: "verk_signed_in", httpOnly: false, sameSite: "Strict", path: "/" },
      ]),
    );
    for (const path of ["/keys", "/settings", "/playground", "/detect"]) await page.at(path);
    expect(await page.run<string>("document.cookie")).toBe("verk_signed_in=1");
    const stored = await page.run<Stored>(STORED);
    expect({ ...stored, csrf: undefined, html: undefined }).toEqual({ ...NOTHING, csrf: undefined, html: undefined });
    for (const secret of [key, stored.csrf, cookies.find(({ name }) => name === "verk_session")?.value ?? ""]) {
      expect(secret.length).toBeGreaterThan(20);
      expect(stored.html).not.toContain(secret);
    }

    const other = await page.tab();
    await other.at("/datasets");
    await other.waitForText("No dataset yet"); // it has the same session
    await page.send("Page.bringToFront");
    await page.click("button", "Sign out");
    await page.waitFor("the sign-in page", () => isLocked(page));
    expect(await page.run<number>("fetch('/v1/account').then(({ status }) => status)")).toBe(401);
    await page.run("history.back()");
    await page.waitFor("no page comes back", () => isLocked(page));
    await other.send("Page.bringToFront");
    await other.click("link", "Runs");
    await other.waitFor("the sign-in page", () => isLocked(other));

    await signInByForm(other, key);
    await page.at("/datasets");
    await page.waitForText("No dataset yet");
    await server.call("DELETE", `/v1/api_keys/${id}`);
    for (const tab of [page, other]) {
      await tab.waitForText("This API key was revoked"); // at once, without a click
      expect(await tab.faults({ expected: /401/ })).toEqual([]);
    }
  }, 60_000);

  test("a killed server shows; started again, the live view goes on without a reload", async () => {
    const { page } = world;
    const before = world.server;
    const key = await before.apiKey();
    await page.send("Page.bringToFront");
    await page.at("/");
    await signInByForm(page, key);
    const job = await startRun(before.call);
    await page.at(`/runs/${job}`);
    await page.run("window.isSameDocument = true");
    await page.waitForText("step 3 of", 60_000);
    await before.kill("SIGKILL");
    await page.waitForText("The connection to the server is lost");
    expect(await page.text()).toContain("step 1"); // the log stays

    const [dir, listen] = [before.dir, new URL(before.url).host];
    const after = await startBinary({ dir, listen, key });
    world = { ...world, server: after, close: async () => void (await Promise.all([page.close(), after.kill()])) };
    await page.waitFor("the note to go", async () => !(await page.text()).includes("connection to the server is lost"));
    await page.waitForText(`Completed · ${STEPS} steps`, 60_000);
    await page.waitForText(`done after ${STEPS} steps`);
    expect(await page.run<boolean>("window.isSameDocument")).toBeTrue();

    const whole = (await after.call("GET", `/v1/training_jobs/${job}/logs/full?stream=all`)).text.trim().split("\n");
    const shown = await page.run<string[]>(
      `[...document.querySelectorAll(".runs-log > div")].map((line) => line.lastChild.textContent)`,
    );
    expect(shown.toSorted()).toEqual(whole.toSorted()); // none is missing, none is there twice
    expect(await stepsOf(page)).toEqual(Array.from({ length: STEPS }, (_, i) => i + 1));
    const expected =
      /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|401/;
    expect(await page.check({ expected })).toEqual([]);
  }, 180_000);
});

const STEPS = 12;
type Cookie = { name: string; value: string; httpOnly: boolean; sameSite: string; path: string };
type Stored = typeof NOTHING & { csrf: string; html: string };

/** All that a page can leave in a browser. The theme is not secret. */
const NOTHING = { local: ["verk.theme"], session: [], databases: [], caches: [], state: null, name: "" };
const STORED = `(async () => ({
  local: Object.keys(localStorage), session: Object.keys(sessionStorage), databases: await indexedDB.databases(),
  caches: await caches.keys(), state: history.state, name: window.name,
  html: document.documentElement.outerHTML + location.href + JSON.stringify(localStorage),
  csrf: (await (await fetch("/v1/browser_sessions/current")).json()).csrf_token,
}))()`;

const isLocked = (tab: Tab) => tab.run<boolean>("!!document.querySelector('.gate') && !document.querySelector('.app')");

async function startRun(call: (typeof world)["server"]["call"]): Promise<string> {
  const rows = Array.from({ length: 8 }, (_, i) => ({ prompt: `What is 2${i} + 3?`, answer: 23 + i }));
  const { body: dataset } = await call("POST", "/v1/datasets", { name: "sums", format: "prompt" });
  await call("POST", `/v1/datasets/${dataset.id}/rows`, { rows });
  const { status, body, text } = await call("POST", "/v1/training_jobs", {
    base_model: "verk-tiny",
    method: "grpo",
    output_name: "long",
    dataset: dataset.id,
    lora: { r: 4 },
    seed: 1,
    reward_source: "def reward(completions, **kwargs):\n    return [float(len(text)) for text in completions]\n",
    hyperparameters: {
      num_generations: 8,
      per_device_train_batch_size: 64,
      max_completion_length: 8,
      max_steps: STEPS,
    },
    checkpoint: { save_steps: 2 },
  });
  if (status !== 201) throw new Error(text);
  return body.id;
}

/** The steps of the curves: an exported run has the points that the page drew. */
async function stepsOf(page: Dashboard): Promise<number[]> {
  const keep = `URL.createObjectURL = (blob) => { window.saved = blob.text(); return "blob:none"; };
    HTMLAnchorElement.prototype.click = () => {};`;
  await page.run(keep);
  await page.click("button", "Save report");
  await page.waitForText("Saved as one HTML file");
  const [, data = ""] = /id="run">(.*)<\/script>/s.exec(await page.run<string>("window.saved")) ?? [];
  return (JSON.parse(data) as { metrics: { step: number }[] }).metrics.map(({ step }) => step);
}
