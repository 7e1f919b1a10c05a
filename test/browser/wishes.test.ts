// tier: all (trainings in a browser)
/**
 * The wishes of a newcomer as one path through the executable: a link that signs in, a model from a file and one from a hub,
 * a dataset in columns, a dry run that shows the rows, a training, the machine beside its curves, another one from its
 * result, runs in a table and compared, chat with a checkpoint, a trace that is kept, opened in the playground, sent to a
 * queue and made into a row, people's choices, and DPO on these. Once by mouse, once by keyboard. The command line's part is
 * in test/process: `verk run` (chat), the download (install), completion (cli).
 */
import { describe, expect, test } from "bun:test";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ranged, startFakeHub } from "../fake_hub.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { give, type Hands, keyboard, mouse } from "./hands.ts";
import { CHROMIUM, type Dashboard, startDashboard } from "./kit.ts";

const SLOW_MS = 120_000;
const BUSY = /v1\/system\/checks/; // they have a deadline, which a busy machine misses
const ROWS = [1, 2, 3, 4, 5, 6, 6].map((n) => ({ prompt: `What is ${n} + ${n}?`, completion: ` zebra ${n ** 4}` })); // far from what it says untrained

type World = Awaited<ReturnType<typeof startDashboard>>;
type Path = { world: World; page: Dashboard; hands: Hands; hub: ReturnType<typeof slowHub> };

/** A hub with one model. Half of its file comes at once, the rest when `release` is called. */
function slowHub() {
  const bytes = readFileSync(makeModel(tempDir(), { arch: "llama", type: "F16", width: 64 }));
  const { promise, resolve: release } = Promise.withResolvers<void>();
  const hub = startFakeHub({ "acme/tiny": { files: { "tiny-F16.gguf": bytes } } });
  hub.trouble = async (_, request) => {
    const whole = ranged(bytes, request.headers.get("range"));
    const part = new Uint8Array(await whole.arrayBuffer());
    const stream = new ReadableStream<Uint8Array>({
      async start(control) {
        control.enqueue(part.slice(0, part.length / 2));
        await promise;
        control.enqueue(part.slice(part.length / 2));
        control.close();
      },
    });
    return new Response(stream, { status: whole.status, headers: whole.headers });
  };
  return { url: hub.url, stop: hub.stop, release };
}

describe.skipIf(CHROMIUM === null)("the wishes of a newcomer", () => {
  for (const [name, handsOf] of [
    ["mouse", mouse],
    ["keyboard", keyboard],
  ] as const)
    test(`import, pull, train, train on, compare, chat, trace, queue, dataset and DPO by ${name}`, async () => {
      const hub = slowHub();
      const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_HUB__ENDPOINT: hub.url };
      const world = await startDashboard({ signIn: false, env });
      const path: Path = { world, page: world.page, hands: handsOf(world.page), hub };
      try {
        for (const step of STEPS) {
          await step(path);
          expect([step.name, await world.page.faults({ expected: BUSY })]).toEqual([step.name, []]);
          await world.page.run("window.shifted = 0; window.moved = []"); // the next step counts from here
        }
      } finally {
        await world.close();
        await hub.stop();
      }
    }, 900_000);
});

const STEPS = [
  ...[signInByLink, importModel, pullModel, uploadRows, train, watchMachine, trainOn],
  ...[arrangeAndCompare, chat, keepTrace, useTrace, judgeAndTrain],
];

const arrive = ({ page }: Path, start: string | RegExp) =>
  page.waitFor(`the page ${start}`, async () => {
    const at = await page.path();
    return typeof start === "string" ? at.split("?")[0] === start : start.test(at); // pages write what they show there
  });

/** By the navigation: a page may have a tab of the same name. */
async function visit(path: Path, address: string) {
  await path.hands.useAt(`nav a[href="${address}"]`);
  await arrive(path, address);
}

/** The link of the first start signs in. */
async function signInByLink(path: Path) {
  const { page, hands, world } = path;
  const [link = ""] = /http:\S+\/setup\?token=[\w-]+/.exec(world.server.stderr()) ?? [];
  await page.at(new URL(link).pathname + new URL(link).search);
  await hands.use("Create my admin key");
  await page.waitForText("it is shown only now");
  await hands.use("Get started");
  await arrive(path, "/welcome");
}

/** A model from a file has its place in the tree, can be downloaded, and deleted. */
async function importModel(path: Path) {
  const { page, hands } = path;
  const file = join(tempDir(), "dropped.gguf");
  renameSync(makeModel(tempDir(), { arch: "llama", type: "F16", width: 64 }), file);
  await visit(path, "/models");
  await page.waitForText("verk-tiny", SLOW_MS);
  await give(page, hands, [".models-drop button", ".models-drop input[type=file]"], [file]);
  await page.waitForText("Import a model");
  await hands.use("Import");
  await page.waitForText("What it can do", SLOW_MS);
  await page.waitFor("the family", () => page.run<boolean>(`!!document.querySelector('[aria-label="Family"]')`));
  await hands.use("Export");
  await page.waitForText("Format");
  await page.press("Escape");
  await page.waitFor("the end of the dialog", async () => !(await page.has("dialog", "Export")));
  await hands.use("Delete");
  await page.waitFor("the question", () => page.run<boolean>("!!document.querySelector('dialog[open]')"));
  await hands.use("Delete");
  await arrive(path, "/models");
}

