// tier: all (a training, two models and a browser)
/** Conversations in a real browser: branches, tools, stop, what is kept and shared, checkpoints that serve themselves. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { makeProjector } from "../projectors.ts";
import { recordedModel } from "../serving/recorded_model.ts";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `<img src=x onerror="document.title='owned'">`;
const PROMPT = "What is 47 + 8?";
const CALL = `<tool_call>\n${JSON.stringify({ name: "weather", arguments: { city: "Bern" } })}\n</tool_call>`;
const ANSWERS = [CALL, "It rains in Bern, so take an umbrella with you.", numbers(4_000)];

/** A text of many tokens, no two of which are the same. */
function numbers(count: number): string {
  return Array.from({ length: count }, (_, i) => `${100_000 + i} `).join("");
}

let world: Awaited<ReturnType<typeof startDashboard>>;
let jobId = "";
let checkpointId = "";

async function get<T>(path: string): Promise<T> {
  return (await world.server.call("GET", path)).body as T;
}

async function post<T>(path: string, body: object): Promise<T> {
  const answer = await world.server.call("POST", path, body);
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.body as T;
}

/** Few large steps: the adapter is bad, and it is different. */
async function train(): Promise<string> {
  const rows = Array.from({ length: 8 }, () => ({ prompt: PROMPT, completion: "zebra zebra zebra" }));
  const form = new FormData();
  form.set("name", "zebras");
  form.set("file", new File([rows.map((row) => JSON.stringify(row)).join("\n")], "rows.jsonl"));
  const dataset = await post<{ id: string }>("/v1/datasets", form);
  const job = await post<{ id: string }>("/v1/training_jobs", {
    base_model: "verk-tiny",
    method: "sft",
    output_name: "tuned",
    dataset: dataset.id,
    seed: 1,
    lora: { r: 8, alpha: 32 },
    checkpoint: { save_steps: 2 },
    hyperparameters: { max_steps: 4, learning_rate: 2e-2, per_device_train_batch_size: 4 },
  });
  await until(
    "the training",
    async () => {
      const { status, error } = await get<{ status: string; error: unknown }>(`/v1/training_jobs/${job.id}`);
      if (status === "failed") throw new Error(JSON.stringify(error));
      return status === "completed";
    },
    120_000,
  );
  return job.id;
}

/** The texts of the turns of each column. */
const turns = (page: Dashboard) =>
  page.run<string[][]>(`[...document.querySelectorAll(".playground-column")].map((column) =>
    [...column.querySelectorAll(".playground-turn")].map((turn) => [...turn.querySelectorAll("pre, .markdown")].map((at) => at.textContent).join("|")))`);

const isAnswered = (page: Dashboard, count: number) =>
  page.waitFor(`${count} turns that are complete`, async () => {
    const [first = []] = await turns(page);
    return first.length === count && (await page.has("button", "Send"));
  });

