import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { and, eq, ne } from "drizzle-orm";
import { cohenKappa, krippendorffAlpha } from "../../../../test/agreement.ts";
import { annotationCalls } from "../../../../test/annotations_kit.ts";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { countRows } from "../../../../test/row_counter.ts";
import { randomFor, sweep } from "../../../../test/sweep.ts";
import { write } from "../../../platform/db/db.ts";
import type { Label } from "../statistics/agreement.ts";
import { mean } from "../statistics/describe.ts";
import { labelValue } from "./policy.ts";
import { prune } from "./service.ts";
import { fillSums, labelOf, schemesOf } from "./sums.ts";
import { type AnnotationRow, annotationQueues, annotationSums, annotations } from "./table.ts";

const counter = countRows();
afterAll(() => counter.stop());
let app: TestApp;
beforeEach(() => {
  app = testApp({ flags: { "http.rate_limit_per_second": 0 } });
});
afterEach(() => app.close().then(app.remove));

const { create, add, annotate, skip } = annotationCalls(() => app);
const PATH = "/v1/annotation_queues";
const LABELS = [
  { name: "tone", type: "choice", options: ["kind", "plain", "rude"], required: false },
  { name: "grade", type: "choice", options: ["a", "b", "c", "d"], ordered: true, required: false },
  { name: "tags", type: "choice", options: ["x", "y", "z"], multiple: true, required: false },
  { name: "score", type: "scale", min: -2, max: 3, required: false },
  { name: "note", type: "text", required: false },
  { name: "parts", type: "span", options: ["name"], required: false },
];
const PEOPLE = ["ada", "bo", "cy", "dee"];

/** The agreement as it follows from the stored annotations alone. */
function recount(queueId: string) {
  const queue = app.ctx.db.select().from(annotationQueues).where(eq(annotationQueues.id, queueId)).get()!;
  const rows = app.ctx.db.select().from(annotations).where(eq(annotations.queueId, queueId)).all();
  const annotators = [...Map.groupBy(rows, ({ annotator }) => annotator)]
    .map(([annotator, own]) => {
      const skips = own.filter(({ skipped }) => skipped).length;
      return { annotator, annotations: own.length - skips, skips };
    })
    .sort((a, b) => b.annotations - a.annotations || (a.annotator < b.annotator ? -1 : 1));
  const real = rows.filter(({ skipped }) => !skipped);
  const items = [...Map.groupBy(real, ({ itemId }) => itemId).values()].filter((given) => given.length > 1);
  const labels = schemesOf(queue).map((scheme) => {
    const { name, type, level } = scheme;
    if (level === null) return { name, type, level, alpha: null, pairs: [], ...spansOf(name, items) };
    const { order } = scheme;
    const value = (row: AnnotationRow | undefined): Label => (row ? labelOf(scheme, row) : null);
    const alpha = krippendorffAlpha(
      items.map((given) => given.map(value)),
      { level, ...(level === "ordinal" && order ? { categories: order } : {}) },
    );
    const column = (who: string) => items.map((given) => value(given.find(({ annotator }) => annotator === who)));
    const pairs = annotators.flatMap(({ annotator: first }, i) =>
      annotators.slice(i + 1).flatMap(({ annotator: second }) => {
        const kappa = (weights: "none" | "quadratic") =>
          cohenKappa(column(first), column(second), { weights, ...(order ? { categories: order } : {}) });
        const plain = kappa("none");
        const weighted = level === "nominal" ? null : kappa("quadratic").value;
        if (plain.items === 0) return [];
        return [{ annotators: [first, second], items: plain.items, kappa: plain.value, weighted_kappa: weighted }];
      }),
    );
    return { name, type, level, items: alpha.items, alpha: alpha.value, span_f1: null, pairs };
  });
  return { object: "annotation_queue.agreement", queue_id: queueId, items: items.length, annotators, labels };
}

function spansOf(name: string, items: AnnotationRow[][]) {
  const marked = items
    .map((given) => given.map(({ value }) => labelValue(value, name)).filter((value) => value !== undefined))
    .filter((values) => values.length > 1)
    .map((values) => values.map((spans) => new Set((spans as object[]).map((span) => JSON.stringify(span)))));
  const scores = marked.flatMap((sets) =>
    sets.flatMap((a, i) =>
      sets.slice(i + 1).map((b) => (a.size + b.size === 0 ? 1 : (2 * a.intersection(b).size) / (a.size + b.size))),
    ),
  );
  return { items: marked.length, span_f1: scores.length === 0 ? null : mean(scores) };
}

