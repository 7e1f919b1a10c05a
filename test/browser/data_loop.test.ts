// tier: all (every page in a browser)
/** Traces, annotation, experiments and monitors in a real browser. Every stored text is markup, and is shown as text. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { fillLoop, type Loop, MARKUP } from "./data_loop_world.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

let world: Awaited<ReturnType<typeof startDashboard>>;
let loop: Loop;

describe.skipIf(CHROMIUM === null)("the data loop", () => {
  beforeAll(async () => {
    world = await startDashboard();
    loop = await fillLoop(world.server);
  }, 120_000);
  afterAll(async () => await world?.close());

  test("two items are annotated by the keyboard alone", async () => {
    const { page, server } = world;
    await page.at("/annotate");
    await page.waitForText(MARKUP);
    await page.tabTo(MARKUP);
    await page.press("Enter");
    await page.waitForText("0 of 2 done");
    await page.tabTo("Annotate items");
    await page.press("Enter");
    await page.waitForText("Reserved for you");
    await page.press("ArrowRight");
    await page.waitForText("1 of 2 done");
    expect(await page.axe()).toEqual([]);
    await page.press("u");
    await page.waitForText("it cannot change any more");
    await page.press("0");
    await page.waitForText("Nothing is left for you");
    const { body } = await server.call("GET", `/v1/annotation_queues/${loop.queue}/items`);
    const outcomes = body.data.map((item: { outcome: { preferred: string } }) => item.outcome.preferred);
    expect(outcomes.sort()).toEqual(["second", "tie"]);
  }, 60_000);

  test("labels are chosen by digits, and Enter saves them", async () => {
    const { page, server } = world;
    await page.at(`/annotate/${loop.labels}/work`);
    await page.waitForText("The label tone is missing");
    await page.press("2");
    await page.press("4");
    await page.press("Enter");
    await page.waitForText("Nothing is left for you");
    const { body } = await server.call("GET", `/v1/annotation_queues/${loop.labels}/items`);
    expect(body.data[0].annotations[0].labels).toEqual({ tone: "rude", stars: 4 });
  }, 60_000);

  test("a trace is found by its content, and takes a score", async () => {
    const { page, server } = world;
    await page.at("/traces?q=unheardof");
    await page.waitForText("No trace matches");
    await page.click("button", "Clear filters");
    await page.waitFor("the row", () => page.run<boolean>("!!document.querySelector('.rowlink')"));
    await page.at(`/traces/${loop.trace}`);
    await page.waitForText("Writes the answer");
    await page.click("textbox", "Name");
    await page.type(MARKUP);
    await page.press("Tab");
    await page.type("0.75");
    await page.press("Enter");
    await page.waitForText("by a person");
    const { body } = await server.call("GET", `/v1/traces/${loop.trace}`);
    expect(body.scores).toMatchObject([{ name: MARKUP, value: 0.75, kind: "number" }]);
  }, 60_000);

  test("an experiment shows its figures, and the answers that got worse", async () => {
    const { page } = world;
    await page.at(`/experiments/${loop.experiment}`);
    await page.waitForText("Against good");
    await page.waitForText("p 0.25");
    await page.waitForText("0 better, 3 worse");
    await page.waitForText("1 → 0");
    await page.run("document.querySelector('.experiments-table').closest('.card').querySelector('.plot').focus()");
    await page.press("End");
    const spoken = `[...document.querySelectorAll(".chart [role=status]")].map((at) => at.textContent).join()`;
    await page.waitFor("the interval, read by a key", async () =>
      /bad, Compared with it 0/.test(await page.run<string>(spoken)),
    );
    const shown = await page.run<string>("document.querySelector('.experiments-pair ins').textContent");
    expect(shown).toContain("wrong");
  }, 60_000);

  test("a monitor is muted from the page", async () => {
    const { page, server } = world;
    await page.at(`/monitors/${loop.monitor}`);
    await page.click("button", "Mute for 8 hours");
    await page.waitFor("the button to unmute", () => page.has("button", "Unmute"));
    const { body } = await server.call("GET", `/v1/monitors/${loop.monitor}`);
    expect(Date.parse(body.muted_until)).toBeGreaterThan(Date.now());
  }, 60_000);

  test("every page shows markup as text, fits every screen, and has no serious fault", async () => {
    const { page } = world;
    for (const path of loop.paths) {
      await page.at(path);
      await page.waitFor(`${path} to show the markup`, async () =>
        /new$|conversations/.test(path) ? true : (await page.text()).includes(MARKUP),
      );
      for (const size of Object.values(SIZES)) {
        await page.resize(size);
        expect([path, size.width, await page.faults()]).toEqual([path, size.width, []]);
      }
      if (/_|experiments\/new/.test(path)) expect([path, await page.axe()]).toEqual([path, []]); // axe is slow: not for lists
    }
    expect(await page.run<string>("document.title")).not.toBe("owned");
  }, 120_000);
});