describe.skipIf(CHROMIUM === null)("playground", () => {
  beforeAll(async () => {
    world = await startDashboard();
    const file = recordedModel(tempDir(), ANSWERS);
    await world.server.verk(["models", "import", file, "--name", "recorded"]);
    jobId = await train();
    const { data } = await get<{ data: { id: string; step: number }[] }>(`/v1/training_jobs/${jobId}/checkpoints`);
    checkpointId = data.find(({ step }) => step === 2)?.id ?? "";
  }, 180_000);
  afterAll(async () => await world?.close());

  test("a base model, a checkpoint and a result answer side by side, without being deployed by hand", async () => {
    const { page } = world;
    const cols = `model:verk-tiny,${jobId}:${checkpointId},${jobId}`;
    await page.at(`/playground?cols=${cols}&temperature=0&max_tokens=8&prompt=${encodeURIComponent(PROMPT)}`);
    await page.waitFor("the field", async () => (await page.focused()) === "Message");
    await page.press("Enter");
    await page.waitForText("Answered by verk-tiny, no adapter", 60_000);
    await page.waitForText("Answered by verk-tiny with adapter tuned-step-2", 60_000);
    await page.waitFor("the result", async () => /with adapter tuned\b(?!-)/.test(await page.text()), 60_000);
    await isAnswered(page, 2);
    expect(await page.text()).not.toContain("Not what this column names");
    expect(await page.text()).not.toContain("tokens/s"); // 8 tokens are too few to measure
    expect(await page.text()).toMatch(/\d+ of [\d,]+ tokens/);
    const [base, early, result] = await turns(page);
    expect([base?.[0], early?.[0], result?.[0]]).toEqual([PROMPT, PROMPT, PROMPT]);
    const messages = [{ role: "user", content: PROMPT }];
    const request = { model: "verk-tiny", messages, temperature: 0, max_tokens: 8 };
    const said = await post<{ choices: { message: { content: string } }[] }>("/v1/chat/completions", request);
    expect(base?.[1]).toBe(said.choices[0]?.message.content ?? "");
    expect(base?.[1]).not.toBe(result?.[1]);
    expect(await page.run<number>(`document.querySelectorAll(".playground-token[title]").length`)).toBeGreaterThan(1);
    const { data } = await get<{ data: { name: string; model: string; min_replicas: number }[] }>("/v1/deployments");
    expect(data).toMatchObject([{ name: "verk-tiny", model: "verk-tiny", min_replicas: 0 }]); // one for all of them
    expect(await page.check()).toEqual([]);
  }, 180_000);

  test("the page of a run opens its checkpoints beside the base model, always with the likeliest token", async () => {
    const { page } = world;
    await page.at(`/runs/${jobId}`);
    await page.click("link", "Compare in the playground");
    await page.waitFor("the playground", async () => (await page.path()).startsWith("/playground?cols="));
    expect(await page.path()).toContain("temperature=0");
    for (const name of ["verk-tiny", "tuned step 4", "tuned step 2"])
      await page.waitFor(name, async () => (await page.text()).includes(name));
    await page.click("button", "What is 47 + 8?");
    await page.waitFor("the field", async () => (await page.focused()) === "Message");
    expect(await page.check()).toEqual([]);
  }, 60_000);

  test("by keyboard alone: a second turn, an edit, branches, save, open after a reload, a row of a dataset", async () => {
    const { page } = world;
    const [{ id } = { id: "" }] = (await get<{ data: { id: string }[] }>("/v1/deployments")).data;
    await page.at(`/playground?cols=${id}&temperature=0&max_tokens=8`);
    await page.waitFor("the field", async () => (await page.focused()) === "Message");
    await page.type(`${MARKUP} 1 + 2?`);
    await page.press("Enter");
    await isAnswered(page, 2);
    await page.type("And 3 + 4?");
    await page.press("Enter");
    await isAnswered(page, 4);
    await page.press("ArrowUp");
    await page.waitFor("the editor", async () => (await page.focused()) === "Text of the turn");
    await page.press("a", "ctrl");
    await page.type("And 5 + 6?");
    await page.press("Enter");
    await page.waitFor("the branch", async () => (await turns(page))[0]?.[2] === "And 5 + 6?");
    await isAnswered(page, 4);
    await page.waitForText("2 of 2");
    await page.tabTo("Earlier branch of turn 3");
    await page.press("Enter");
    await page.waitFor("the first branch", async () => (await turns(page))[0]?.[2] === "And 3 + 4?");
    await page.tabTo("Regenerate turn 4");
    await page.press("Enter");
    await page.waitFor("two answers", async () => (await page.text()).split("2 of 2").length === 2);
    await isAnswered(page, 4);
    const before = await turns(page);
    await page.tabTo("Save");
    await page.press("Enter");
    await page.waitFor("the address", async () => (await page.path()).includes("conversation=conv_"));
    await page.waitFor("the list", () => page.run<boolean>("!!document.querySelector('.playground-saved li')"));
    await page.at(await page.path());
    await page.waitFor("the conversation", async () => JSON.stringify(await turns(page)) === JSON.stringify(before));
    await page.waitFor("the tokens, counted again", async () => /\d+ of [\d,]+ tokens/.test(await page.text()));
    await page.tabTo("Later branch of turn 3");
    await page.press("Enter");
    await page.waitFor("the other branch", async () => (await turns(page))[0]?.[2] === "And 5 + 6?");
    expect(await page.run<string>("document.title")).toBe("Playground · Verk");

    await page.tabTo("Share");
    await page.press("Enter");
    await page.tabTo("Add to dataset");
    await page.press("Enter");
    await page.tabTo("Add row");
    await page.press("Enter");
    await page.waitForText("Added a row to playground");
    const { data } = await get<{ data: { id: string; name: string }[] }>("/v1/datasets");
    const dataset = data.find(({ name }) => name === "playground");
    const rows = await get<{ data: { data: { messages: { role: string; content: string }[] } }[] }>(
      `/v1/datasets/${dataset?.id}/rows`,
    );
    const said = JSON.stringify(rows);
    expect(said).toContain(JSON.stringify(`${MARKUP} 1 + 2?`).slice(1, -1));
    expect(said).toContain("And 5 + 6?");
    expect(said).not.toContain("And 3 + 4?");
    expect(await page.check()).toEqual([]);
  }, 120_000);

  test("a saved conversation is renamed and deleted, and what is said later is kept too", async () => {
    const { page } = world;
    await page.click("textbox", "Message");
    await page.type("Last.");
    await page.press("Enter");
    await isAnswered(page, 6);
    const stored = async () => {
      const { data } = await get<{ data: { item_count: number }[] }>("/v1/conversations");
      return data[0]?.item_count ?? 0;
    };
    await page.waitFor("the new turns", async () => (await stored()) === 9); // 2 + 2 + 1 + 2 + 2
    const name = (await page.run<string>("document.querySelector('.playground-saved span').textContent")) ?? "";
    expect(name).toContain("<img");
    await page.click("button", `Rename ${name}`);
    await page.waitFor("the field", async () => (await page.focused()) === "Name");
    await page.press("a", "ctrl");
    await page.type(`${MARKUP} sums`);
    await page.press("Enter");
    await page.waitFor("the new name", () => page.has("button", `Delete ${MARKUP} sums`));
    expect(await page.run<string>("document.title")).toBe("Playground · Verk");
    await page.click("button", `Delete ${MARKUP} sums`);
    await page.click("button", "Delete");
    await page.waitForText("None yet.");
    expect((await get<{ data: object[] }>("/v1/conversations")).data).toEqual([]);
  }, 60_000);

  test("an agent calls a tool, a person types its result, and a long answer is stopped", async () => {
    const { page } = world;
    await post("/v1/deployments", { model: "recorded", name: "recorded", context_length: 32_768, parallel: 1 });
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    await post("/v1/agents", { name: "guide", deployment: "recorded", system_prompt: "Help.", tools });
    await page.at("/agents/guide");
    await page.click("link", "Open in playground");
    await page.waitFor("the field", async () => (await page.focused()) === "Message");
    await page.type("Do I need an umbrella?");
    await page.press("Enter");
    await page.waitForText("Calls weather", 60_000);
    await page.waitForText("Bern");
    await page.click("textbox", "Result of weather");
    await page.waitFor("the field", async () => (await page.focused()) === "Result of weather");
    await page.type('{"rain": true}');
    await page.click("button", "Send results");
    await page.waitForText("take an umbrella", 60_000);
    await isAnswered(page, 4);
    await page.click("textbox", "Message");
    await page.waitFor("the field", async () => (await page.focused()) === "Message");
    await page.type("Count.");
    await page.press("Enter");
    await page.waitForText("100010", 60_000);
    await page.press("Escape");
    await page.waitForText("stopped");
    expect((await turns(page))[0]?.at(-1)).not.toContain(String(100_000 + 3_999));
    expect(await page.check()).toEqual([]);
  }, 120_000);

  test("an image is attached where the model sees, and nowhere else", async () => {
    const { page } = world;
    const dir = tempDir();
    const model = makeModel(dir, { arch: "llama", type: "F32", context: 2048 });
    const projector = makeProjector(dir, { kind: "mlp", outputs: 64, hasClass: true });
    await world.server.verk(["models", "import", model, "--name", "seer", "--mmproj", projector]);
    const { id } = await post<{ id: string }>("/v1/deployments", { model: "seer", name: "seer" });
    await page.at(`/playground?cols=${id}&max_tokens=4`);
    await page.waitFor("the button", () => page.has("button", "Attach images"), 60_000);
    const picture = join(import.meta.dir, "../fixtures/images/blocks_444.jpg");
    await page.drop("form", "Next message", [picture]);
    await page.waitFor("the image", () => page.run<boolean>("!!document.querySelector('.playground-composer img')"));
    await page.click("textbox", "Message");
    await page.type("What is this?");
    await page.press("Enter");
    await page.waitForText("Answered by seer, no adapter", 60_000);
    expect(await page.run<number>("document.querySelectorAll('.playground-turn.user img').length")).toBe(1);
    expect(await page.check()).toEqual([]);
    await page.at("/playground?cols=model:verk-tiny");
    const isTold = `performance.getEntriesByType("resource").some(({ name }) => name.includes("/props?"))`;
    await page.waitFor("what the model can do", () => page.run<boolean>(isTold));
    await page.waitFor("the columns", () => page.run<boolean>("!document.querySelector('[aria-busy=true]')"));
    expect(await page.has("button", "Attach images")).toBe(false);
  }, 240_000);

  test("the list of keys has those of the page, and a phone shows the conversation", async () => {
    const { page } = world;
    await page.run("document.activeElement.blur()");
    await page.press("?");
    await page.waitForText("Edit the last message");
    await page.press("Escape");
    await page.resize(SIZES.phone);
    expect(await page.has("textbox", "Message")).toBe(true);
    expect(await page.faults()).toEqual([]);
    await page.resize(SIZES.desktop);
  }, 60_000);
});
