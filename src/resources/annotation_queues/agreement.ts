/** How far the annotators of a queue agree, for each label. */
import { and, desc, eq, inArray } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { later } from "../../lib/schema.ts";
import {
  cohenKappa,
  type KappaWeights,
  krippendorffAlpha,
  type Label,
  type Level,
} from "../../lib/statistics/agreement.ts";
import { mean } from "../../lib/statistics/describe.ts";
import { takingTurns } from "../../lib/turns.ts";
import { type LabelField, type LabelValue, PREFERENCES } from "./label_schema.ts";
import { labelValue } from "./policy.ts";
import { type AnnotationRow, annotationItems, annotations, type QueueRow } from "./table.ts";

/** The newest items only: the answer is computed on the thread that serves, which takes turns with other requests. */
const MAX_ITEMS = 10_000;
const MAX_ANNOTATORS = 20;
const CHUNK = 500;
/** The name of the choice of a pairwise queue among its labels. */
const PREFERENCE = "preferred";

const Value = z.number().nullable();
export const Agreement = later(() =>
  z
    .object({
      object: z.literal("annotation_queue.agreement"),
      queue_id: z.string(),
      items: z.int().describe("Items with two annotations or more, among the newest 10,000"),
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

type Scheme = { name: string; type: LabelField["type"] | "preference"; level: Level | null; order: Label[] | null };

function schemesOf(queue: QueueRow): Scheme[] {
  const labels = queue.labels.map((field): Scheme => {
    const { name, type } = field;
    if (type === "span") return { name, type, level: null, order: null };
    if (type === "scale") {
      const order = Array.from({ length: field.max - field.min + 1 }, (_, i) => field.min + i);
      return { name, type, level: "interval", order };
    }
    const ordered = type === "choice" && field.ordered && !field.multiple;
    return { name, type, level: ordered ? "ordinal" : "nominal", order: ordered ? field.options : null };
  });
  if (queue.mode === "single") return labels;
  return [{ name: PREFERENCE, type: "preference", level: "nominal", order: [...PREFERENCES] }, ...labels];
}

/** The annotations of an item, by annotator. */
type ByAnnotator = Map<string, AnnotationRow>;
type Turn = ReturnType<typeof takingTurns>;

export async function agreementOf(ctx: Ctx, queue: QueueRow): Promise<Agreement> {
  const turn = takingTurns();
  const given = await newestAnnotations(ctx, queue.id, turn);
  const counts = new Map<string, { annotations: number; skips: number }>();
  const table = new Map<string, ByAnnotator>();
  for (const row of given) {
    const count = counts.get(row.annotator) ?? { annotations: 0, skips: 0 };
    count[row.skipped ? "skips" : "annotations"]++;
    counts.set(row.annotator, count);
    if (row.skipped) continue;
    const item = table.get(row.itemId) ?? new Map();
    table.set(row.itemId, item.set(row.annotator, row));
  }
  const annotators = [...counts]
    .map(([annotator, count]) => ({ annotator, ...count }))
    .sort((a, b) => b.annotations - a.annotations || (a.annotator < b.annotator ? -1 : 1));
  for (const [id, item] of table) if (item.size < 2) table.delete(id);
  const busiest = annotators.slice(0, MAX_ANNOTATORS).map(({ annotator }) => annotator);
  const all = [...table.values()];
  const labels: Agreement["labels"] = [];
  for (const scheme of schemesOf(queue)) labels.push(await labelAgreement(scheme, all, { annotators: busiest, turn }));
  return { object: "annotation_queue.agreement", queue_id: queue.id, items: table.size, annotators, labels };
}

async function newestAnnotations({ db }: Ctx, queueId: string, turn: Turn): Promise<AnnotationRow[]> {
  const ids = db
    .select({ id: annotationItems.id })
    .from(annotationItems)
    .where(eq(annotationItems.queueId, queueId))
    .orderBy(desc(annotationItems.createdAt), desc(annotationItems.id))
    .limit(MAX_ITEMS)
    .all()
    .map(({ id }) => id);
  const found: AnnotationRow[] = [];
  for (let from = 0; from < ids.length; from += CHUNK) {
    await turn();
    const some = inArray(annotations.itemId, ids.slice(from, from + CHUNK));
    found.push(
      ...db
        .select()
        .from(annotations)
        .where(and(eq(annotations.queueId, queueId), some))
        .all(),
    );
  }
  return found;
}

/** A value as a label that can be compared. Null: the annotator gave none. */
function labelOf({ name, type }: Scheme, row: AnnotationRow | undefined): Label {
  if (!row) return null;
  if (type === "preference") return row.value.preferred;
  const value = labelValue(row.value, name);
  if (value === undefined) return null;
  return Array.isArray(value) ? JSON.stringify([...value].sort()) : value;
}

async function labelAgreement(
  scheme: Scheme,
  all: readonly ByAnnotator[],
  { annotators, turn }: { annotators: readonly string[]; turn: Turn },
): Promise<Agreement["labels"][number]> {
  const { name, type, level } = scheme;
  await turn();
  if (level === null) return { name, type, level, alpha: null, pairs: [], ...spanAgreement(name, all) };
  const categories = scheme.order?.filter((label) => label !== null);
  const units = all.map((item) => [...item.values()].map((row) => labelOf(scheme, row)));
  const alpha = krippendorffAlpha(units, { level, ...(level === "ordinal" && categories ? { categories } : {}) });
  const columns = annotators.map((annotator) => all.map((item) => labelOf(scheme, item.get(annotator))));
  const kappa = (first: Label[], second: Label[], weights: KappaWeights) =>
    cohenKappa(first, second, { weights, ...(categories ? { categories } : {}) });
  const pairs: Agreement["labels"][number]["pairs"] = [];
  for (const [i, first] of columns.entries())
    for (const [j, second] of columns.entries()) {
      if (j <= i) continue;
      await turn();
      const plain = kappa(first, second, "none");
      if (plain.items === 0) continue;
      const weighted = level === "nominal" ? null : kappa(first, second, "quadratic").value;
      const both = [annotators[i]!, annotators[j]!];
      pairs.push({ annotators: both, items: plain.items, kappa: plain.value, weighted_kappa: weighted });
    }
  return { name, type, items: alpha.items, level, alpha: alpha.value, span_f1: null, pairs };
}

function spanAgreement(name: string, all: readonly ByAnnotator[]) {
  const scores: number[] = [];
  let items = 0;
  for (const item of all) {
    const marked = [...item.values()]
      .map(({ value }) => labelValue(value, name))
      .filter((value) => value !== undefined);
    if (marked.length > 1) items++;
    for (const [i, first] of marked.entries())
      for (const second of marked.slice(i + 1)) scores.push(spanF1(first, second));
  }
  return { items, span_f1: scores.length === 0 ? null : mean(scores) };
}

/** Two annotators that mark nothing agree. */
function spanF1(first: LabelValue, second: LabelValue): number {
  const [a, b] = [first, second].map(
    (spans) =>
      new Set((spans as { start: number; end: number; label: string }[]).map((s) => `${s.start} ${s.end} ${s.label}`)),
  );
  if (a!.size + b!.size === 0) return 1;
  return (2 * a!.intersection(b!).size) / (a!.size + b!.size);
}
