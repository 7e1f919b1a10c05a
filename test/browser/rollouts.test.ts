// tier: all (pages in a browser)
/** Rollouts as a user sees them: listed, turn by turn, token by token, compared, tried again. Every stored text is markup. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { until } from "../harness.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `<img src=x onerror="window.hacked=1"><b>x</b>`;
const PHONE = { width: 390, height: 844 };
const TASK = `count ${MARKUP}`;
const TOOLS = [{ type: "function", function: { name: "look", description: MARKUP, parameters: { type: "object" } } }];

let world: Awaited<ReturnType<typeof startDashboard>>;
const ids = { right: "", wrong: "" };

async function post<T>(path: string, body: object): Promise<T> {
  const answer = await world.server.call("POST", path, body);
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.body as T;
}

type Message = { role: string; content: string };

/** An agent with two turns, one conversation of its own, and a reward. */
async function work(reward: number, second: string): Promise<string> {
  const opened = await post<{ id: string; base_url: string; api_key: string }>("/v1/rollouts", {
    model: "demo",
    sampling: { temperature: 0, max_completion_tokens: 6 },
    metadata: { task: TASK },
  });
  const ask = async (messages: readonly Message[]): Promise<Message> => {
    const answer = await fetch(`${opened.base_url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${opened.api_key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "any", messages, tools: TOOLS }),
    });
    if (!answer.ok) throw new Error(await answer.text());
    return ((await answer.json()) as { choices: { message: Message }[] }).choices[0]!.message;
  };
  const first = { role: "user", content: `${MARKUP} What is 2 + 3?` };
  const said = await ask([first]);
  await ask([first, said, { role: "user", content: second }]);
  await ask([{ role: "user", content: `apart ${MARKUP}` }]);
  await post(`/v1/rollouts/${opened.id}/finish`, { reward, metrics: { [`steps ${MARKUP}`.slice(0, 90)]: 3 } });
  return opened.id;
}

async function clean() {
  const { page } = world;
  expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  expect(await page.axe()).toEqual([]);
  for (const size of [PHONE, SIZES.tablet, SIZES.desktop]) {
    await page.resize(size);
    expect([size.width, await page.faults()]).toEqual([size.width, []]);
  }
}

describe.skipIf(CHROMIUM === null)("rollouts", () => {
  beforeAll(async () => {
    world = await startDashboard();
    const { id } = await post<{ id: string }>("/v1/deployments", {
      model: "verk-tiny",
      name: "demo",
      context_length: 2_048,
    });
    await until(
      "the deployment",
      async () => (await world.server.call("GET", `/v1/deployments/${id}`)).body.status === "serving",
    );
  }, 120_000);
  afterAll(() => world?.close());

  test("the empty list says how an agent gets an address", async () => {
    const { page } = world;
    await page.at("/rollouts");
    await page.waitForText("No rollout yet");
    expect(await page.text()).toContain("/v1/rollouts");
    await clean();
    await page.at("/rollouts/compare");
    await page.waitForText("Select two rollouts");
    await page.at("/rollouts?status=open");
    await page.waitForText("No rollout fits");
  }, 60_000);

  test("a rollout shows its turns, tools, branches and reward; its tokens are coloured by mask, odds and reward", async () => {
    const { page } = world;
    ids.right = await work(1, "And 4 + 4?");
    ids.wrong = await work(0, "And 5 + 5?");
    await page.at("/rollouts");
    await page.waitFor("two rows", () => page.run<boolean>("document.querySelectorAll('.rowlink').length === 2"));
    await clean();
    await page.at(`/rollouts/${ids.right}`);
    await page.waitForText(`${MARKUP} What is 2 + 3?`);
    expect(await page.run<string>("document.querySelector('h1').innerText")).toBe(TASK);
    for (const words of [
      "Turn 1",
      "Turn 2",
      "1 tool",
      "2 conversations",
      "sent the reward when it finished",
      "3 of 100",
    ])
      expect(await page.text()).toContain(words);
    await clean();
    await page.run("document.querySelector('.rollouts-tools summary').click()");
    await page.tabTo("Conversation");
    await page.press("ArrowDown");
    await page.waitForText(`apart ${MARKUP}`);
    await page.waitForText("Begins anew: its messages are not those of an earlier turn");
    expect(await page.path()).toContain("path=2");

    await page.at(`/rollouts/${ids.right}?tab=tokens`);
    const written = "document.querySelectorAll('.rollouts-tokens .rollouts-token').length";
    await page.waitFor("the tokens", () => page.run<boolean>(`${written} > 0`), 60_000);
    const { body } = await world.server.call("GET", `/v1/rollouts/${ids.right}/turns`);
    const [one, two] = body.data as { prompt_token_ids: number[]; token_ids: number[] }[];
    await page.waitFor(
      "both turns",
      async () => (await page.run<number>(written)) === one!.token_ids.length + two!.token_ids.length,
    );
    expect(await page.run<string>("document.querySelector('.rollouts-tokens .rollouts-read').innerText")).toContain(
      MARKUP,
    );
    expect(await page.run<string>("document.querySelector('.rollouts-tokens .rollouts-token').title")).toMatch(
      /token \d+, [\d.]+ %, reward 1/,
    );
    await clean();
    await page.tabTo("Colour by");
    await page.press("ArrowDown");
    await page.waitFor("the reward's colour", () =>
      page.run<boolean>("!!document.querySelector('.rollouts-tokens .rollouts-token.up')"),
    );
    expect(await page.path()).toContain("colour=worth");
    await clean();
    await page.click("button", "Times");
    await page.waitForText("in the agent and its tools");
    await page.waitForText("Mean probability");
    await clean();
  }, 180_000);

  test("two rollouts of one task are picked, compared, and become rows; one turn is tried again", async () => {
    const { page } = world;
    await page.at("/rollouts");
    for (const id of [ids.right, ids.wrong]) await page.click("checkbox", `Pick ${TASK} ${id.slice(-6)}`);
    await page.click("link", "Compare");
    await page.waitForText("The same task");
    await page.waitForText("Turn by turn");
    expect(await page.text()).toContain("-1"); // the second has less reward
    await clean();
    await page.at(`/rollouts/${ids.right}`);
    await page.tabTo("Compare");
    await page.press("Enter");
    await page.waitForText("Those with the same task come first");
    await page.press("Tab"); // past the list
    await page.tabTo("Compare");
    await page.press("Enter");
    await page.waitFor(
      "the comparison",
      async () => (await page.path()) === `/rollouts/compare?ids=${ids.right},${ids.wrong}`,
    );

    await page.at(`/rollouts?ids=${ids.right},${ids.wrong}`);
    await page.click("button", "Make a dataset");
    await page.click("button", "Make");
    await page.waitFor("the dataset", async () => (await page.path()).startsWith("/datasets/ds_"));
    await page.waitForText("4 live"); // two conversations of each

    await page.at(`/rollouts/${ids.right}`);
    await page.tabTo("Try again from turn 2", 120);
    await page.press("Enter");
    await page.waitFor("the playground", async () => (await page.path()).startsWith("/playground"));
    await page.waitForText("And 4 + 4?");
    await page.waitForText(`${MARKUP} What is 2 + 3?`);
    expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  }, 120_000);

  test("an open rollout grows while one looks, and a deleted one is gone", async () => {
    const { page } = world;
    const opened = await post<{ id: string; base_url: string; api_key: string }>("/v1/rollouts", { model: "demo" });
    await page.at(`/rollouts/${opened.id}`);
    await page.waitForText("No turn yet");
    expect(await page.text()).not.toContain(opened.api_key);
    await clean();
    await fetch(`${opened.base_url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${opened.api_key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "x", max_tokens: 4, messages: [{ role: "user", content: "grow" }] }),
    });
    await page.waitForText("Turn 1", 30_000);
    await page.click("button", "Delete");
    await page.waitForText("Its turns with their tokens are removed");
    await page.click("button", "Delete");
    await page.waitFor("the list", async () => (await page.path()) === "/rollouts");
    expect((await world.server.call("GET", `/v1/rollouts/${opened.id}`)).status).toBe(404);
  }, 60_000);
});
