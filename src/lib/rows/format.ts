import { type Ending, type Fault, kindOf, messagesFault } from "./messages.ts";

export { type Fault, isRow } from "./messages.ts";

/** Formats of dataset rows. docs/datasets.md describes them for users. */
export const FORMATS = ["prompt", "preference", "completion", "chat"] as const;
export type Format = (typeof FORMATS)[number];
export type Row = Record<string, unknown>;

/** The first row decides. Afterwards the format is fixed. */
export function formatOf(row: Row): Format {
  if (row["chosen"] !== undefined && row["rejected"] !== undefined) return "preference";
  if (row["completion"] !== undefined) return "completion";
  return row["messages"] !== undefined ? "chat" : "prompt";
}

const NEEDS: Record<Format, readonly string[]> = {
  prompt: [],
  preference: ["chosen", "rejected"],
  completion: ["completion"],
  chat: [],
};

/** Returns the problem of this row under this format, or undefined. */
export function rowFault(row: Row, format: Format): Fault | undefined {
  const talks = row["messages"] !== undefined;
  if (talks) {
    const fault = messagesFault("messages", row["messages"]);
    if (fault) return fault;
  }
  const prompt = row["prompt"];
  if (prompt === undefined) {
    if (!(format === "chat" && talks)) return missing(format === "chat" ? "messages" : "prompt", format);
  } else {
    const fault = textFault("prompt", prompt, format === "chat" ? "any" : "question");
    if (fault) return fault;
  }
  const half = format === "prompt" ? halfPreference(row) : undefined;
  if (half) return missing(half, "preference");
  for (const field of NEEDS[format]) {
    if (row[field] === undefined) return missing(field, format);
    const fault = textFault(field, row[field], "assistant");
    if (fault) return fault;
  }
  return undefined;
}

/** The answer that a pair lacks. A column of this name with another kind of value is the user's own. */
function halfPreference({ chosen, rejected }: Row): "chosen" | "rejected" | undefined {
  const isAnswer = (value: unknown) => typeof value === "string" || Array.isArray(value);
  if (isAnswer(chosen) && rejected === undefined) return "rejected";
  return isAnswer(rejected) && chosen === undefined ? "chosen" : undefined;
}

/** The column that KTO learns from. Other methods ignore it. */
export function labelFault({ label }: Row): Fault | undefined {
  if (typeof label === "boolean") return undefined;
  const is = label === undefined ? "label is missing" : `label must be true or false, not ${kindOf(label)}`;
  return {
    field: "label",
    message: `${is}. Give every row "label": true for a good completion, or false for a bad one`,
  };
}

const missing = (field: string, format: Format): Fault => ({
  field,
  message: `${field} is missing. Every row of the format ${format} has ${EXAMPLES[format]}`,
});

const EXAMPLES: Record<Format, string> = {
  prompt: "prompt, a string or a list of messages",
  preference: "prompt, chosen and rejected",
  completion: "prompt and completion",
  chat: "messages, a list of {role, content}, or prompt",
};

function textFault(field: string, value: unknown, ending: Ending): Fault | undefined {
  if (typeof value === "string") return undefined;
  if (Array.isArray(value)) return messagesFault(field, value, ending);
  return { field, message: `${field} must be a string or a list of messages, not ${kindOf(value)}` };
}
