import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { eq, sql } from "drizzle-orm";
import { annotationCalls, pair } from "../../../../test/annotations_kit.ts";
import { fakeClock, type TestApp, testApp } from "../../../../test/harness.ts";
import { events } from "../../../events/table.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { appendLeft } from "./append.ts";
import { prune } from "./service.ts";
import { annotationItems } from "./table.ts";

/** The rate limit follows the time of day, which a test here sets back. */
const UNLIMITED = { "http.rate_limit_per_second": 0 };
let app: TestApp;
let clock: ReturnType<typeof fakeClock>;
beforeEach(() => {
  clock = fakeClock();
  app = testApp({ clock, flags: UNLIMITED });
});
afterEach(() => app.close().then(app.remove));

const { dataset, create, add, next, annotate, skip, get, rows } = annotationCalls(() => app);
const PATH = "/v1/annotation_queues";
const WON = JSON.stringify({ preferred: "first", correction: null, votes: { first: 1, second: 0, tie: 0 } });

async function pairwise(more: object = {}, inputs = ["one"]) {
  const target = await dataset("preference");
  const queue = await create({ mode: "pairwise", dataset_id: target, ...more });
  return { target, queue, items: await add(queue, inputs.map(pair)) };
}

describe("a finished item", () => {
  test("of a pairwise queue appends a preference row, and both name each other", async () => {
    const { target, queue, items } = await pairwise();
    const done = await annotate(queue, items[0]!, "ada", { preferred: "second" });
    expect(done).toMatchObject({
      status: 201,
      body: { status: "completed", dataset_id: target, dataset_row_id: 1, outcome: { preferred: "second" } },
    });
    expect(await rows(target)).toEqual([
      {
        prompt: "one",
        chosen: "one bad",
        rejected: "one good",
        annotation_queue_id: queue,
        annotation_item_id: items[0],
      },
    ]);
    const [event] = app.ctx.db.select().from(events).where(eq(events.type, "annotation_item.completed")).all();
    expect(event?.data).toMatchObject({ id: items[0], queue_id: queue, dataset_id: target, dataset_row_id: 1 });
  });

  test("of several annotators waits for all of them, and a tie appends nothing", async () => {
    const { target, queue, items } = await pairwise({ annotators_per_item: 2 }, ["one", "two"]);
    expect((await annotate(queue, items[0]!, "ada", { preferred: "first" })).body.status).toBe("pending");
    expect((await annotate(queue, items[0]!, "bo", { preferred: "second" })).body).toMatchObject({
      status: "completed",
      outcome: { preferred: "tie", votes: { first: 1, second: 1, tie: 0 } },
      dataset_row_id: null,
    });
    await annotate(queue, items[1]!, "ada", { preferred: "first" });
    await annotate(queue, items[1]!, "bo", { preferred: "first" });
    expect((await rows(target)).map(({ prompt }) => prompt)).toEqual(["two"]);
  });

  test("with a correction appends a completion row", async () => {
    const target = await dataset("completion");
    const queue = await create({ mode: "single", dataset_id: target });
    const messages = [{ role: "user", content: "Capital of France?" }];
    const [wrong, right] = await add(queue, [
      { input: messages, outputs: ["Lyon"], reference: "Paris" },
      { input: "2+2", outputs: ["4"] },
    ]);
    expect((await annotate(queue, wrong!, "ada", { correction: "Paris" })).body).toMatchObject({ dataset_row_id: 1 });
    expect((await annotate(queue, right!, "ada", {})).body).toMatchObject({
      status: "completed",
      dataset_row_id: null,
    });
    expect(await rows(target)).toMatchObject([{ prompt: messages, completion: "Paris" }]);
  });

  test("keeps a late annotation for the agreement, takes the same one again, and changes no more", async () => {
    const { target, queue, items } = await pairwise();
    const [item] = items;
    await annotate(queue, item!, "ada", { preferred: "first" });
    expect((await annotate(queue, item!, "ada", { preferred: "first" })).status).toBe(201);
    expect(await annotate(queue, item!, "ada", { preferred: "second" })).toMatchObject({
      status: 400,
      body: { error: { code: "unsupported_state", param: "item" } },
    });
    const late = await annotate(queue, item!, "bo", { preferred: "second" });
    expect(late.body).toMatchObject({ outcome: { preferred: "first" }, annotations: [{}, { annotator: "bo" }] });
    expect(await rows(target)).toHaveLength(1);
  });

  test("whose dataset is gone is complete and says why it has no row", async () => {
    const { target, queue, items } = await pairwise();
    await app.call("DELETE", `/v1/datasets/${target}`);
    expect((await annotate(queue, items[0]!, "ada", { preferred: "first" })).body).toMatchObject({
      status: "completed",
      dataset_row_id: null,
      error: { code: "resource_not_found" },
    });
  });
});

