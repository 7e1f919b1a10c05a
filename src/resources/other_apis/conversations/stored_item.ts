/** Items as a conversation keeps and shows them: the content of a message is always a list of parts. Pure. */
import type { Prefix } from "../../../lib/ids.ts";
import type { Content, KnownItem } from "../responses/items.ts";

type Part = Exclude<Content, string>[number];
/** Without id, parent and model, which are columns. */
export type StoredItem = Record<string, unknown> & { type: string; status: "completed" | "incomplete" };

const PREFIXES = {
  message: "msg",
  function_call: "fc",
  function_call_output: "fco",
  custom_tool_call: "ctc",
  custom_tool_call_output: "ctco",
  reasoning: "rs",
} as const satisfies Record<string, Prefix>;

export const prefixOf = (item: KnownItem): Prefix => PREFIXES[item.type ?? "message"];

/** An item of an answer has a status; one that a client sends is complete. */
const statusOf = (item: object): StoredItem["status"] =>
  "status" in item && item.status === "incomplete" ? "incomplete" : "completed";

export function storedItem(item: KnownItem): StoredItem {
  const status = statusOf(item);
  switch (item.type) {
    case "function_call": {
      const { type, call_id, name, arguments: text } = item;
      return { type, status, call_id, name, arguments: text };
    }
    case "custom_tool_call": {
      const { type, call_id, name, input } = item;
      return { type, status, call_id, name, input };
    }
    case "function_call_output":
    case "custom_tool_call_output": {
      const { type, call_id, output } = item;
      return { type, status, call_id, output: typeof output === "string" ? output : output.map(shownPart) };
    }
    case "reasoning":
      return { type: item.type, status, summary: [], content: item.content ?? [] };
    default: {
      const { role, content } = item;
      return { type: "message", status, role, content: partsOf(role, content).map(shownPart) };
    }
  }
}

const partsOf = (role: string, content: Content): readonly Part[] =>
  typeof content === "string"
    ? [{ type: role === "assistant" ? "output_text" : "input_text", text: content }]
    : content;

/** The fields that clients of OpenAI expect in each part. */
function shownPart(part: Part) {
  if (part.type === "output_text") return { annotations: [], logprobs: [], ...part };
  if (part.type !== "input_image") return part;
  return { ...part, detail: part.detail ?? "auto", file_id: null };
}
