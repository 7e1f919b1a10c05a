// tier: all (every page in a browser)
/** Datasets and rewards, as a user sees them. */
import { describe, expect, test } from "bun:test";
import { LORA, REWARD, SEED, splitRows } from "../../src/lib/training/sums.ts";
import { until } from "../harness.ts";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";

/** One small step: enough to keep samples. */
const SMALL = { num_generations: 4, per_device_train_batch_size: 8, max_steps: 1, max_completion_length: 8 };
const XSS = '<img src=x onerror="window.hacked=1"><b>x</b>';

/** Drops a file on the first place that takes files, as a user does. */
const drop = (page: Dashboard, name: string, text: string) =>
  page.run(`(() => {
    const data = new DataTransfer();
    data.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}));
    const at = document.querySelector(".datasets-drop");
    for (const type of ["dragover", "drop"]) at.dispatchEvent(new DragEvent(type, { bubbles: true, dataTransfer: data }));
  })()`);

async function clean(page: Dashboard, expected = /^$/) {
  expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  expect(await page.axe()).toEqual([]);
  for (const size of [SIZES.phone, SIZES.tablet, SIZES.desktop]) {
    await page.resize(size);
    expect(await page.faults({ expected })).toEqual([]);
  }
}

describe.skipIf(CHROMIUM === null)("datasets and rewards", () => {
  test("a dropped file becomes rows, is searched, and its snapshots are compared", async () => {
    const { server, page, close } = await startDashboard();
    await until("the built-in model", async () => {
      const { body } = await server.call("GET", "/v1/models?registry=true");
      return body.data.some((model: { status: string }) => model.status === "ready");
    });
    await page.at("/datasets");
    await page.waitForText("No dataset yet");
    const rows = [XSS, "second apple", "third"].map((prompt) => `${JSON.stringify({ prompt, answer: "1" })}\n`);
    await drop(page, `${XSS}.jsonl`, rows.join(""));
    await page.waitForText("second apple");
    await page.waitForText(" tokens"); // of the text in the model's chat template
    expect(await page.text()).toContain("<|im_start|>user");
    await page.click("button", "Upload");
    await page.waitForText("3 live");
    await page.waitForText(XSS);
    await clean(page);

    const id = (await page.path()).split("/")[2];
    expect(await page.run<string>(`document.querySelector(".datasets-head").innerText`)).toContain("answer");
    await page.run(`document.querySelector("[type=search]").focus()`);
    await page.type("APPLE"); // without a button, and whatever the case
    await page.waitForText("1 row");
    expect(await page.run<number>(`document.querySelectorAll(".datasets-line").length`)).toBe(1);
    await page.at(`/datasets/${id}?row=2`);
    await page.click("button", "Edit");
    await page.waitForText("One JSON object");
    const edit = (text: string) =>
      page
        .run(`(() => { const area = document.querySelector("dialog textarea"); area.focus(); area.select(); })()`)
        .then(() => page.type(text));
    await edit("{");
    await page.waitFor("no saving", () => page.run<boolean>(`document.querySelector("dialog .primary").disabled`));
    await edit(JSON.stringify({ prompt: `second ${XSS}`, answer: "1" }));
    await page.click("button", "Save");
    await page.waitForText("Row changed");
    await page.waitForText(`second ${XSS}`);
    await page.at(`/datasets/${id}?tab=columns`);
    await page.waitForText("Lengths in characters");
    await page.waitForText("Equal to an earlier row");
    await clean(page);
    await server.call("POST", `/v1/datasets/${id}/rows`, {
      rows: [{ _op: "supersede", _row_id: 2, prompt: "second apple", answer: "1" }],
    });

    await server.call("POST", `/v1/datasets/${id}/snapshots`, {});
    const changes = [
      { _op: "supersede", _row_id: 2, prompt: "second pear", answer: "1" },
      { _op: "tombstone", _row_id: 3 },
    ];
    await server.call("POST", `/v1/datasets/${id}/rows`, { rows: [...changes, { prompt: "fourth" }] });
    await server.call("POST", `/v1/datasets/${id}/snapshots`, {});
    await page.at(`/datasets/${id}?tab=changes`);
    await page.waitForText("fourth");
    await page.waitFor("the changed words", () =>
      page.run<boolean>(
        `document.querySelector("del")?.innerText === "apple" && document.querySelector("ins")?.innerText === "pear"`,
      ),
    );
    await clean(page);

    await page.at("/datasets");
    await drop(page, "faq.csv", `question,note\nWhy?,${XSS.replaceAll('"', "'")}\n`);
    await page.waitForText("prompt is missing");
    const isOff = () => page.run<boolean>(`document.querySelector("dialog footer .primary").disabled`);
    expect(await isOff()).toBe(true);
    await page.tabTo("question becomes");
    await page.press("ArrowDown"); // the first field is the prompt
    await page.waitFor("a preview without faults", async () => !(await isOff()));
    await page.click("button", "Upload");
    await page.waitForText("1 live");
    await page.waitForText("Prompts in CSV, 1 row → prompt");
    await clean(page);

    await page.at("/datasets");
    await drop(page, "packed.json.gz", "no gzip at all");
    await page.waitForText("The file cannot be used like this");
    expect(await isOff()).toBe(true);
    await page.press("Escape");
    await clean(page, /422/); // the preview was refused
    await close();
  }, 120_000);

  test("edited code changes the histogram and is marked where it is wrong; an evaluator runs on rows", async () => {
    const { server, page, close } = await startDashboard();
    await page.at("/rewards/new");
    await page.waitForText("No run to score");
    const rows = splitRows().train.slice(0, 40);
    const dataset = await server.call("POST", "/v1/datasets", { name: "sums", format: "prompt" });
    await server.call("POST", `/v1/datasets/${dataset.body.id}/rows`, { rows });
    const job = await server.call("POST", "/v1/training_jobs", {
      base_model: "verk-tiny",
      method: "grpo",
      output_name: "short-run",
      dataset: dataset.body.id,
      lora: LORA,
      reward_source: REWARD,
      seed: SEED,
      hyperparameters: SMALL,
    });
    expect(job.status).toBe(201);
    await until("the run", async () => {
      const { body } = await server.call("GET", `/v1/training_jobs/${job.body.id}`);
      if (body.status === "failed") throw new Error(body.error.message);
      return body.status === "completed";
    });
    await page.at("/rewards/new");
    const counts = () => page.run<string>(`document.querySelector(".rewards-histogram .hidden")?.innerText ?? ""`);
    const first = await page.waitFor("a histogram", counts);
    const replace = async (code: string) => {
      await page.run(
        `(() => { const area = document.querySelector(".editor-layers textarea"); area.focus(); area.select(); })()`,
      );
      await page.type(code);
    };
    await replace("def reward(prompt, completion, **row):\n    return 7.5\n");
    await page.waitFor("another histogram", async () => (await counts()) !== first);
    await page.waitForText("7.5");
    await replace("def reward(prompt, completion, **row):\n    return (\n");
    await page.waitForText("Line 2");
    await clean(page, /422/);
    await page.at("/rewards/evaluators/new");
    await page.click("textbox", "Name");
    await page.type("right");
    await page.click("button", "Create evaluator");
    await page.click("button", "Run");
    await page.waitForText("Passed");
    await page.waitForText("Failed");
    await clean(page, /422/);

    await page.click("link", "New version");
    await page.waitForText("New version of right");
    await page.run(`{ const kind = [...document.querySelectorAll("select")].find((at) => at.labels[0].innerText === "Kind");
      kind.value = "code"; kind.dispatchEvent(new Event("change", { bubbles: true })); }`);
    const column = () => page.run<string>(`document.querySelector("[aria-label=Scores]")?.innerText ?? ""`);
    await page.waitFor("scores before it is stored", async () => /1\s+1\s+–\s+2\s+0\s+–/.test(await column()));
    await replace("def reward(completion, **row):\n    return 0.25\n");
    await page.waitFor("other scores", async () => (await column()).includes("0.25"));
    await replace("def reward(completion, **row):\n    return (\n");
    await page.waitForText("Line 2");
    await replace("def reward(completion, **row):\n    return 0.25\n");
    await page.click("textbox", "Other settings");
    await page.type('{"timeout_seconds": 5,}');
    await page.waitForText("Line 1, column 23: a name in double quotes is missing");
    await page.press("Backspace");
    await page.press("Backspace");
    await page.type("}");
    await page.click("button", "Save version");
    await page.waitFor("its page", async () => /evaluators\/evl_/.test(await page.path()));
    await page.waitForText("Timeout seconds");
    await clean(page, /422/);
    await close();
  }, 120_000);
});
