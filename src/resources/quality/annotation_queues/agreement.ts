/** How far the annotators of a queue agree, for each label. */
import { and, asc, eq, gt, or } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { later } from "../../../lib/schema.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { alphaOf, type Cell, kappaOf } from "../statistics/agreement.ts";
import { fillSums, type Scheme, schemesOf } from "./sums.ts";
import { annotationSums, type QueueRow } from "./table.ts";

const MAX_ANNOTATORS = 20;
const PAGE = 500;

const Value = z.number().nullable();
export const Agreement = later(() =>
  z
    .object({
      object: z.literal("annotation_queue.agreement"),
      queue_id: z.string(),
      items: z.int().describe("Items with two annotations or more"),
      annotators: z.array(z.object({ annotator: z.string(), annotations: z.int(), skips: z.int() })),
      labels: z.array(
        z.object({
          name: z.string().describe("A label of the queue, or preferred for the choice of a pairwise queue"),
          type: z.enum(["choice", "scale", "text", "span", "preference"]),
          items: z.int().describe("Items with two values or more"),
          level: z.enum(["nominal", "ordinal", "interval"]).nullable(),
          alpha: Value.describe("Krippendorff's alpha. Null for spans, or if all values are equal"),
          span_f1: Value.describe("For spans: mean F1 of equal spans over all pairs of annotators"),
          pairs: z
            .array(
              z.object({
                annotators: z.array(z.string()),
                items: z.int(),
                kappa: Value.describe("Cohen's kappa"),
                weighted_kappa: Value.describe("With quadratic weights, for scales and ordered choices"),
              }),
            )
            .describe("Each two annotators with items in common; the 20 with the most annotations"),
        }),
      ),
    })
    .meta({ id: "AnnotationAgreement" }),
);
export type Agreement = z.infer<typeof Agreement>;

type Turn = ReturnType<typeof takingTurns>;
type SumRow = typeof annotationSums.$inferSelect;
/** Kind → its sums, of one label. */
type Sums = Map<string, SumRow[]>;

/** Reads the sums of the queue, which annotations keep: the cost depends on the number of different values, not of items. */
export async function agreementOf(ctx: Ctx, queue: QueueRow): Promise<Agreement> {
  const turn = takingTurns();
  while (fillSums(ctx.db, queue.id)) await turn();
  const labels = new Map<string, Sums>();
  for await (const row of rowsOf(ctx, queue.id, turn)) {
    const sums: Sums = labels.get(row.label) ?? new Map();
    labels.set(row.label, sums);
    const list = sums.get(row.kind);
    if (list) list.push(row);
    else sums.set(row.kind, [row]);
  }
  const whole: Sums = labels.get("") ?? new Map();
  const annotators = annotatorsOf(whole.get("annotator") ?? []);
  const busiest = annotators.slice(0, MAX_ANNOTATORS).map(({ annotator }) => annotator);
  const agreements: Agreement["labels"] = [];
  for (const scheme of schemesOf(queue)) {
    const sums = labels.get(scheme.name) ?? new Map();
    agreements.push(
      scheme.level === null ? spanAgreement(scheme.name, sums) : await labelAgreement(scheme, sums, busiest, turn),
    );
  }
  const items = totalOf(whole, "items");
  return { object: "annotation_queue.agreement", queue_id: queue.id, items, annotators, labels: agreements };
}

/** Pages of the primary key, so that other requests have their turns. A label is never empty. */
async function* rowsOf({ db }: Ctx, queueId: string, turn: Turn): AsyncGenerator<SumRow> {
  const { label, kind, a, b } = annotationSums;
  const after = (last: SumRow) =>
    or(
      gt(label, last.label),
      and(eq(label, last.label), gt(kind, last.kind)),
      and(eq(label, last.label), eq(kind, last.kind), gt(a, last.a)),
      and(eq(label, last.label), eq(kind, last.kind), eq(a, last.a), gt(b, last.b)),
    );
  for (let last: SumRow | undefined; ; ) {
    await turn();
    const rows = db
      .select()
      .from(annotationSums)
      .where(and(eq(annotationSums.queueId, queueId), last && after(last)))
      .orderBy(asc(label), asc(kind), asc(a), asc(b))
      .limit(PAGE)
      .all();
    yield* rows;
    last = rows.at(-1);
    if (rows.length < PAGE) return;
  }
}

const totalOf = (sums: Sums, kind: string) => (sums.get(kind) ?? []).reduce((total, { n }) => total + n, 0);

function annotatorsOf(rows: readonly SumRow[]): Agreement["annotators"] {
  const counts = new Map<string, { annotations: number; skips: number }>();
  for (const { a: annotator, b, n } of rows) {
    const count = counts.get(annotator) ?? { annotations: 0, skips: 0 };
    count[b as "annotations" | "skips"] += n;
    counts.set(annotator, count);
  }
  return [...counts]
    .map(([annotator, count]) => ({ annotator, ...count }))
    .sort((a, b) => b.annotations - a.annotations || (a.annotator < b.annotator ? -1 : 1));
}

async function labelAgreement(
  scheme: Scheme,
  sums: Sums,
  annotators: readonly string[],
  turn: Turn,
): Promise<Agreement["labels"][number]> {
  const { name, type, level } = scheme;
  await turn();
  const counts = new Map((sums.get("value") ?? []).map(({ a, n }) => [level === "interval" ? Number(a) : a, n]));
  const within = (sums.get("within") ?? []).map(({ a: key, b, n }) => ({ key, values: Number(b), n }));
  const categories = scheme.order ?? undefined;
  const items = totalOf(sums, "items");
  const alpha = alphaOf({ items, counts, within }, { level: level!, ...(categories ? { categories } : {}) });
  const pairs: Agreement["labels"][number]["pairs"] = [];
  const cells = Map.groupBy(sums.get("pair") ?? [], ({ a }) => a);
  for (const [i, first] of annotators.entries())
    for (const second of annotators.slice(i + 1)) {
      const pairSums = cells.get(JSON.stringify([first, second].sort()));
      if (!pairSums) continue;
      await turn();
      const counted = pairSums.map(({ b, n }): Cell => {
        const [one, other] = JSON.parse(b) as [string, string];
        return { first: one, second: other, items: n };
      });
      const kappa = (weights: "none" | "quadratic") =>
        kappaOf(counted, { weights, ...(categories ? { categories } : {}) });
      const plain = kappa("none");
      const weighted = level === "nominal" ? null : kappa("quadratic").value;
      pairs.push({ annotators: [first, second], items: plain.items, kappa: plain.value, weighted_kappa: weighted });
    }
  return { name, type, items: alpha.items, level, alpha: alpha.value, span_f1: null, pairs };
}

function spanAgreement(name: string, sums: Sums): Agreement["labels"][number] {
  const all = totalOf(sums, "span_pairs");
  const equal = (sums.get("spans") ?? []).reduce((total, { a: denominator, n }) => total + n / Number(denominator), 0);
  const none = { level: null, alpha: null, pairs: [] };
  return { name, type: "span", ...none, items: totalOf(sums, "items"), span_f1: all === 0 ? null : equal / all };
}