test("an item waits while the disk is full, says why once, and gets its row later", async () => {
  const { target, queue, items } = await pairwise();
  const reopen = async (flags: Record<string, number>) => {
    await app.close();
    app = testApp({ clock, dir: app.dir, flags: { ...UNLIMITED, ...flags } });
  };
  await reopen({ "storage.min_free_bytes": 2 ** 52 });
  const { status, body } = await annotate(queue, items[0]!, "ada", { preferred: "first" });
  expect(status).toBe(201);
  expect(body).toMatchObject({ status: "appending", error: { code: "storage_unavailable" }, dataset_row_id: null });
  clock.advance(MINUTE_MS);
  await appendLeft(app.ctx);
  expect((await get(queue, items[0]!)).updated_at).toBe(body.updated_at);
  await reopen({});
  await appendLeft(app.ctx);
  expect(await get(queue, items[0]!)).toMatchObject({ status: "completed", error: null, dataset_row_id: 1 });
  expect(await rows(target)).toHaveLength(1);
});

test("an item that waits for its row outlives its queue until the row is there", async () => {
  const { target, queue, items } = await pairwise();
  app.ctx.db.run(sql`UPDATE annotation_items SET status = 'appending', dataset_id = ${target}, outcome = ${WON}`);
  await app.call("DELETE", `${PATH}/${queue}`);
  await prune(app.ctx);
  await appendLeft(app.ctx);
  expect(await rows(target)).toMatchObject([{ annotation_item_id: items[0] }]);
  await prune(app.ctx);
  expect(app.ctx.db.select().from(annotationItems).all()).toEqual([]);
});

describe("next", () => {
  test("gives each annotator another item, and the same one again on a repeated call", async () => {
    const { queue, items } = await pairwise({}, ["one", "two"]);
    expect(await next(queue, "ada")).toBe(items[0]);
    expect(await next(queue, "ada")).toBe(items[0]);
    expect(await next(queue, "bo")).toBe(items[1]);
    expect(await next(queue, "cy")).toBeUndefined();
    await annotate(queue, items[0]!, "ada", { preferred: "first" });
    expect(await next(queue, "ada")).toBeUndefined();
  });

  test("hides what others wrote, and gives an item to as many annotators as it needs", async () => {
    const { queue, items } = await pairwise({ annotators_per_item: 2 });
    await annotate(queue, items[0]!, "ada", { preferred: "first" });
    const { body } = await app.call("POST", `${PATH}/${queue}/next`, { annotator: "bo" });
    expect(body).toMatchObject({ annotator: "bo", lease_seconds: 900, item: { id: items[0], annotations: [] } });
    expect(await next(queue, "ada")).toBeUndefined();
    expect(await next(queue, "cy")).toBeUndefined();
  });

  test("gives an item to others when the lease has ended by the steady clock, whatever the time of day is", async () => {
    const { queue, items } = await pairwise({ lease_seconds: 60 });
    expect(await next(queue, "ada")).toBe(items[0]);
    clock.set(48 * 60 * MINUTE_MS);
    expect(await next(queue, "bo")).toBeUndefined();
    clock.set(-96 * 60 * MINUTE_MS);
    clock.advance(MINUTE_MS - 1);
    expect(await next(queue, "bo")).toBeUndefined();
    clock.advance(1);
    expect(await next(queue, "bo")).toBe(items[0]);
    expect(await next(queue, "ada")).toBeUndefined();
    expect((await annotate(queue, items[0]!, "ada", { preferred: "first" })).body.status).toBe("completed");
  });

  test("keeps a reservation over a restart for what is left of its lease", async () => {
    const { queue, items } = await pairwise({ lease_seconds: 600 });
    expect(await next(queue, "ada", { lease_seconds: 120 })).toBe(items[0]);
    clock.advance(MINUTE_MS);
    await app.close();
    app = testApp({ clock, dir: app.dir });
    expect(await next(queue, "bo")).toBeUndefined();
    clock.advance(MINUTE_MS);
    expect(await next(queue, "bo")).toBe(items[0]);
  });

  test("does not come back with a skipped item, unless another annotator asks", async () => {
    const { queue, items } = await pairwise();
    await next(queue, "ada");
    expect((await skip(queue, items[0]!, "ada")).body).toMatchObject({
      status: "pending",
      annotations: [{ annotator: "ada", skipped: true }],
    });
    expect((await skip(queue, items[0]!, "ada")).status).toBe(200);
    expect(await next(queue, "ada")).toBeUndefined();
    expect(await next(queue, "bo")).toBe(items[0]);
    expect((await skip(queue, items[0]!, "bo", { for_all: true })).body.status).toBe("skipped");
    expect(await next(queue, "cy")).toBeUndefined();
    expect((await annotate(queue, items[0]!, "ada", { preferred: "tie" })).body).toMatchObject({ status: "completed" });
    expect((await skip(queue, items[0]!, "cy")).body.error).toMatchObject({ code: "unsupported_state" });
  });
});

