/** One row of a dataset as a question: the input of the model, and the right answer if the row has one. */
import type { Row } from "../../../lib/rows/format.ts";
import type { Input, Message } from "./table.ts";

export type Sample = { input: Input; reference: string | null };

/** Columns that hold the right answer, in the order in which they are tried. */
const REFERENCES = ["reference", "answer", "expected", "solution", "completion", "chosen"];

/**
 * A chat row that ends with an assistant message is asked without it, and the message is the reference. Every other row
 * is asked its `prompt`. `referenceField` names the column of the reference.
 */
export function sampleOf(row: Row, referenceField: string | null): Sample {
  const { messages, prompt } = row;
  const talk = Array.isArray(messages) && prompt === undefined ? (messages as Message[]) : undefined;
  const last = talk?.at(-1);
  const isAnswered = talk !== undefined && talk.length > 1 && last?.role === "assistant";
  const named = referenceField === null ? REFERENCES : [referenceField];
  const columns = named.map((name) => textOf(row[name])).filter((text) => text !== null);
  const answer = isAnswered && referenceField === null ? textOf(last?.["content"]) : null;
  const input = isAnswered
    ? talk.slice(0, -1)
    : (talk ?? (Array.isArray(prompt) ? (prompt as Message[]) : textOf(prompt)));
  return { input: input ?? "", reference: columns[0] ?? answer };
}

/** A recorded answer: a text, a message, or a list of messages whose last one counts. Null: the row has none. */
export function textOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return textOf(isText(value) ? value.map(({ text }) => text).join("") : value.at(-1));
  if (typeof value === "object" && value !== null && "content" in value) return textOf(value.content);
  return null;
}

const isText = (parts: unknown[]): parts is { text: string }[] =>
  parts.length > 0 && parts.every((part) => typeof (part as { text?: unknown } | null)?.text === "string");

/** The messages of a chat request. */
export function messagesOf(input: Input, systemPrompt: string | null): Message[] {
  const talk = typeof input === "string" ? [{ role: "user", content: input }] : input;
  if (systemPrompt === null) return talk;
  return [{ role: "system", content: systemPrompt }, ...talk.filter(({ role }) => role !== "system")];
}

/** The same input for an evaluator, whose messages are plain texts. */
export const plainInput = (input: Input): string | { role: string; content: string }[] =>
  typeof input === "string" ? input : input.map(({ role, content }) => ({ role, content: textOf(content) ?? "" }));
