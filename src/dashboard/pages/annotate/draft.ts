/** The annotation that is being made, and what the keys do to it. Pure. */
import type { LabelField, LabelValue, Preferred } from "../../../resources/quality/annotation_queues/label_schema.ts";
import type { AnnotationItem, AnnotationQueue } from "../../../resources/quality/annotation_queues/schema.ts";

export type Queue = Pick<AnnotationQueue, "mode" | "labels">;
export type Draft = {
  preferred: Preferred | null;
  labels: Readonly<Record<string, LabelValue>>;
  correction: string;
  /** Index of the label that digits go to. */
  active: number;
};
export type SpanMark = { start: number; end: number; label: string };

export type Action =
  | { type: "prefer"; value: Preferred }
  | { type: "label"; name: string; value: LabelValue; next: boolean }
  | { type: "move"; by: 1 | -1 }
  | { type: "skip" | "undo" | "save" };

export const EMPTY: Draft = { preferred: null, labels: {}, correction: "", active: 0 };

/** An item that the annotator did before shows what was given. */
export function draftOf({ annotations }: Pick<AnnotationItem, "annotations">): Draft {
  const annotation = annotations.find(({ skipped }) => !skipped);
  if (!annotation) return EMPTY;
  return {
    ...EMPTY,
    preferred: annotation.preferred,
    labels: annotation.labels,
    correction: annotation.correction ?? "",
  };
}

const PREFER: Readonly<Record<string, Preferred>> = {
  ArrowLeft: "first",
  ArrowRight: "second",
  "1": "first",
  "2": "second",
  "0": "tie",
};
const SIMPLE: Readonly<Record<string, Action>> = {
  s: { type: "skip" },
  u: { type: "undo" },
  Enter: { type: "save" },
  ArrowDown: { type: "move", by: 1 },
  ArrowUp: { type: "move", by: -1 },
};

/** Digits choose between the outputs of a pair first, and go to its labels after that. */
export function actionOf(key: string, { mode, labels }: Queue, draft: Draft): Action | undefined {
  const prefer = PREFER[key];
  const isChosen = draft.preferred !== null && labels.length > 0;
  if (mode === "pairwise" && prefer && !(isChosen && /\d/.test(key))) return { type: "prefer", value: prefer };
  const field = labels[draft.active];
  if (/^\d$/.test(key) && field) return pick(field, Number(key), draft);
  return SIMPLE[key];
}

function pick(field: LabelField, digit: number, { labels }: Draft): Action | undefined {
  const { name } = field;
  if (field.type === "scale")
    return digit < field.min || digit > field.max ? undefined : { type: "label", name, value: digit, next: true };
  if (field.type !== "choice") return undefined;
  const option = field.options[digit - 1];
  if (option === undefined) return undefined;
  if (!field.multiple) return { type: "label", name, value: option, next: true };
  return { type: "label", name, value: toggled(labels[name], option), next: false };
}

export function toggled(value: LabelValue | undefined, option: string): string[] {
  const chosen = Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
  return chosen.includes(option) ? chosen.filter((each) => each !== option) : [...chosen, option];
}

/** The draft after a choice. A label that takes one value gives the turn to the next one. */
export function applied(draft: Draft, action: Action, { labels }: Queue): Draft {
  const within = (index: number) => Math.min(Math.max(index, 0), Math.max(labels.length - 1, 0));
  if (action.type === "prefer") return { ...draft, preferred: action.value };
  if (action.type === "move") return { ...draft, active: within(draft.active + action.by) };
  if (action.type !== "label") return draft;
  const { [action.name]: _before, ...others } = draft.labels;
  const isEmpty = action.value === "" || (Array.isArray(action.value) && action.value.length === 0);
  const at = labels.findIndex(({ name }) => name === action.name);
  return {
    ...draft,
    labels: isEmpty ? others : { ...others, [action.name]: action.value },
    active: within(action.next ? at + 1 : at),
  };
}

/** One key is the whole annotation: a pair without labels, or one label with one value. */
export function savesAtOnce({ mode, labels }: Queue): boolean {
  const [first, second] = labels;
  if (mode === "pairwise") return labels.length === 0;
  if (!first || second) return false;
  return first.type === "scale" || (first.type === "choice" && !first.multiple);
}

/** Says which part is missing; undefined if the annotation can be saved. */
export function missing({ mode, labels }: Queue, draft: Draft): string | undefined {
  if (mode === "pairwise" && draft.preferred === null) return "Choose an answer first";
  const field = labels.find(({ name, required }) => required && draft.labels[name] === undefined);
  if (field) return `The label ${field.name} is missing`;
  const isEmpty = mode === "single" && Object.keys(draft.labels).length === 0 && draft.correction.trim() === "";
  return isEmpty ? "Correct the answer or choose a label" : undefined;
}

/** Offsets of a text field count UTF-16 units; the API counts code points. */
export const codePoints = (text: string, units: number) => [...text.slice(0, units)].length;
