// tier: all (every page in a browser)
/** Runs in the dashboard: watched live, sample by sample, compared, created and exported. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { tempDir } from "../harness.ts";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";
import { plantRuns } from "./planted_runs.ts";

const MARKUP = `<img class="evil" src="x" onerror="document.title='evil'">`;
const REWARD = `def reward(completions, answer, **kwargs):
    # ${MARKUP}
    return [float(text.strip() == str(right)) for text, right in zip(completions, answer)]
`;
const ROWS = [
  ...[3, 5, 7].map((b) => ({ prompt: `What is 20 + ${b}?`, answer: 20 + b })),
  { prompt: `${MARKUP} What is 30 + 2?`, answer: 32 },
];
const SMALL = { num_generations: 4, per_device_train_batch_size: 8, max_completion_length: 6, learning_rate: 2e-3 };
const SLOW_MS = 60_000;

type Started = Awaited<ReturnType<typeof startDashboard>>;
type Call = Started["server"]["call"];

async function startRun(call: Call, dataset: string, name: string, steps: number): Promise<string> {
  const { status, body, text } = await call("POST", "/v1/training_jobs", {
    base_model: "verk-tiny",
    method: "grpo",
    output_name: name,
    dataset,
    reward_source: REWARD,
    seed: steps,
    hyperparameters: { ...SMALL, max_steps: steps },
    lora: { r: 4 },
    metadata: { note: MARKUP },
  });
  if (status !== 201) throw new Error(text);
  return body.id;
}

async function rowsOf({ server }: Started): Promise<string> {
  const { body } = await server.call("POST", "/v1/datasets", { name: `sums ${MARKUP}`, format: "prompt" });
  await server.call("POST", `/v1/datasets/${body.id}/rows`, { rows: ROWS });
  return body.id;
}

/** Text that only the trainer writes: answers, and warnings. */
function plantMarkup({ server }: Started, id: string) {
  const db = new Database(join(server.dir, "verk.db"));
  db.run("PRAGMA busy_timeout = 20000"); // the server writes too
  db.query("update training_samples set completion = ? || completion, error = ? where job_id = ? and number = 0").run(
    ...([MARKUP, MARKUP, id] as const),
  );
  const note = "insert into training_events (id, job_id, workspace_id, level, type, message, data, created_at)";
  const warning = "select ?, id, workspace_id, 'warn', 'truncation', ?, '{\"step\":2}', created_at from training_jobs";
  db.query(`${note} ${warning} where id = ?`).run("evt_01arz3ndektsv4rrffq69g5fav", MARKUP, id);
  db.close();
}

const isClean = async (page: Dashboard) => {
  expect(await page.run<number>("document.querySelectorAll('.evil').length")).toBe(0);
  expect(await page.run<string>("document.title")).not.toBe("evil");
  expect(await page.faults()).toEqual([]);
};

const fits = async (page: Dashboard) => {
  for (const size of [SIZES.phone, SIZES.tablet, SIZES.desktop]) {
    await page.resize(size);
    expect((await page.faults()).filter((fault) => fault.startsWith("scrolls"))).toEqual([]);
  }
};

describe.skipIf(CHROMIUM === null)("runs", () => {
  test("a run is watched live, step by step, compared, repeated and exported; text of users stays text", async () => {
    const started = await startDashboard();
    const { server, page } = started;
    try {
      const dataset = await rowsOf(started);
      const [first, second] = [
        await startRun(server.call, dataset, `one ${MARKUP}`, 4),
        await startRun(server.call, dataset, "two", 2),
      ];
      await watch(page, first);
      plantMarkup(started, first);
      await slide(page, first);
      await list(page, [first, second]);
      await compare(page, [first, second]);
      await create(page, second);
      await exportRun(page, first); // last: it leaves the origin
    } finally {
      await started.close();
    }
  }, 120_000);
});

describe.skipIf(CHROMIUM === null)("many runs", () => {
  test("runs of any length are compared, a form that was left comes back, and home says what needs a person", async () => {
    const started = await startDashboard();
    const { server, page } = started;
    try {
      const ids = await plantRuns(server, [
        ...[7, 40, 300, 1_200].map((steps, i) => ({
          name: `run-${i}`,
          steps,
          samplesEvery: 1,
          hyperparameters: { learning_rate: 1e-4 * (i + 1) },
        })),
        { name: "broken", steps: 3, error: "the reward raised KeyError: 'answer'" },
      ]);
      await compareMany(page, ids);
      await lookBack(page, ids[3] ?? "");
      await leaveForm(page);
      await seeHome(page);
    } finally {
      await started.close();
    }
  }, 120_000);
});

