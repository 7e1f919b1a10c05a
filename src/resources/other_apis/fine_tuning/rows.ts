/** Lines of a fine-tuning file as rows of a dataset. Pure. */
import { isObject } from "../../../lib/json/object.ts";
import type { Method } from "./schema.ts";

type Line = Record<string, unknown>;

/** The row, or the reason why the line is none. The dataset checks the messages themselves. */
export function rowOf(type: Method["type"], line: unknown): Line | string {
  if (!isObject(line)) return "must be a JSON object";
  if (type === "dpo") return preferenceOf(line);
  if (!Array.isArray(line["messages"])) return 'needs "messages", a list';
  if (type === "supervised") return line;
  const { messages, ...item } = line;
  if ("prompt" in item) return 'must not have "prompt" beside "messages"';
  return { prompt: messages, ...item };
}

function preferenceOf({ input, preferred_output: chosen, non_preferred_output: rejected }: Line): Line | string {
  if (!isObject(input) || !Array.isArray(input["messages"])) return 'needs "input" with "messages", a list';
  if (!Array.isArray(chosen)) return 'needs "preferred_output", a list of messages';
  if (!Array.isArray(rejected)) return 'needs "non_preferred_output", a list of messages';
  return { prompt: input["messages"], chosen, rejected, ...("tools" in input ? { tools: input["tools"] } : {}) };
}