test("a queue wants a dataset of its format, and goes with its items", async () => {
  const wrong = await dataset("completion");
  expect((await app.call("POST", PATH, { name: "q", mode: "pairwise", dataset_id: wrong })).body.error).toMatchObject({
    code: "schema",
    param: "/dataset_id",
  });
  const { queue, items } = await pairwise();
  await next(queue, "ada");
  expect((await app.call("PATCH", `${PATH}/${queue}`, { dataset_id: wrong })).status).toBe(422);
  expect((await app.call("PATCH", `${PATH}/${queue}`, { dataset_id: null, name: "n" })).body).toMatchObject({
    name: "n",
    dataset_id: null,
    mode: "pairwise",
  });
  const left = () =>
    ["annotation_items", "annotations", "annotation_reservations"].map(
      (table) => app.ctx.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n,
    );
  await skip(queue, items[0]!, "bo");
  expect(left()).toEqual([1, 1, 1]);
  await app.call("DELETE", `${PATH}/${queue}`);
  expect((await next(queue, "ada").catch(String)) ?? "").toContain("No annotation queue");
  expect((await skip(queue, items[0]!, "cy")).status).toBe(404);
  await prune(app.ctx);
  expect(left()).toEqual([0, 0, 0]);
});

test("the agreement of a queue is alpha for each label and kappa for each two annotators", async () => {
  const labels = [
    { name: "tone", type: "choice", options: ["kind", "rude"] },
    { name: "score", type: "scale" },
    { name: "parts", type: "span", options: ["name"], required: false },
  ];
  const queue = await create({ mode: "single", annotators_per_item: 2, labels });
  const items = await add(
    queue,
    Array.from({ length: 4 }, (_, i) => ({ input: `${i}`, outputs: ["Ada Bo"] })),
  );
  const tones = ["kind", "kind", "rude", "rude"];
  const spans = [{ start: 0, end: 3, label: "name" }];
  for (const [i, id] of items.entries()) {
    await annotate(queue, id, "ada", { labels: { tone: tones[i], score: i + 1, parts: spans } });
    const parts = i === 0 ? [...spans, { start: 4, end: 6, label: "name" }] : spans;
    await annotate(queue, id, "bo", { labels: { tone: i === 3 ? "kind" : tones[i], score: i + 1, parts } });
  }
  const { body } = await app.call("GET", `${PATH}/${queue}/agreement`);
  expect(body).toMatchObject({ items: 4, annotators: [{ annotator: "ada", annotations: 4, skips: 0 }, {}] });
  const [tone, score, parts] = body.labels;
  // Nominal alpha: observed 2/8, expected 2·5·3/(8·7); kappa: agreement 3/4, by chance 1/2.
  expect(tone).toMatchObject({ items: 4, level: "nominal", pairs: [{ annotators: ["ada", "bo"], items: 4 }] });
  expect(tone.alpha).toBeCloseTo(1 - 2 / 8 / (30 / 56), 12);
  expect(tone.pairs[0].kappa).toBeCloseTo(0.5, 12);
  expect(score).toMatchObject({ level: "interval", alpha: 1, pairs: [{ kappa: 1, weighted_kappa: 1 }] });
  expect(parts).toMatchObject({ alpha: null, items: 4, pairs: [] });
  expect(parts.span_f1).toBeCloseTo((3 + 2 / 3) / 4, 12);
});

test("another workspace sees no queue, and no item through its own queue", async () => {
  const { queue, items } = await pairwise();
  const other = (await app.call("POST", PATH, { name: "q", mode: "pairwise" }, { key: app.keyB })).body.id as string;
  for (const path of [`/${queue}`, `/${queue}/items`, `/${other}/items/${items[0]}`])
    expect((await app.call("GET", `${PATH}${path}`, undefined, { key: app.keyB })).status).toBe(404);
});
