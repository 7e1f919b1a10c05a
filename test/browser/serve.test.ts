/** Playground and deployments in a real browser: base and tuned columns, park and wake, strings as text. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { until } from "../harness.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = `<img src=x onerror="document.title='owned'">`;
const PROMPT = "What is 47 + 8?";

let world: Awaited<ReturnType<typeof startDashboard>>;
let jobId = "";

async function get<T>(path: string): Promise<T> {
  return (await world.server.call("GET", path)).body as T;
}

async function post<T>(path: string, body: object): Promise<T> {
  const answer = await world.server.call("POST", path, body);
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.body as T;
}

type Status = { id: string; status: string; parked: boolean };

/** Few large steps: the adapter is bad, and it is different. */
async function train(): Promise<string> {
  const rows = Array.from({ length: 8 }, () => ({ prompt: PROMPT, completion: "zebra zebra zebra" }));
  const form = new FormData();
  form.set("name", MARKUP);
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
    60_000,
  );
  return job.id;
}

describe.skipIf(CHROMIUM === null)("playground and deployments", () => {
  beforeAll(async () => {
    world = await startDashboard();
    jobId = await train();
  }, 120_000);
  afterAll(async () => await world?.close());

  test("a column of base is base, a column of a checkpoint is deployed from the page, and they differ", async () => {
    const { page } = world;
    const base = await post<Status>("/v1/deployments", { model: "verk-tiny", name: "base", context_length: 512 });
    const address = `/playground?cols=${base.id},${jobId}&prompt=${encodeURIComponent(PROMPT)}&max_tokens=8`;
    await page.at(address);
    await page.click("button", "Deploy tuned result");
    await page.waitFor("both to serve", async () => {
      const { data } = await get<{ data: Status[] }>("/v1/deployments");
      return data.length === 2 && data.every(({ status }) => status === "serving");
    });
    await page.waitFor("the page to see it", async () => !(await page.text()).includes("Nothing serves this yet"));
    await page.click("button", "Run");
    await page.waitForText("Answered by verk-tiny, no adapter");
    await page.waitForText("Answered by verk-tiny with adapter tuned");
    const columns = () =>
      page.run<string[]>(`[...document.querySelectorAll(".playground-column pre")].map((each) => each.textContent)`);

    type Chat = { system_fingerprint: string; choices: { message: { content: string } }[] };
    const body = { messages: [{ role: "user", content: PROMPT }], temperature: 0, max_tokens: 8 };
    const said = await post<Chat>(`/v1/deployments/${base.id}/chat/completions`, body);
    const { content } = said.choices[0]!.message;
    await page.waitFor("the whole answer of base", async () => (await columns())[0] === content);
    await page.waitFor("an answer of the tuned model", async () => !["", content].includes((await columns())[1] ?? ""));
    const model = await get<{ id: string }>("/v1/models/verk-tiny");
    expect(said.system_fingerprint).toBe(model.id);
    expect(await page.run<number>(`document.querySelectorAll(".playground-token[title]").length`)).toBeGreaterThan(1);
    expect(await page.text()).toContain("tokens/s");
    expect(await page.path()).toContain("prompt=What");
    for (const size of [SIZES.desktop, SIZES.tablet, SIZES.phone]) {
      await page.resize(size);
      expect(await page.faults()).toEqual([]);
    }
    expect(await page.axe()).toEqual([]);
    await page.resize(SIZES.desktop);
  }, 60_000);

  test("a deployment is parked and woken, and a name with markup is text", async () => {
    const { page } = world;
    await page.at("/deployments/new");
    await page.click("textbox", "Name");
    await page.type(MARKUP);
    await page.click("spinbutton", "Fewest replicas");
    await page.press("a", "ctrl");
    await page.type("0");
    await page.click("button", "Deploy");
    await page.waitForText("1 replica ready");
    await page.click("button", "Park");
    await page.waitForText("The next request wakes it");
    await page.click("button", "Wake");
    await page.waitForText("1 replica ready");
    await page.click("button", "Log");
    await page.waitForText("Parked");
    await page.at("/deployments");
    await page.waitForText(MARKUP);
    expect(await page.run<string>("document.title")).toBe("Deployments · Verk");
    await page.click("link", "base");
    await page.waitForText("Half within");
    for (const tab of ["Settings", "Log", "Connect", "Requests"]) {
      await page.click("button", tab);
      expect(await page.faults()).toEqual([]);
    }
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
