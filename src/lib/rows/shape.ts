/**
 * Shapes in which other tools keep their rows, and how to recognize them. The first rows of a file decide. A shape of
 * our own is stored as it is; every other shape is converted row by row (convert.ts).
 */
import type { Format, Row } from "./format.ts";
import { formatOf } from "./format.ts";
import { isRow } from "./messages.ts";

export const SHAPES = [
  "prompt",
  "completion",
  "preference",
  "chat",
  "sharegpt",
  "alpaca",
  "implicit_preference",
] as const;
export type Shape = (typeof SHAPES)[number];

type ShapeFacts = { label: string; columns: string; fields: readonly string[]; format: Format };
/** `columns` is for the reader of a question; `fields` are those of the stored rows. */
export const SHAPE_FACTS: Record<Shape, ShapeFacts> = {
  prompt: { label: "Prompts", columns: "prompt", fields: ["prompt"], format: "prompt" },
  completion: {
    label: "Prompt and completion",
    columns: "prompt, completion",
    fields: ["prompt", "completion"],
    format: "completion",
  },
  preference: {
    label: "Preference pairs",
    columns: "prompt, chosen, rejected",
    fields: ["prompt", "chosen", "rejected"],
    format: "preference",
  },
  chat: { label: "OpenAI chat", columns: "messages", fields: ["messages"], format: "chat" },
  sharegpt: { label: "ShareGPT", columns: "conversations", fields: ["messages"], format: "chat" },
  alpaca: {
    label: "Alpaca",
    columns: "instruction, input, output",
    fields: ["prompt", "completion"],
    format: "completion",
  },
  implicit_preference: {
    label: "Preference pairs without a prompt of their own",
    columns: "chosen, rejected",
    fields: ["prompt", "chosen", "rejected"],
    format: "preference",
  },
};

/** Number of rows at the beginning of a file that decide its shape. */
export const LOOKED_AT_ROWS = 20;

export type Detection =
  | { type: "found"; shape: Shape }
  | { type: "ambiguous"; shapes: readonly [Shape, Shape, ...Shape[]] }
  | { type: "unknown"; columns: string[] };

/** `format` leaves only the shapes that give rows of this format. */
export function detectShape(rows: readonly Row[], format?: Format): Detection {
  const [first] = rows;
  if (!first) return { type: "unknown", columns: [] };
  const shapes = SHAPES.filter((shape) => {
    const fits = FITS[shape];
    return (format === undefined || SHAPE_FACTS[shape].format === format) && rows.every(fits);
  });
  const others: Shape[] = shapes.filter((shape) => shape === "sharegpt" || shape === "alpaca");
  // The columns of one shape contain those of another: the rule for the first row decides among the rest.
  const rest = shapes.filter((shape) => !others.includes(shape));
  const ownShape = rest.find((shape) => SHAPE_FACTS[shape].format === formatOf(first)) ?? rest[0];
  const [one, two, ...more] = ownShape === undefined ? others : [ownShape, ...others];
  if (one === undefined) return { type: "unknown", columns: columnsOf(rows) };
  return two === undefined ? { type: "found", shape: one } : { type: "ambiguous", shapes: [one, two, ...more] };
}

/** True for a shape whose rows must be converted. */
export const isForeign = (shape: Shape) =>
  shape === "sharegpt" || shape === "alpaca" || shape === "implicit_preference";

const FITS: Record<Shape, (row: Row) => boolean> = {
  prompt: (row) => isThere(row["prompt"]),
  completion: (row) => isThere(row["prompt"]) && isThere(row["completion"]),
  preference: (row) => isPair(row) && isThere(row["prompt"]) && !repeatsPrompt(row),
  chat: ({ messages }) => isThere(messages) && !isTalk(messages),
  sharegpt: (row) => talkOf(row) !== undefined,
  alpaca: ({ instruction, output }) => typeof instruction === "string" && typeof output === "string",
  implicit_preference: (row) => isPair(row) && (!isThere(row["prompt"]) || repeatsPrompt(row)),
};

/** Null is a missing value in files with fixed columns. */
const isThere = (value: unknown) => value !== undefined && value !== null;
const isPair = ({ chosen, rejected }: Row) => isThere(chosen) && isThere(rejected);

/** The prompt is a text, and both answers are whole conversations that begin with the question. */
const repeatsPrompt = ({ prompt, chosen, rejected }: Row) =>
  typeof prompt === "string" && asksFirst(chosen) && asksFirst(rejected);
const asksFirst = (answer: unknown) =>
  Array.isArray(answer) && answer.length > 1 && isRow(answer[0]) && answer[0]["role"] !== "assistant";

const TALKS = ["conversations", "conversation", "messages"] as const;
const isTalk = (value: unknown): value is Row[] =>
  Array.isArray(value) && isRow(value[0]) && typeof value[0]["from"] === "string" && "value" in value[0];

/** The column that holds the turns of a ShareGPT row. Turns may already have role and content. */
export function talkOf(row: Row): (typeof TALKS)[number] | undefined {
  return TALKS.find((name) => {
    const value = row[name];
    const renamed = name !== "messages" && Array.isArray(value) && isRow(value[0]) && "role" in value[0];
    return isTalk(value) || renamed;
  });
}

export function columnsOf(rows: readonly Row[]): string[] {
  const names = new Set<string>();
  for (const row of rows) for (const name of Object.keys(row)) names.add(name);
  return [...names];
}

/** Names of columns that other files give to a field, the most usual ones first. */
const USUAL: readonly (readonly [field: string, names: readonly string[]])[] = [
  ["prompt", ["question", "query", "input", "instruction", "problem", "user", "source", "text"]],
  ["completion", ["answer", "response", "output", "solution", "assistant", "target", "reply"]],
  ["chosen", ["response_chosen", "accepted", "preferred", "better"]],
  ["rejected", ["response_rejected", "refused", "dispreferred", "worse"]],
];

/** A mapping that would make these columns a known shape, or undefined. */
export function suggestedMap(columns: readonly string[]): Record<string, string> | undefined {
  const lower = new Map(columns.map((name) => [name.toLowerCase(), name]));
  const map: Record<string, string> = {};
  for (const [field, names] of USUAL) {
    if (columns.includes(field)) continue;
    const column = names.map((name) => lower.get(name)).find((name) => name !== undefined && !Object.hasOwn(map, name));
    if (column !== undefined) map[column] = field;
  }
  const has = (field: string) => columns.includes(field) || Object.values(map).includes(field);
  const isUsable = has("prompt") && (has("completion") || (has("chosen") && has("rejected")));
  return isUsable && Object.keys(map).length > 0 ? map : undefined;
}