/** Numbers to 9 digits: the order of additions may change the last ones. */
const rounded = (value: unknown) =>
  JSON.parse(JSON.stringify(value), (_key, each) => (typeof each === "number" ? Number(each.toFixed(9)) : each));
const agreement = async (queue: string) => rounded((await app.call("GET", `${PATH}/${queue}/agreement`)).body);
const progress = async (queue: string) => (await app.call("GET", `${PATH}/${queue}`)).body.items;

function recountProgress(queueId: string) {
  const counts = { pending: 0, appending: 0, completed: 0, skipped: 0 };
  const found = app.ctx.db.$client.query("SELECT status FROM annotation_items WHERE queue_id = ?").all(queueId);
  for (const { status } of found as { status: keyof typeof counts }[]) counts[status]++;
  return counts;
}

test("R5: after any history the agreement and the counts of a queue equal a recount", async () => {
  const random = randomFor("agreement of annotators");
  const upTo = (n: number) => Math.floor(random() * n);
  for (let round = 0; round < sweep({ quick: 2, full: 20 }); round++) {
    const queue = await create({ mode: "single", annotators_per_item: 2 + upTo(2), labels: LABELS });
    const items = await add(
      queue,
      Array.from({ length: 8 }, (_, i) => ({ input: `${i}`, outputs: ["Ada Bo Cy"] })),
    );
    const value = () => {
      const spans = [0, 4, 7].filter(() => random() < 0.5).map((start) => ({ start, end: start + 2, label: "name" }));
      const all = {
        tone: ["kind", "plain", "rude"][upTo(3)],
        grade: ["a", "b", "c", "d"][upTo(4)],
        tags: ["x", "y", "z"].filter(() => random() < 0.5),
        score: upTo(6) - 2,
        note: `note ${upTo(3)}`,
        parts: spans,
      };
      return Object.fromEntries(Object.entries(all).filter(() => random() < 0.8));
    };
    for (let step = 0; step < 60; step++) {
      if (step === 30) forget(queue, round % 2 === 0); // as an older version left it
      const [item, person] = [items[upTo(items.length)]!, PEOPLE[upTo(PEOPLE.length)]!];
      if (random() < 0.2) await skip(queue, item, person, { for_all: random() < 0.2 });
      else await annotate(queue, item, person, { labels: value() });
      if (step % 20 === 19) expect(await agreement(queue)).toEqual(rounded(recount(queue)));
      if (step === 31) fillSums(app.ctx.db, queue);
    }
    expect(await progress(queue)).toEqual(recountProgress(queue));
    expect(app.ctx.db.select().from(annotationSums).where(eq(annotationSums.n, 0)).all()).toEqual(
      expect.not.arrayContaining([expect.objectContaining({ kind: "pair" })]),
    );
  }
});

/** `halfway`: a few items are in the sums already. */
function forget(queueId: string, halfway: boolean) {
  write(app.ctx.db, (tx) => {
    tx.delete(annotationSums)
      .where(and(eq(annotationSums.queueId, queueId), ne(annotationSums.kind, "status")))
      .run();
    tx.update(annotationQueues).set({ summedUntil: "" }).where(eq(annotationQueues.id, queueId)).run();
  });
  if (halfway) while (fillSums(app.ctx.db, queueId));
}

test("R5: the agreement and the counts of a queue read no items", async () => {
  const queue = await create({ mode: "single", annotators_per_item: 2, labels: [LABELS[0]] });
  const content = (n: number) => ({ input: `${n}`, outputs: ["fine"] });
  const [first] = await add(queue, [content(0)]);
  for (const person of ["ada", "bo"]) await annotate(queue, first!, person, { labels: { tone: "kind" } });
  const read = () => counter.of(async () => [await agreement(queue), await progress(queue)]);
  const few = await read();
  for (let i = 0; i < 10; i++)
    await add(
      queue,
      Array.from({ length: 100 }, (_, n) => content(n)),
    );
  const many = await read();
  expect(many.rows).toBeLessThanOrEqual(few.rows + 3);
  expect(many.sql.filter((sql) => sql.includes("annotation_items"))).toEqual([]);
});

test("R5: the sums of a deleted queue go with its items", async () => {
  const queue = await create({ mode: "single", labels: [LABELS[0]] });
  const [item] = await add(queue, [{ input: "one", outputs: ["fine"] }]);
  await annotate(queue, item!, "ada", { labels: { tone: "kind" } });
  await app.call("DELETE", `${PATH}/${queue}`);
  await prune(app.ctx);
  expect(app.ctx.db.select().from(annotationSums).all()).toEqual([]);
});
