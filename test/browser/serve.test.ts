/** Deployments and agents in a real browser: park and wake, strings as text. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `<img src=x onerror="document.title='owned'">`;

let world: Awaited<ReturnType<typeof startDashboard>>;

async function get<T>(path: string): Promise<T> {
  return (await world.server.call("GET", path)).body as T;
}

async function post<T>(path: string, body: object): Promise<T> {
  const answer = await world.server.call("POST", path, body);
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.body as T;
}

describe.skipIf(CHROMIUM === null)("deployments and agents", () => {
  beforeAll(async () => {
    world = await startDashboard();
    await post("/v1/deployments", { model: "verk-tiny", name: "base", context_length: 512 });
    const messages = [{ role: "user", content: "hello" }];
    await post("/v1/chat/completions", { model: "base", messages, max_tokens: 2 });
  }, 120_000);
  afterAll(async () => await world?.close());

  test("a deployment is parked and woken, and a name with markup is text", async () => {
    const { page } = world;
    await page.at("/deployments/new");
    await page.click("textbox", "Name");
    await page.type(MARKUP);
    await page.click("spinbutton", "Minimum replicas");
    await page.press("a", "ctrl");
    await page.type("0");
    await page.click("button", "Deploy");
    await page.waitForText("1 replica ready");
    await page.click("button", "Park");
    await page.waitForText("The next request wakes it");
    await page.click("button", "Wake");
    await page.waitForText("1 replica ready");
    await page.click("button", "Log");
    await page.waitForText("The deployment is parked: the next request wakes it");
    await page.at("/deployments");
    await page.waitForText(MARKUP);
    expect(await page.run<string>("document.title")).toBe("Deployments · Verk");
    await page.click("link", "base");
    await page.waitForText("Whole answer p50");
    for (const tab of ["Settings", "Log", "Connect", "Requests", "Adapters", "Traffic"]) {
      await page.click("button", tab);
      expect(await page.faults()).toEqual([]);
    }
    await page.click("button", "Connect");
    await page.click("button", "Python");
    await page.waitForText('api_key=os.environ["VERK_API_KEY"]');
    await page.click("button", "Make a key for it");
    const code = () => page.run<string>("document.querySelector('.editor-view')?.innerText ?? ''");
    const key = await page.waitFor("the key in the code", async () => /api_key="(vk_\w+)"/.exec(await code())?.[1]);
    await page.click("button", "curl");
    await page.waitFor("curl", async () => (await code()).startsWith("curl"));
    const shell = Bun.spawn(["sh", "-c", await code()], { stdout: "pipe", stderr: "ignore" });
    expect(JSON.parse(await new Response(shell.stdout).text()).choices).toHaveLength(1);
    const { data: keys } = await get<{ data: { name: string; scopes: string[] }[] }>("/v1/api_keys");
    expect(keys.find(({ name }) => name === "for base")?.scopes).toEqual(["inference"]);
    expect(await page.run<string>("JSON.stringify([localStorage, sessionStorage, location.href])")).not.toContain(key);
    expect(await page.axe()).toEqual([]);
    await page.resize(SIZES.phone);
    expect(await page.faults()).toEqual([]);
    const { data } = await get<{ data: { id: string; name: string }[] }>("/v1/deployments");
    const marked = data.find(({ name }) => name === MARKUP)!;
    await post(`/v1/deployments/${marked.id}/stop`, {});
    await page.at(`/deployments/${marked.id}`);
    await page.click("button", "Delete");
    await page.waitForText("The model and the charges stay");
    await page.click("button", "Delete");
    await page.waitFor("the list", async () => (await page.path()) === "/deployments");
    await page.waitFor("the end of the row", async () => !(await page.has("link", MARKUP)));
    expect(await page.axe()).toEqual([]);
  }, 60_000);

  test("an agent is made, refused with the server's words at the field, and saved as the next version", async () => {
    const { page } = world;
    await page.resize(SIZES.desktop);
    await page.at("/agents/new");
    const fill = async (field: string, value: string) => {
      await page.click("textbox", field);
      await page.type(value);
    };
    await fill("Name", "tutor");
    await fill("System prompt", "Answer with a number.");
    await fill("Temperature", "9");
    await page.click("button", "Create agent");
    await page.waitFor("the refusal at the field", () =>
      page.run<boolean>("!!document.querySelector('input[aria-invalid=true]')"),
    );
    await page.click("textbox", "Temperature");
    await page.press("Backspace");
    await page.type("0");
    await page.click("button", "Create agent");
    await page.waitFor("the page of the agent", async () => (await page.path()) === "/agents/tutor");
    await page.click("link", "Edit");
    await page.waitForText("New version of tutor");
    await fill("Description", "counts");
    await page.click("button", "Save version");
    await page.waitFor("the second version", async () => (await page.text()).includes("Version 2"));
    expect(await get<object>("/v1/agents/tutor")).toMatchObject({
      version: 2,
      description: "counts",
      system_prompt: "Answer with a number.",
      sampling: { temperature: 0 },
    });
    expect(await page.check({ expected: /422/ })).toEqual([]); // the refusal above
  }, 60_000);
});
