// tier: all (pages in a browser)
/** Models from a dropped file to their end, training on from a result, and a queue whose rows are trained on. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

/** A process that looks at a file comes after everything else on a busy machine. */
const SLOW_MS = 120_000;
const MARKUP = `m"'><img src=x onerror=hit(1)>`;

const dashboard = async () => await startDashboard();
let open: Awaited<ReturnType<typeof dashboard>>;
beforeAll(async () => {
  if (CHROMIUM !== null) open = await dashboard();
});
afterAll(async () => {
  await open?.page.close();
  await open?.server.kill("SIGKILL"); // the last test starts another one
});

const call = async (method: string, path: string, body?: unknown) => (await open.server.call(method, path, body)).body;
/** Replaces the text of the focused field. */
async function write(text: string) {
  await open.page.waitFor("a field with the focus", () =>
    open.page.run("document.activeElement.localName === 'input'"),
  );
  await open.page.run("document.activeElement.select()");
  await open.page.type(text);
}
const ended = (id: string) =>
  until(
    "the run",
    async () => {
      const job = await call("GET", `/v1/training_jobs/${id}`);
      if (job.status === "failed") throw new Error(JSON.stringify(job.error));
      return job.status === "completed" ? job : undefined;
    },
    120_000,
  );
async function datasetOf(name: string, rows: readonly object[]): Promise<string> {
  const form = new FormData();
  form.set("name", name);
  form.set("file", new File([rows.map((row) => JSON.stringify(row)).join("\n")], `${name}.jsonl`));
  return (await call("POST", "/v1/datasets", form)).id;
}

