/**
 * The counts behind the agreement of a queue. They change in the commit of an annotation, by what the annotation changes
 * alone. All are whole numbers, so a sum after any history equals a new count.
 */
import { and, asc, eq, gt, inArray, sql } from "drizzle-orm";
import { type Db, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { type Label, type Level, withinUnit } from "../statistics/agreement.ts";
import { type LabelField, type LabelValue, PREFERENCES } from "./label_schema.ts";
import { labelValue } from "./policy.ts";
import { type AnnotationRow, annotationQueues, annotationSums, annotations, type QueueRow } from "./table.ts";

/** The name of the choice of a pairwise queue among its labels. */
const PREFERENCE = "preferred";

export type Scheme = {
  name: string;
  type: LabelField["type"] | "preference";
  level: Level | null;
  /** The values in their order, where there is one. */
  order: (string | number)[] | null;
};

export function schemesOf(queue: Pick<QueueRow, "labels" | "mode">): Scheme[] {
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

/** A value as a label that can be compared. Null: the annotator gave none. Texts and lists are compared by their hash. */
export function labelOf({ name, type }: Scheme, { value }: Pick<AnnotationRow, "value">): Label {
  if (type === "preference") return value.preferred;
  const label = labelValue(value, name);
  if (label === undefined) return null;
  if (Array.isArray(label)) return hashOf(JSON.stringify([...label].sort()));
  return type === "text" ? hashOf(String(label)) : label;
}

const hashOf = (text: string) => new Bun.SHA256().update(text).digest("base64url").slice(0, 22);

/** The annotations of one item, skips included. */
type Annotations = readonly Pick<AnnotationRow, "annotator" | "skipped" | "value">[];
type Sum = { label: string; kind: Kind; a: string; b: string; n: number };
/**
 * `items`: items with two values or more. `annotator`: annotations and skips of each. `value`: values of those items.
 * `within`: disagreement inside an item, by the number of its values; for an ordered choice by two positions. `pair`:
 * items by two annotators and their two values. `spans`: for each denominator of F1 the sum of numerators.
 */
type Kind = "items" | "annotator" | "value" | "within" | "pair" | "spans" | "span_pairs";

const sum = (label: string, kind: Kind, a: string | number = "", b: string | number = "", n = 1): Sum => ({
  label,
  kind,
  n,
  a: String(a),
  b: String(b),
});
const without = (sums: readonly Sum[]) => sums.map((each) => ({ ...each, n: -each.n }));

/** Sums that depend on all annotations of the item. */
function unitSums(schemes: readonly Scheme[], itemRows: Annotations): Sum[] {
  const real = itemRows.filter(({ skipped }) => !skipped);
  const sums = real.length < 2 ? [] : [sum("", "items")];
  for (const scheme of schemes) {
    const values = real.map((row) => labelOf(scheme, row)).filter((value) => value !== null);
    if (values.length < 2) continue;
    sums.push(sum(scheme.name, "items"));
    if (scheme.level === null) continue;
    for (const value of values) sums.push(sum(scheme.name, "value", value));
    for (const { key, n } of withinUnit(values, scheme.level, scheme.order ?? []))
      sums.push(sum(scheme.name, "within", key, values.length, n));
  }
  return sums;
}

type Row = Annotations[number];

/** Sums of one annotator: alone, and with each other annotator of the item. */
function ownSums(schemes: readonly Scheme[], row: Row | undefined, others: Annotations): Sum[] {
  if (!row) return [];
  const sums = [sum("", "annotator", row.annotator, row.skipped ? "skips" : "annotations")];
  if (row.skipped) return sums;
  for (const other of others)
    if (!other.skipped) for (const scheme of schemes) sums.push(...pairSums(scheme, row, other));
  return sums;
}

function pairSums(scheme: Scheme, row: Row, other: Row): Sum[] {
  const { name, level } = scheme;
  const [first, second] = row.annotator < other.annotator ? [row, other] : [other, row];
  if (level === null) {
    const [a, b] = [labelValue(first.value, name), labelValue(second.value, name)];
    if (a === undefined || b === undefined) return [];
    const { equal, all } = equalSpans(a, b);
    return [sum(name, "span_pairs"), all === 0 ? sum(name, "spans", 1) : sum(name, "spans", all, "", 2 * equal)];
  }
  const values = [labelOf(scheme, first), labelOf(scheme, second)];
  if (values.includes(null)) return [];
  return [sum(name, "pair", JSON.stringify([first.annotator, second.annotator]), JSON.stringify(values))];
}

function equalSpans(first: LabelValue, second: LabelValue) {
  const [a, b] = [first, second].map(
    (spans) =>
      new Set((spans as { start: number; end: number; label: string }[]).map((s) => `${s.start} ${s.end} ${s.label}`)),
  ) as [Set<string>, Set<string>];
  return { equal: a.intersection(b).size, all: a.size + b.size };
}

const place = and(
  ...(["queueId", "label", "kind", "a", "b"] as const).map((key) => eq(annotationSums[key], sql.placeholder(key))),
);
const addTo = prepared((db) => {
  const { queueId, label, kind, a, b, n } = annotationSums;
  const values = {
    queueId: sql.placeholder("queueId"),
    label: sql.placeholder("label"),
    kind: sql.placeholder("kind"),
  };
  return db
    .insert(annotationSums)
    .values({ ...values, a: sql.placeholder("a"), b: sql.placeholder("b"), n: sql.placeholder("n") })
    .onConflictDoUpdate({ target: [queueId, label, kind, a, b], set: { n: sql`${n} + excluded.n` } })
    .prepare();
});
const removeEmpty = prepared((db) =>
  db
    .delete(annotationSums)
    .where(and(place, eq(annotationSums.n, 0)))
    .prepare(),
);

function add(tx: Tx, queueId: string, sums: readonly Sum[]) {
  const merged = new Map<string, Sum>();
  for (const each of sums) {
    const key = JSON.stringify([each.label, each.kind, each.a, each.b]);
    const before = merged.get(key);
    merged.set(key, before ? { ...before, n: before.n + each.n } : each);
  }
  for (const { label, kind, a, b, n } of merged.values()) {
    if (n === 0) continue;
    addTo(tx).run({ queueId, label, kind, a, b, n });
    if (n < 0) removeEmpty(tx).run({ queueId, label, kind, a, b });
  }
}

/** `before`: all annotations of the item. `next` replaces the one of its annotator. */
export function sumAnnotation(tx: Tx, queue: QueueRow, itemId: string, before: Annotations, next: Row) {
  if (itemId > queue.summedUntil) return; // fillSums adds the item as it is then
  const others = before.filter(({ annotator }) => annotator !== next.annotator);
  const replaced = before.find(({ annotator }) => annotator === next.annotator);
  const schemes = schemesOf(queue);
  add(tx, queue.id, [
    ...without(unitSums(schemes, before)),
    ...without(ownSums(schemes, replaced, others)),
    ...unitSums(schemes, [...others, next]),
    ...ownSums(schemes, next, others),
  ]);
}

/** All items of a new queue are in its sums. Ids are ASCII. */
export const ALL_ITEMS = "~";
const FILLED_AT_ONCE = 20;

/** Adds the next items of an older version to the sums of their queue. True if there are more. */
export function fillSums(db: Db, queueId: string): boolean {
  return write(db, (tx) => {
    const queue = tx.select().from(annotationQueues).where(eq(annotationQueues.id, queueId)).get();
    if (!queue || queue.summedUntil === ALL_ITEMS) return false;
    const ids = tx
      .selectDistinct({ id: annotations.itemId })
      .from(annotations)
      .where(and(eq(annotations.queueId, queueId), gt(annotations.itemId, queue.summedUntil)))
      .orderBy(asc(annotations.itemId))
      .limit(FILLED_AT_ONCE)
      .all()
      .map(({ id }) => id);
    const rows = tx.select().from(annotations).where(inArray(annotations.itemId, ids)).all();
    const schemes = schemesOf(queue);
    for (const itemRows of Map.groupBy(rows, ({ itemId }) => itemId).values()) {
      add(tx, queueId, [
        ...unitSums(schemes, itemRows),
        ...itemRows.flatMap((row, i) => ownSums(schemes, row, itemRows.slice(0, i))),
      ]);
    }
    const summedUntil = ids.length < FILLED_AT_ONCE ? ALL_ITEMS : (ids.at(-1) as string);
    tx.update(annotationQueues).set({ summedUntil }).where(eq(annotationQueues.id, queueId)).run();
    return summedUntil !== ALL_ITEMS;
  });
}
