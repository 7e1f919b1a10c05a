// tier: all (every page in a browser)
/** Runs that people arrange: columns, order, filters, tags, saved views, comparisons, pinned charts, many runs. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { CHROMIUM, type Dashboard, SIZES, startDashboard } from "./kit.ts";
import { plantRuns } from "./planted_runs.ts";

const MARKUP = `<img class="evil" src="x" onerror="document.title='evil'">`;
const NAMES = ["slow", "middle", "fast"];
const MANY = 10_000;

type Started = Awaited<ReturnType<typeof startDashboard>>;

const plant = (server: Started["server"]) =>
  plantRuns(
    server,
    NAMES.map((name, i) => ({
      name,
      steps: 60 + i,
      samplesEvery: 20,
      hyperparameters: { learning_rate: 1e-4 * (i + 1) },
    })),
  );

function withDatabase(server: Started["server"], work: (db: Database) => void) {
  const db = new Database(join(server.dir, "verk.db"));
  db.run("PRAGMA busy_timeout = 20000"); // the server writes too
  db.transaction(() => work(db)).immediate();
  db.close();
}

const isClean = async (page: Dashboard) => {
  expect(await page.run<number>("document.querySelectorAll('.evil').length")).toBe(0);
  expect(await page.run<string>("document.title")).not.toBe("evil");
  expect(await page.check()).toEqual([]);
};

const namesShown = (page: Dashboard) =>
  page.run<string[]>("[...document.querySelectorAll('.runs-list .rowlink')].map((each) => each.innerText)");
const titlesShown = (page: Dashboard) =>
  page.run<string[]>("[...document.querySelectorAll('.runs-list thead th')].map((each) => each.innerText)");
const showing = (page: Dashboard, names: readonly string[]) =>
  page.waitFor(`the runs ${names}`, async () => (await namesShown(page)).join() === names.join());

describe.skipIf(CHROMIUM === null)("arranged runs", () => {
  test("columns, order, filters and tags are chosen, saved as a view, and are there after a reload", async () => {
    const { server, page, close } = await startDashboard();
    try {
      const ids = await plant(server);
      await page.at("/runs");
      await showing(page, ["fast", "middle", "slow"]); // the newest first
      await addTags(page, server, ids[2] ?? "");
      await chooseColumns(page);
      await keepView(page);
      await isClean(page);
    } finally {
      await close();
    }
  }, 120_000);

  test("compared curves are smoothed, logarithmic, zoomed and hovered together, and differences are in words", async () => {
    const { server, page, close } = await startDashboard();
    try {
      const ids = await plant(server);
      withDatabase(server, (db) => {
        const other = "def reward(completions, **kwargs):\n    return [0.5] * len(completions)\n";
        db.query("update training_jobs set rewards = json_set(rewards, '$.source', ?) where id = ?").run(
          other,
          ids[1] ?? "",
        );
      });
      await compare(page, ids);
    } finally {
      await close();
    }
  }, 120_000);

  test("a run has grouped alarms, figures of the machine, pinned charts that stay, and notes; keys read a curve", async () => {
    const { server, page, close } = await startDashboard();
    try {
      const [id = ""] = await plant(server);
      withDatabase(server, (db) => plantEvents(db, id));
      await seeRun(page, server, id);
    } finally {
      await close();
    }
  }, 120_000);

  test("ten thousand runs are one list, of which only a part is drawn", async () => {
    const { server, page, close } = await startDashboard();
    try {
      const [id = ""] = await plant(server);
      withDatabase(server, (db) => plantMany(db, id));
      await page.at("/runs");
      await page.waitForText(`${(MANY + NAMES.length).toLocaleString("en-US")} runs`, 30_000);
      expect(await page.run<number>("document.querySelectorAll('.runs-list tr').length")).toBeLessThan(1_000);
      await page.run("scrollTo(0, document.documentElement.scrollHeight)");
      await page.waitFor("the oldest run", async () => (await namesShown(page)).at(-1) === "many-0");
      expect(await page.run<number>("document.querySelectorAll('.runs-list tr').length")).toBeLessThan(1_000);
      expect(await page.faults()).toEqual([]);
      await page.run("document.querySelector('input[type=search]').focus()");
      await page.type("many-4321");
      await showing(page, ["many-4321"]);
    } finally {
      await close();
    }
  }, 120_000);
});

async function addTags(page: Dashboard, server: Started["server"], id: string) {
  await page.click("checkbox", "Compare fast");
  await page.click("button", "Tag");
  await page.click("textbox", "Add tags");
  await page.type(`first, ${MARKUP.slice(0, 30)}`);
  await page.click("textbox", "Group");
  await page.type(`week ${MARKUP}`);
  await page.press("Enter");
  await page.waitForText(MARKUP.slice(0, 30));
  const { body } = await server.call("GET", `/v1/training_jobs/${id}`);
  expect([body.tags, body.group]).toEqual([["first", MARKUP.slice(0, 30)], `week ${MARKUP}`]);
  await page.click("button", "Clear");
}

async function chooseColumns(page: Dashboard) {
  await page.click("button", "Columns");
  await page.click("searchbox", "Find");
  await page.type("learning");
  await page.click("button", "Add Setting: learning_rate");
  await page.click("button", "Remove Curve");
  for (let i = 0; i < 7; i++) await page.click("button", "Move Setting: learning_rate up");
  await page.click("button", "Done");
  await page.waitFor("the column", async () => (await titlesShown(page))[1] === "learning_rate");
  expect(await titlesShown(page)).not.toContain("Curve");
  await page.click("button", "learning_rate");
  await showing(page, ["fast", "middle", "slow"]); // figures begin with the largest
  await page.click("button", "learning_rate");
  await showing(page, ["slow", "middle", "fast"]);
  await page.run("document.querySelector('.runs-list .rowlink').focus()");
  await page.press("ArrowDown");
  expect(await page.focused()).toBe("middle");
  await page.run("document.querySelector('input[type=search]').focus()");
  await page.type("learning_rate>=2e-4");
  await showing(page, ["middle", "fast"]);
  await page.type(" tag:first");
  await showing(page, ["fast"]);
}

const VIEW = `best ${MARKUP}`.slice(0, 60); // the most that a name has

async function keepView(page: Dashboard) {
  await page.click("button", "Save view");
  await page.click("textbox", "Name");
  await page.type(VIEW);
  await page.press("Enter");
  await page.waitFor("the view", () => page.has("button", VIEW));
  await page.click("button", "All runs");
  await showing(page, ["fast", "middle", "slow"]);
  await page.at("/runs");
  await page.waitFor("the columns that were chosen last", async () => (await titlesShown(page))[1] === "learning_rate");
  await page.click("button", VIEW);
  await showing(page, ["fast"]);
  expect(await page.path()).toContain("sort=set");
  await page.resize(SIZES.phone);
  await showing(page, ["fast"]);
  await page.resize(SIZES.desktop);
}

const OVER = "document.querySelector('.chart .u-over').getBoundingClientRect()";
const CURVES = "document.querySelectorAll('.chart canvas').length";

async function mouse(page: Dashboard, type: string, x: number, y: number) {
  const button = type === "mouseMoved" ? "none" : "left";
  await page.send("Input.dispatchMouseEvent", { type, x, y, button, buttons: 1, clickCount: 1 });
}

async function compare(page: Dashboard, ids: readonly string[]) {
  await page.at(`/runs/compare?ids=${ids.join()}`);
  await page.waitFor("the curves", () => page.run<boolean>(`${CURVES} >= 4`));
  await page.click("button", "Samples");
  await page.click("checkbox", "Log scale");
  await page.run("document.querySelector('.runs-look input[type=range]').focus()");
  for (let i = 0; i < 3; i++) await page.press("ArrowRight");
  await page.waitFor("the look in the address", async () => (await page.path()).includes("smooth=0.03"));
  expect(await page.path()).toContain("x=samples&log=1");
  await page.waitFor("the curves again", () => page.run<boolean>(`${CURVES} >= 4`));
  await page.run("scrollTo(0, 0)");
  const box = await page.run<{ x: number; y: number; width: number; height: number }>(
    `(({ x, y, width, height }) => ({ x, y, width, height }))(${OVER})`,
  );
  const at = (share: number) => [box.x + box.width * share, box.y + box.height / 2] as const;
  await mouse(page, "mouseMoved", ...at(0.5));
  const tips = "[...document.querySelectorAll('.chart .tip')].filter((tip) => !tip.hidden).length";
  await page.waitFor("the crosshair in several charts", () => page.run<boolean>(`${tips} > 1`));
  await mouse(page, "mousePressed", ...at(0.3));
  for (const share of [0.4, 0.5, 0.6]) await mouse(page, "mouseMoved", ...at(share));
  await mouse(page, "mouseReleased", ...at(0.6));
  const resets = "document.querySelectorAll('.chart-reset').length";
  await page.waitFor("a zoom of several charts", () => page.run<boolean>(`${resets} > 1`));
  await page.click("button", "Reset zoom");
  await page.waitFor("the whole curves", () => page.run<boolean>(`${resets} === 0`));
  const text = await page.text();
  for (const words of ["Learning rate", "0.0002", "Max steps", "Reward code: slow → middle"])
    expect(text).toContain(words);
  expect(text).not.toMatch(/ds_[0-9a-z]{20}|[{}]/);
  expect(
    await page.run<string[]>("[...document.querySelectorAll('.runs-code ins')].map((each) => each.innerText)"),
  ).toEqual([".5"]);
  await page.click("button", "Choose charts");
  await page.click("button", "Remove Loss");
  await page.click("button", "Done");
  await page.waitFor("the chart to go", async () => !(await page.has("heading", "Loss")));
  await isClean(page);
}

function plantEvents(db: Database, id: string) {
  const note = "insert into training_events (id, job_id, workspace_id, level, type, message, data, created_at)";
  for (const [i, step] of [7, 8, 9, 30].entries())
    db.query(
      `${note} select ?, id, workspace_id, 'warn', 'entropy_collapse', ?, ?, created_at from training_jobs where id = ?`,
    ).run(`evt_01arz3ndektsv4rrffq69g5fa${i}`, `advice of step ${step} ${MARKUP}`, JSON.stringify({ step }), id);
  const system = db.query('insert into training_system (job_id, time, "values") values (?, ?, ?)');
  for (let i = 0; i < 5; i++)
    system.run(id, 1_000_000 + i * 10_000, JSON.stringify({ cpu_percent: 10 * i, gpu_percent: 90 - i }));
}

async function seeRun(page: Dashboard, server: Started["server"], id: string) {
  await page.at(`/runs/${id}`);
  await page.waitForText("explores little: steps 7, 8, 9, 30");
  expect(await page.text()).toContain(`advice of step 30 ${MARKUP}`);
  expect(await page.text()).not.toContain("advice of step 7");
  await page.waitForText("GPU use");
  expect(await page.text()).not.toContain("GPU power"); // it was not measured
  const links = await page.run<string[]>(
    "[...document.querySelectorAll('.facts a.ref')].map((each) => each.innerText)",
  );
  expect(links).toEqual([expect.stringMatching(/^sums-.* @snap-1, 3 rows$/)]);

  await page.run("document.querySelector('.chart .plot').focus()");
  await page.press("Home");
  await page.press("ArrowRight");
  await page.waitFor("the spoken figures", () =>
    page.run<boolean>("document.querySelector('.chart [role=status]').innerText.startsWith('step 2, mean ')"),
  );
  await page.press("Enter");
  await page.waitFor("the step of the crosshair", async () => (await page.path()).endsWith("step=2"));

  await page.click("button", "Pin charts");
  await page.click("button", "Add Entropy");
  await page.click("button", "Add Loss");
  await page.click("button", "Move Loss up");
  await page.click("button", "Done");
  const pinned = "[...document.querySelectorAll('section[aria-label=Pinned] h3')].map((each) => each.innerText)";
  await page.waitFor("the pinned charts", async () => (await page.run<string[]>(pinned)).join() === "Loss,Entropy");

  await page.click("button", "Edit tags, group and notes");
  await page.click("textbox", "Notes");
  await page.type(`look ${MARKUP}`);
  await page.click("button", "Save");
  await page.waitForText(`look ${MARKUP}`);
  expect((await server.call("GET", `/v1/training_jobs/${id}`)).body.notes).toBe(`look ${MARKUP}`);

  await page.at(`/runs/${id}`);
  await page.waitFor(
    "the same after a reload",
    async () => (await page.run<string[]>(pinned)).join() === "Loss,Entropy",
  );
  await isClean(page);
}

/** Copies of a run, older than it, in one commit. */
function plantMany(db: Database, id: string) {
  const row = db.query("select * from training_jobs where id = ?").get(id) as Record<string, string | number | null>;
  const names = Object.keys(row);
  const insert = db.query(`insert into training_jobs (${names.join()}) values (${names.map(() => "?").join()})`);
  for (let i = 0; i < MANY; i++) {
    const copy = { ...row, id: `job_${String(i).padStart(26, "0")}`, output_name: `many-${i}` };
    const at = Number(row["created_at"]) - MANY + i;
    insert.run(...Object.values({ ...copy, created_at: at, step: 0 }));
  }
}