async function compareMany(page: Dashboard, ids: readonly string[]) {
  for (const axis of ["step", "time", "tokens"]) {
    await page.at(`/runs/compare?ids=${ids.join()}&x=${axis}`);
    await page.waitFor("the curves", () => page.run<boolean>("document.querySelectorAll('.chart canvas').length >= 4"));
    const lines = await page.run<number>("document.querySelector('.chart .legend').children.length");
    expect([axis, lines]).toEqual([axis, 5]);
  }
  await page.waitForText("2 differences"); // learning_rate and max_steps
  await fits(page);
  expect(await page.faults()).toEqual([]);
  await page.at(`/runs/compare?ids=${ids[0]},${ids[1]},job_00000000000000000000000000`);
  await page.waitForText("No training job job_0000"); // the others are still compared
  await page.waitFor("the curves", () => page.run<boolean>("document.querySelectorAll('.chart canvas').length >= 4"));
}

/** The previous answer is found in one request for each prompt, however long ago it was. */
async function lookBack(page: Dashboard, id: string) {
  const before = page.requests.length;
  await page.at(`/runs/${id}?step=1000`);
  await page.waitForText("compared with step 997, reward 0.75");
  const reads = page.requests.slice(before).filter((url) => url.includes("/samples?"));
  expect(reads.map((url) => url.split("?")[1])).toEqual(["step=1000&limit=100", "earlier_than=1000-3&limit=32"]);
  await page.waitForText("Parts of a step (s)");
  expect(await page.text()).toContain("Joules a step");
  expect(await page.run<number>("performance.getEntriesByName('runs.draw').length")).toBe(1);
}

async function leaveForm(page: Dashboard) {
  await page.at("/runs/new?model=verk-tiny");
  await page.click("textbox", "Seed");
  await page.type("seven");
  await page.waitForText("must be a number");
  await page.waitForText("needs a change");
  await page.click("link", "Datasets");
  await page.waitForText("Rows that");
  await page.run("history.back()");
  await page.waitForText("This is the form that you left");
  expect(
    await page.run<string>(
      "[...document.querySelectorAll('label')].find((each) => each.innerText.startsWith('Seed')).parentElement.querySelector('input').value",
    ),
  ).toBe("seven");
  await page.click("button", "Start over");
  await page.waitFor("an empty form", async () => !(await page.text()).includes("must be a number"));
}

async function seeHome(page: Dashboard) {
  await page.at("/");
  await page.waitForText("broken failed");
  expect(await page.text()).toContain("the reward raised KeyError");
  await page.waitFor("a curve of each run", () =>
    page.run<boolean>("document.querySelectorAll('svg.spark').length === 5"),
  );
  const hasGpu = await page.run<boolean>("document.body.innerText.includes('GPU 0')");
  if (!hasGpu) expect(await page.text()).toContain("This machine has no GPU that Verk can use");
  expect(await page.axe()).toEqual([]);
  await fits(page);
  expect(await page.faults({ expected: /404/ })).toEqual([]);
}

async function watch(page: Dashboard, id: string) {
  await page.at(`/runs/${id}`);
  await page.waitForText("of 4", SLOW_MS); // a step while it runs, without a reload
  await page.waitForText("Completed · 4 steps", SLOW_MS);
  await page.waitForText("done after 4 steps", SLOW_MS); // the log
  await page.waitFor("a curve", () => page.run<boolean>("!!document.querySelector('.chart canvas')"));
  await isClean(page);
}

