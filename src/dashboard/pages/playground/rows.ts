/** A conversation as a row of a dataset, an item of a queue, or a request to share. Pure. */
import type { Format } from "../../../lib/rows/format.ts";
import { messagesOf, type SentMessage } from "./sent.ts";
import type { Turn } from "./tree.ts";

export type Talk = {
  path: readonly Turn[];
  system: string;
  tools: readonly unknown[];
  /** Another answer to the last question: of a branch, or of another column. */
  others: readonly string[];
};

/** The messages before the last answer, and that answer. */
export function questionOf({ path, system }: Talk): { prompt: SentMessage[]; answer: string | undefined } {
  const at = path.findLastIndex((turn) => turn.role === "assistant" && turn.answer.text !== "");
  const turn = path[at];
  const answer = turn?.role === "assistant" ? turn.answer.text : undefined;
  return { prompt: messagesOf(at < 0 ? path : path.slice(0, at), system), answer };
}

type Made = { row: Record<string, unknown> } | { why: string };

/** The row in the format of the dataset, or why there is none. */
export function rowOf(talk: Talk, format: Format): Made {
  const { path, system, tools, others } = talk;
  if (path.some((turn) => "images" in turn && turn.images.length > 0))
    return { why: "Rows of a dataset have no images." };
  if (!path.some(({ role }) => role === "user")) return { why: "The conversation has no message yet." };
  const withTools = tools.length === 0 ? {} : { tools };
  const { prompt, answer } = questionOf(talk);
  if (format === "chat") return { row: { messages: messagesOf(path, system).map(withoutThoughts), ...withTools } };
  const question = prompt.map(withoutThoughts);
  if (format === "prompt") return { row: { prompt: question, ...withTools } };
  if (answer === undefined) return { why: "The last message has no answer yet." };
  if (format === "completion") return { row: { prompt: question, completion: said(answer), ...withTools } };
  const [other] = others.filter((text) => text !== answer && text !== "");
  if (other === undefined)
    return { why: "A preference needs two answers: regenerate the last one, or add a column with another model." };
  return { row: { prompt: question, chosen: said(answer), rejected: said(other), ...withTools } };
}

const said = (content: string) => [{ role: "assistant", content }];

/** Thoughts are no part of what a row teaches. */
function withoutThoughts(message: SentMessage): Record<string, unknown> {
  if (message.role !== "assistant") return message;
  const { reasoning_content: _, ...rest } = message;
  return rest;
}

/** An item for annotators: the question, and one answer or two. */
export function itemOf(talk: Talk, mode: "single" | "pairwise"): { item: object } | { why: string } {
  const { prompt, answer } = questionOf(talk);
  if (answer === undefined) return { why: "The last message has no answer yet." };
  const input = prompt.map(withoutThoughts);
  if (mode === "single") return { item: { input, outputs: [answer] } };
  const [other] = talk.others.filter((text) => text !== answer && text !== "");
  return other === undefined
    ? { why: "This queue compares two answers: regenerate the last one, or add a column with another model." }
    : { item: { input, outputs: [answer, other] } };
}