describe.skipIf(CHROMIUM === null)("models", () => {
  test("a dropped file is imported, renamed, quantized, exported and deleted with what uses it", async () => {
    const { page } = open;
    const file = join(tempDir(), "family.gguf");
    renameSync(makeModel(tempDir(), { arch: "llama", type: "F16", width: 64 }), file);
    await page.at("/models");
    await page.waitForText("verk-tiny");
    expect(await page.check()).toEqual([]);
    await page.drop("region", "Import", [file]);
    await page.click("button", "Import");
    await page.waitForText("What it can do", SLOW_MS);
    const id = (await page.path()).split("/").at(-1) ?? "";
    await page.waitForText("llama.cpp", SLOW_MS);
    await page.waitForText("SFT, DPO");

    await page.click("button", "Rename");
    await write(MARKUP);
    await page.press("Enter");
    await page.waitFor(
      "the new name",
      async () => (await page.run("document.querySelector('h1').innerText")) === MARKUP,
    );
    expect((await call("GET", `/v1/models/${id}?registry=true`)).name).toBe(MARKUP);

    await page.click("button", "Quantize");
    await page.waitForText("Type of the weights");
    await page.click("button", "Quantize");
    await page.waitFor("the copy's page", async () => !(await page.path()).includes(id));
    const copy = (await page.path()).split("/").at(-1) ?? "";
    await page.waitForText("Quantizes to", SLOW_MS);
    const made = await call("GET", `/v1/models/${copy}`);
    expect(made).toMatchObject({ status: "ready", quantization: "Q4_K_M", base_model_id: id });
    const family = () => page.run<string>(`document.querySelector('[aria-label="Family"]').innerText`);
    await page.waitFor("the family", async () => (await family()).includes(MARKUP));
    expect(await page.check()).toEqual([]);

    await page.run("HTMLAnchorElement.prototype.click = function () { window.saved = this.href; }");
    await page.click("button", "Export");
    await page.waitForText("Format");
    await page.click("button", "Export");
    await page.waitFor("the address of the file", () => page.run("!!window.saved"));
    const bytes = await page.run<number>(
      "fetch(window.saved).then((answer) => answer.arrayBuffer()).then((all) => all.byteLength)",
    );
    expect(bytes).toBe(made.size_bytes);

    const deployment = await call("POST", "/v1/deployments", { model: id, name: "serves-it" });
    await page.at(`/models/${id}`);
    await page.click("button", "Delete");
    await page.waitForText("serves-it");
    expect(await page.check()).toEqual([]);
    await page.click("button", "Delete all 2");
    await page.waitFor(
      "the list",
      async () => (await page.path()).startsWith("/models") && !(await page.path()).includes(id),
    );
    expect((await open.server.call("GET", `/v1/models/${id}`)).status).toBe(404);
    expect((await call("GET", `/v1/deployments/${deployment.id}`)).status).toMatch(/stop/);
    await page.waitForText(`${MARKUP}, which is not here`);
    await page.resize(SIZES.phone);
    expect(await page.check()).toEqual([]);
    await page.resize(SIZES.desktop);
  }, 240_000);

  test("the result of a run is trained on by another method, with the keyboard", async () => {
    const { page } = open;
    const rows = Array.from({ length: 4 }, (_, i) => ({ prompt: `Say ${i}`, completion: ` ${i}` }));
    const examples = await datasetOf("examples", rows);
    await datasetOf(
      "pairs",
      rows.map(({ prompt, completion }) => ({ prompt, chosen: completion, rejected: " no" })),
    );
    const hyperparameters = { max_steps: 1, per_device_train_batch_size: 2 };
    const base = { base_model: "verk-tiny", lora: { r: 4 }, hyperparameters, seed: 1 };
    const first = await call("POST", "/v1/training_jobs", {
      ...base,
      method: "sft",
      dataset: examples,
      output_name: "caps-sft",
    });
    await ended(first.id);
    await page.at(`/runs/${first.id}`);
    await page.tabTo("Train on from here");
    await page.press("Enter");
    await page.tabTo("Train by DPO");
    await page.press("Enter");
    await page.waitFor("the form", async () => (await page.path()).startsWith("/runs/new?"));
    await page.waitForText("result of the run caps-sft");
    const models = `[...document.querySelectorAll("select")][0].innerText`;
    await page.waitFor("the result in the list", async () =>
      (await page.run<string>(models)).includes("caps-sft, adapter of verk-tiny"),
    );
    await page.tabTo("Dataset");
    for (let i = 0; i < 4 && !(await page.run<string>(CHOSEN)).startsWith("pairs"); i++) await page.press("ArrowDown");
    expect(await page.run<string>(CHOSEN)).toStartWith("pairs");
    await page.tabTo("Steps");
    await page.type("1");
    await page.waitForText("ready to start", 120_000);
    await page.waitForText("Rows as the model reads them");
    expect(await page.check()).toEqual([]);
    await page.tabTo("Start");
    await page.press("Enter");
    await page.waitFor("the new run", async () => /^\/runs\/job_/.test(await page.path()));
    const second = await ended((await page.path()).split("/").at(-1) ?? "");
    expect(second).toMatchObject({ method: "dpo", lora: { r: 4 } });
    await page.at("/models");
    await page.waitForText("caps-sft");
    const tree = await page.run<string>(`document.querySelector("table").innerText`);
    expect(tree.indexOf("verk-tiny")).toBeLessThan(tree.indexOf("Step 1"));
  }, 300_000);

  test("a queue makes its dataset, and its rows are trained on in one click", async () => {
    const { page } = open;
    await page.at("/annotate");
    await page.click("button", "New queue");
    await write("judge");
    await page.press("Enter");
    await page.waitFor("the queue", async () => /^\/annotate\/anq_/.test(await page.path()));
    const id = (await page.path()).split("/").at(-1) ?? "";
    await page.waitForText("judge-preferences");
    expect(await page.has("link", "Train on these")).toBe(false);
    await call("POST", `/v1/annotation_queues/${id}/items`, {
      items: [{ input: "Which?", outputs: ["this", "that"] }],
    });
    await page.at(`/annotate/${id}/work`);
    await page.waitForText("Which?");
    await page.press("1");
    await page.waitFor("the row", async () => {
      const { dataset_id: dataset } = await call("GET", `/v1/annotation_queues/${id}`);
      return (await call("GET", `/v1/datasets/${dataset}`)).num_rows === 1;
    });
    await page.at(`/annotate/${id}`);
    await page.click("link", "Train on these");
    await page.waitFor("the form", async () => (await page.path()).startsWith("/runs/new?method=dpo"));
    await page.waitForText("judge-preferences");
    expect(await page.check()).toEqual([]);
  }, 120_000);

  test("a killed server leaves no half of a quantized file; its page says so, and goes on with the next server", async () => {
    const { page, server } = open;
    const { dir } = server;
    const file = makeModel(tempDir(), { arch: "llama", type: "F16", width: 512, layers: 6, ff: 2048, heads: 8 });
    const from = (await server.verk(["models", "import", file, "--name", "large", "--json"])).json();
    const copy = await call("POST", `/v1/models/${from.id}/quantize`, { quantization: "Q4_K_M" });
    await page.at(`/models/${copy.id}`);
    const under = () => filesBelow(join(dir, "models/.converting")).filter((each) => each.endsWith(".gguf"));
    await until("the file to grow", () => under().length > 0, SLOW_MS);
    expect((await call("GET", `/v1/models/${copy.id}`)).status).toBe("pending");
    const key = await server.apiKey();
    await server.kill("SIGKILL");
    await page.waitForText("The connection to the server is lost", SLOW_MS);
    expect(await page.text()).toContain("Quantizing");
    expect(existsSync(join(dir, `models/.results/${copy.id}.gguf`))).toBe(false);

    open = { ...open, server: await startBinary({ dir, key, listen: new URL(server.url).host }) };
    await page.waitForText("What it can do", SLOW_MS);
    const made = await call("GET", `/v1/models/${copy.id}`);
    expect(made).toMatchObject({ status: "ready", quantization: "Q4_K_M" });
    expect(under()).toEqual([]);
    const results = filesBelow(join(dir, "models/.results")).filter((each) => each.includes(copy.id));
    expect(results.map((each) => Bun.file(each).size)).toEqual([made.size_bytes]);
    expect(await page.axe()).toEqual([]);
  }, 300_000);
});

const filesBelow = (dir: string): string[] =>
  existsSync(dir)
    ? readdirSync(dir, { recursive: true, withFileTypes: true }).flatMap((each) =>
        each.isFile() ? [join(each.parentPath, each.name)] : [],
      )
    : [];

const CHOSEN = `(({ selectedOptions: [option] }) => option.text)(document.activeElement)`;