async function slide(page: Dashboard, id: string) {
  await page.at(`/runs/${id}?step=2`);
  await page.waitForText("no earlier sample of this prompt");
  expect(await page.text()).toContain(MARKUP); // name, prompt, answer, error, alarm
  const figures = `[...document.querySelectorAll(".runs-figure")].map((each) => Number.parseFloat(each.innerText))`;
  const advantages = await page.run<number[]>(figures);
  expect(advantages).toEqual(advantages.toSorted((a, b) => b - a));
  expect(advantages.length).toBe(8);
  await page.press("ArrowRight");
  await page.press("ArrowRight");
  await page.waitFor("the address of step 4", async () => (await page.path()).endsWith("?step=4"));
  await page.waitFor("an earlier answer", async () => /compared with step|the same as in step/.test(await page.text()));
  await page.press("ArrowLeft");
  await page.waitFor("the address of step 3", async () => (await page.path()).endsWith("?step=3"));
  expect(await page.axe()).toEqual([]);
  await fits(page);
  await isClean(page);
}

async function exportRun(page: Dashboard, id: string) {
  await page.at(`/runs/${id}`);
  const keep = `URL.createObjectURL = (blob) => { window.saved = blob.text(); return "blob:none"; };
    HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; };`;
  await page.run(keep);
  await page.click("button", "Save report");
  await page.waitForText("Saved as one HTML file");
  expect(await page.run<string>("window.savedAs")).toMatch(/^one-img-class-evil-.*\.html$/);
  const html = await page.run<string>("window.saved");
  const file = join(tempDir(), "run.html");
  await Bun.write(file, html);
  expect(html.length).toBeLessThan(1_000_000);
  const before = page.requests.length;
  await page.send("Page.navigate", { url: `file://${file}` });
  await page.waitForText("What it wrote");
  expect(
    await page.run<number>("document.querySelectorAll('.evil, script:not([type=\"application/json\"])').length"),
  ).toBe(0);
  expect(await page.run<number>("document.querySelectorAll('svg path.l').length")).toBeGreaterThan(5);
  expect(await page.run<number>("document.querySelectorAll('details').length")).toBe(4);
  const data = await page.run<{ job: { id: string }; metrics: unknown[] }>(
    "JSON.parse(document.querySelector('#run').text)",
  );
  expect([data.job.id, data.metrics.length]).toEqual([id, 4]);
  expect(await page.text()).toContain(MARKUP);
  const back = () => page.run<string>("getComputedStyle(document.body).backgroundColor");
  const light = await back();
  await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  expect(await back()).not.toBe(light);
  expect(page.requests.slice(before)).toEqual([`file://${file}`]);
  expect(page.complaints).toEqual([]);
  await fits(page);
}

async function list(page: Dashboard, [first, second]: [string, string]) {
  await page.at("/runs?q=two");
  await page.waitForText("two");
  expect(await page.run<number>("document.querySelectorAll('tbody tr').length")).toBe(1);
  await page.at("/runs?status=failed");
  await page.waitForText("No run fits");
  await page.at("/runs");
  await page.click("checkbox", `Compare one ${MARKUP}`);
  await page.click("checkbox", "Compare two");
  await page.click("link", "Compare 2 runs");
  await page.waitFor("the comparison", async () => (await page.path()) === `/runs/compare?ids=${first},${second}`);
}

async function compare(page: Dashboard, ids: [string, string]) {
  await page.at(`/runs/compare?ids=${ids.join()}`);
  await page.waitForText("Max steps", SLOW_MS);
  await page.waitFor("the curves", () => page.run<boolean>("document.querySelectorAll('.chart canvas').length > 4"));
  await page.click("button", "Tokens");
  await page.waitFor("the axis in the address", async () => (await page.path()).endsWith("&x=tokens"));
  expect(await page.axe()).toEqual([]);
  await fits(page);
  await isClean(page);
}

async function create(page: Dashboard, from: string) {
  await page.at(`/runs/new?from=${from}`);
  await page.waitForText("ready to start", SLOW_MS);
  expect(await page.text()).toContain("Reward before training");
  await page.click("textbox", "Learning rate");
  await page.press("a", "ctrl");
  await page.type("-1");
  await page.waitForText("needs a change", SLOW_MS);
  await page.waitFor("the fault at its field", () =>
    page.run<boolean>("document.activeElement.getAttribute('aria-invalid') === 'true'"),
  );
  const isAsked = "!dispatchEvent(new Event('beforeunload', { cancelable: true }))";
  expect(await page.run<boolean>(isAsked)).toBe(true); // closing the tab would lose the form
  expect(await page.axe()).toEqual([]);
  await fits(page);
  await isClean(page);
}
