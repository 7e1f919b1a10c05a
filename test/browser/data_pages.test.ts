/** Datasets and rewards, as a user sees them. */
import { describe, expect, test } from "bun:test";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";

const XSS = '<img src=x onerror="window.hacked=1"><b>x</b>';

/** Drops a file on the first place that takes files, as a user does. */
const drop = (page: Dashboard, name: string, text: string) =>
  page.run(`(() => {
    const data = new DataTransfer();
    data.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}));
    const at = document.querySelector(".datasets-drop");
    for (const type of ["dragover", "drop"]) at.dispatchEvent(new DragEvent(type, { bubbles: true, dataTransfer: data }));
  })()`);

async function clean(page: Dashboard) {
  expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  expect(await page.axe()).toEqual([]);
  for (const size of [SIZES.phone, SIZES.tablet, SIZES.desktop]) {
    await page.resize(size);
    expect(await page.faults()).toEqual([]);
  }
}

describe.skipIf(CHROMIUM === null)("datasets and rewards", () => {
  test("a dropped file becomes rows, is searched, and its snapshots are compared", async () => {
    const { server, page, close } = await startDashboard();
    await page.at("/datasets");
    await page.waitForText("No dataset yet");
    const rows = [XSS, "second apple", "third"].map((prompt) => `${JSON.stringify({ prompt, answer: "1" })}\n`);
    await drop(page, `${XSS}.jsonl`, rows.join(""));
    await page.waitForText("second apple");
    await page.click("button", "Upload");
    await page.waitForText("3 live");
    await page.waitForText(XSS);
    await clean(page);

    const id = (await page.path()).split("/")[2];
    await page.run(`document.querySelector("[type=search]").focus()`);
    await page.type("apple");
    await page.press("Enter");
    await page.waitForText("1 row");
    expect(await page.run<number>(`document.querySelectorAll(".datasets-line").length`)).toBe(1);

    await server.call("POST", `/v1/datasets/${id}/snapshots`, {});
    const changes = [
      { _op: "supersede", _row_id: 2, prompt: "second pear" },
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
    await close();
  }, 60_000);

  test("code is marked where it is wrong, and an evaluator runs on rows", async () => {
    const { page, close } = await startDashboard();
    await page.at("/rewards/new");
    await page.waitForText("No run to score");
    await clean(page);
    await page.at("/rewards/evaluators/new");
    await page.click("textbox", "Name");
    await page.type("right");
    await page.click("button", "Create");
    await page.click("button", "Run");
    await page.waitForText("Passed");
    await page.waitForText("Failed");
    await clean(page);
    await close();
  }, 60_000);
});
