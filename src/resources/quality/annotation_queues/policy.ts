/** Pure decisions: is an annotation valid, what is the result of an item, and which row does it append. */
import type { Row } from "../../../lib/rows/format.ts";
import type { AnnotationValue, LabelField, LabelValue, Outcome, Preferred } from "./label_schema.ts";
import type { AnnotationRow, ItemRow, QueueRow } from "./table.ts";

/** `path`: keys below the annotation. */
export type Fault = { path: string[]; message: string };

/** The problem of an annotation, or undefined. */
export function valueFault(
  queue: Pick<QueueRow, "mode" | "labels">,
  item: Pick<ItemRow, "input" | "outputs">,
  value: AnnotationValue,
): Fault | undefined {
  if (queue.mode === "pairwise" && value.preferred === null)
    return { path: ["preferred"], message: "is missing: set it to first, second or tie" };
  if (queue.mode === "single" && value.preferred !== null)
    return { path: ["preferred"], message: "is for pairwise queues: this queue is single" };
  if (queue.mode === "pairwise" && value.correction !== null)
    return { path: ["correction"], message: "is for single queues: this queue is pairwise" };
  const names = queue.labels.map(({ name }) => name);
  for (const name of Object.keys(value.labels))
    if (!names.includes(name))
      return { path: ["labels", name], message: `is not a label of this queue: it has ${names.join(", ") || "none"}` };
  for (const field of queue.labels) {
    const label = labelValue(value, field.name);
    const message = label === undefined ? missing(field) : labelFault(field, label, item);
    if (message) return { path: ["labels", field.name], message };
  }
  return undefined;
}

/** Undefined if the annotator left the label out. A label may have the name of a property that every object has. */
export const labelValue = ({ labels }: AnnotationValue, name: string): LabelValue | undefined =>
  Object.hasOwn(labels, name) ? labels[name] : undefined;

const missing = ({ required }: LabelField) => (required ? "is missing: this label is required" : undefined);

function labelFault(
  field: LabelField,
  value: LabelValue,
  item: Pick<ItemRow, "input" | "outputs">,
): string | undefined {
  if (field.type === "text") return typeof value === "string" ? undefined : "must be a text";
  if (field.type === "scale") {
    const fits = Number.isInteger(value) && (value as number) >= field.min && (value as number) <= field.max;
    return fits ? undefined : `must be a whole number from ${field.min} to ${field.max}`;
  }
  if (field.type === "choice") return choiceFault(field, value);
  const text = field.of === "input" ? item.input : item.outputs[0];
  if (typeof text !== "string")
    return `marks a part of the ${field.of}, but the item has no ${field.of} that is a text`;
  if (!Array.isArray(value)) return "must be a list of spans such as {start, end, label}";
  const length = [...text].length;
  for (const span of value) {
    if (typeof span === "string") return "must be a list of spans such as {start, end, label}";
    if (span.start >= span.end || span.end > length)
      return `must have spans with start < end ≤ ${length}, the length of the ${field.of}`;
    if (!field.options.includes(span.label)) return `must mark spans as one of ${field.options.join(", ")}`;
  }
  return undefined;
}

function choiceFault({ multiple, options }: LabelField & { type: "choice" }, value: LabelValue): string | undefined {
  const among = `one of ${options.join(", ")}`;
  if (!multiple) return typeof value === "string" && options.includes(value) ? undefined : `must be ${among}`;
  if (!Array.isArray(value)) return `must be a list, each entry ${among}`;
  const chosen = value.filter((entry) => typeof entry === "string");
  if (chosen.length !== value.length || chosen.some((entry) => !options.includes(entry)))
    return `must be a list, each entry ${among}`;
  return new Set(chosen).size === chosen.length ? undefined : "has the same option twice";
}

/** The result of an item, by majority. `annotations` are in order of time and have no skips. */
export function outcomeOf(mode: QueueRow["mode"], annotations: readonly Pick<AnnotationRow, "value">[]): Outcome {
  if (mode === "single") return { preferred: null, correction: mostFrequent(annotations), votes: null };
  const votes: Record<Preferred, number> = { first: 0, second: 0, tie: 0 };
  for (const { value } of annotations) if (value.preferred) votes[value.preferred]++;
  const preferred = votes.first > votes.second ? "first" : votes.second > votes.first ? "second" : "tie";
  return { preferred: votes.tie > Math.max(votes.first, votes.second) ? "tie" : preferred, correction: null, votes };
}

/** The correction that most annotators gave; of several, the newest. */
function mostFrequent(annotations: readonly Pick<AnnotationRow, "value">[]): string | null {
  const counts = new Map<string, number>();
  let best: string | null = null;
  for (const { value } of annotations) {
    if (value.correction === null) continue;
    const count = (counts.get(value.correction) ?? 0) + 1;
    counts.set(value.correction, count);
    if (best === null || count >= (counts.get(best) ?? 0)) best = value.correction;
  }
  return best;
}

/** The row that a completed item appends to the dataset of its queue. Undefined for a tie, or without a correction. */
export function rowOf(item: Pick<ItemRow, "id" | "queueId" | "input" | "outputs" | "outcome">): Row | undefined {
  const { outcome, outputs } = item;
  const origin = { annotation_queue_id: item.queueId, annotation_item_id: item.id };
  if (outcome?.correction != null) return { prompt: item.input, completion: outcome.correction, ...origin };
  if (!outcome?.preferred || outcome.preferred === "tie") return undefined;
  const [chosen, rejected] = outcome.preferred === "first" ? outputs : outputs.toReversed();
  return { prompt: item.input, chosen, rejected, ...origin };
}