/** The page of a model of the hub shows how far its download is. */
async function pullModel(path: Path) {
  const { page, hands, hub } = path;
  await visit(path, "/models");
  await hands.use("Pull from the hub");
  await hands.write("Name on the hub", "acme/tiny");
  await hands.use("Pull");
  await arrive(path, /^\/models\/mdl_/);
  await page.waitFor("the share of the file", async () => /Downloading \d+ %/.test(await page.text()), SLOW_MS);
  hub.release();
  await page.waitForText("What it can do", SLOW_MS);
}

/** Rows in columns, with their lengths and what is there twice. */
async function uploadRows(path: Path) {
  const { page, hands } = path;
  const file = join(tempDir(), "doubles.jsonl");
  writeFileSync(file, ROWS.map((row) => `${JSON.stringify(row)}\n`).join(""));
  await visit(path, "/datasets");
  await give(page, hands, [".datasets-drop", ".datasets-drop + input[type=file]"], [file]);
  await page.waitForText("What is 2 + 2?");
  await hands.use("Upload");
  await page.waitForText("7 live", SLOW_MS);
  await hands.use("Columns");
  await page.waitForText("Lengths in characters", SLOW_MS);
  await page.waitForText("Equal to an earlier row");
}

/** The dry run shows the rows as the model reads them. */
async function begin(path: Path, steps: string, { showsRows = true } = {}): Promise<void> {
  const { page, hands } = path;
  await hands.write("Steps", steps);
  await page.waitForText("ready to start", SLOW_MS);
  if (showsRows) await page.waitForText("Rows as the model reads them", SLOW_MS);
  await hands.use("Start");
  await arrive(path, /^\/runs\/job_/);
}

async function complete(path: Path, steps: string, options?: { showsRows: boolean }): Promise<void> {
  await begin(path, steps, options);
  await path.page.waitForText("Completed", SLOW_MS);
}

async function train(path: Path) {
  const { hands } = path;
  await visit(path, "/runs");
  await hands.use("New run");
  await arrive(path, "/runs/new");
  await hands.choose("Base model", "verk-tiny");
  await hands.choose("Method", "SFT");
  await hands.choose("Dataset", "doubles");
  await hands.write("Name", "first");
  await hands.write("Learning rate", "0.005");
  await complete(path, "4");
}

/** A long run shows its processors and memory beside its metrics. It is cancelled then. */
async function watchMachine(path: Path) {
  const { page, hands } = path;
  await hands.use("Edit and run again");
  await arrive(path, /^\/runs\/new\?/);
  await hands.write("Name", "long");
  await begin(path, "20000");
  for (const label of ["Loss by step", "Processors by time", "Memory of the machine by time"])
    await page.waitFor(
      label,
      async () => {
        if (await page.run<boolean>(`!!document.querySelector('.chart [aria-label^="${label}"]')`)) return true;
        await page.run("scrollTo(0, document.documentElement.scrollHeight)"); // curves are drawn near the window
        return false;
      },
      SLOW_MS,
    );
  await hands.use("Cancel");
  await hands.use("Cancel the run");
  await page.waitForText("Cancelled", SLOW_MS);
  await visit(path, "/runs");
  await hands.use("first");
  await arrive(path, /^\/runs\/job_/);
}

async function trainOn(path: Path) {
  const { page, hands } = path;
  await hands.use("Train on from here");
  await hands.use("Train by SFT");
  await arrive(path, /^\/runs\/new\?/);
  await page.waitForText("result of the run first");
  await hands.choose("Dataset", "doubles");
  await hands.write("Name", "second");
  await complete(path, "3");
}

/** A column of the user's choice, and two runs in the same charts. */
async function arrangeAndCompare(path: Path) {
  const { page, hands } = path;
  await visit(path, "/runs");
  await page.waitForText("second");
  await hands.use("Columns");
  await hands.write("Find", "learning");
  await hands.use("Add Setting: learning_rate");
  await hands.use("Done");
  const titles = "[...document.querySelectorAll('.runs-list thead th')].map((each) => each.innerText)";
  await page.waitFor("the column", async () => (await page.run<string[]>(titles)).includes("learning_rate"));
  await hands.use("Compare first");
  await page.waitFor("the buttons for what is picked", () => page.has("button", "Clear")); // they move the list
  await hands.use("Compare second");
  await hands.use("Compare 2 runs");
  await arrive(path, /^\/runs\/compare\?ids=/);
  await page.waitFor("the curves", () => page.run<boolean>("!!document.querySelector('.chart canvas')"), SLOW_MS);
  await page.waitForText("Max steps");
  await hands.use("Log scale");
  await page.waitFor("the scale in the address", async () => (await page.path()).includes("log=1"));
}

/** Two turns with the base model and with checkpoints, which were not deployed by hand. */
async function chat(path: Path) {
  const { page, hands } = path;
  await visit(path, "/runs");
  await hands.use("first");
  await arrive(path, /^\/runs\/job_/);
  await hands.use("Compare in the playground");
  await arrive(path, /^\/playground/);
  await say(path, "What is 3 + 3?");
  await page.waitForText("Answered by verk-tiny, no adapter", SLOW_MS);
  await page.waitForText("Answered by verk-tiny with adapter first", SLOW_MS);
  await say(path, "And 4 + 4?");
}

async function say({ page, hands }: Path, text: string) {
  await page.waitFor("the end of the answers before", () => page.has("button", "Send"), SLOW_MS);
  const count = "document.querySelectorAll('.playground-column .playground-answer:not([aria-busy])').length";
  const before = await page.run<number>(count);
  await hands.write("Message", text);
  await page.press("Enter");
  await page.waitFor("new answers", async () => (await page.run<number>(count)) > before, SLOW_MS);
  await page.waitFor("the end of all answers", () => page.has("button", "Send"), SLOW_MS);
}

/** The content is kept from one click on. A trace has the words of its request. */
async function keepTrace(path: Path) {
  const { page, hands } = path;
  await visit(path, "/traces");
  await page.waitForText("were not kept");
  await hands.use("Keep the content of verk-tiny");
  await hands.use("Keep");
  await page.waitForText("The content of new requests is kept.");
  await visit(path, "/playground");
  await say(path, "Which number is it?");
  await visit(path, "/traces");
  await page.waitForText("Which number is it?", SLOW_MS);
}

async function openTrace(path: Path) {
  const { page, hands } = path;
  await visit(path, "/traces");
  await page.waitForText("Which number is it?", SLOW_MS);
  const link = await page.run<string>(
    "[...document.querySelectorAll('.rowlink')].find((at) => at.innerText.includes('Which number')).getAttribute('href')",
  );
  await hands.useAt(`.rowlink[href="${link}"]`);
  await arrive(path, link);
}

/** The trace goes on in the playground, is sent to a queue, and becomes a row of a dataset. */
async function useTrace(path: Path) {
  const { page, hands } = path;
  await openTrace(path);
  await hands.use("Open in playground");
  await arrive(path, /^\/playground/);
  await page.waitForText("Which number is it?");
  await say(path, "Are you sure?");
  await visit(path, "/annotate");
  await hands.use("New queue");
  await hands.write("Name", "checks");
  await hands.choose("Work", "Label or correct one answer");
  await hands.use("Create queue");
  await arrive(path, /^\/annotate\/anq_/);
  await openTrace(path);
  await hands.use("Send to queue");
  await page.waitForText("checks (");
  await hands.use("Add to dataset");
  await page.waitForText("As the model should have said it");
  await hands.choose("Dataset", "A new dataset");
  await hands.use("Add row");
  await arrive(path, /^\/datasets\/ds_/);
  await page.waitForText("1 live");
}

/** Two answers of the playground are judged, and their choice is trained on, from the result of the first run. */
async function judgeAndTrain(path: Path) {
  const { page, hands } = path;
  await visit(path, "/annotate");
  await hands.use("New queue");
  await hands.write("Name", "judge");
  await hands.use("Create queue");
  await arrive(path, /^\/annotate\/anq_/);
  await visit(path, "/runs");
  await hands.use("first");
  await arrive(path, /^\/runs\/job_/);
  await hands.use("Compare in the playground");
  await arrive(path, /^\/playground/);
  await say(path, "What is 5 + 5?");
  await hands.use("Share");
  await hands.use("Send to queue");
  await hands.use("Send");
  await page.waitForText("Sent to judge");
  await visit(path, "/annotate");
  await hands.use("judge");
  await arrive(path, /^\/annotate\/anq_/);
  await page.waitForText("0 of 1 done");
  await hands.use("Annotate items");
  await arrive(path, /\/work$/);
  await page.waitForText("What is 5 + 5?");
  await page.press("1");
  await page.waitForText("Nothing is left for you");
  await visit(path, "/annotate");
  await hands.use("judge");
  await hands.use("Train on these");
  await arrive(path, /^\/runs\/new\?method=dpo/);
  await hands.choose("Base model", "first, adapter of verk-tiny");
  await hands.write("Name", "preferred");
  await complete(path, "1", { showsRows: false }); // an adapter of another rank is merged first
  const { body } = await path.world.server.call("GET", "/v1/training_jobs?limit=1");
  expect(body.data[0]).toMatchObject({ output_name: "preferred", method: "dpo", status: "completed" });
}
