import { nearest } from "../text/nearest.ts";

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

export const isRow = (value: unknown): value is Row =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export type Fault = { field: string; message: string };

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
    const fault = textFault("prompt", prompt);
    if (fault) return fault;
  }
  for (const field of NEEDS[format]) {
    if (row[field] === undefined) return missing(field, format);
    const fault = textFault(field, row[field]);
    if (fault) return fault;
  }
  return undefined;
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

function textFault(field: string, value: unknown): Fault | undefined {
  if (typeof value === "string") return undefined;
  if (Array.isArray(value)) return messagesFault(field, value);
  return { field, message: `${field} must be a string or a list of messages, not ${kindOf(value)}` };
}

function messagesFault(field: string, value: unknown): Fault | undefined {
  if (!Array.isArray(value)) return { field, message: `${field} must be a list of messages, not ${kindOf(value)}` };
  if (value.length === 0) return { field, message: `${field} is an empty list. Add at least one message` };
  for (let i = 0; i < value.length; i++) {
    const message: unknown = value[i];
    const at = `${field}[${i}]`;
    if (!isRow(message)) return { field, message: `${at} must be a message such as {"role": "user", "content": "…"}` };
    const { role } = message;
    if (typeof role !== "string" || !ROLES.has(role)) return { field, message: roleFault(at, message) };
    const { content } = message;
    if (typeof content === "string" || Array.isArray(content)) continue;
    if ((content === null || content === undefined) && message["tool_calls"] !== undefined) continue;
    return { field, message: `${at}.content must be a string, not ${kindOf(content)}` };
  }
  return undefined;
}

/** Roles that chat templates know. A misspelled role would train on text that no template treats as a turn. */
const ROLES: ReadonlySet<string> = new Set(["system", "developer", "user", "assistant", "tool", "function"]);
const OTHER_NAMES: Readonly<Record<string, string>> = {
  human: "user",
  gpt: "assistant",
  bot: "assistant",
  model: "assistant",
  ai: "assistant",
};

function roleFault(at: string, { role, from, value }: Row): string {
  const roles = [...ROLES].join(", ");
  if (role === undefined && typeof from === "string" && value !== undefined)
    return `${at} has from and value: rename them to role and content, with one of the roles ${roles}`;
  if (typeof role !== "string" || role === "") return `${at}.role must be a string such as "user"`;
  const lower = role.toLowerCase();
  const meant = Object.hasOwn(OTHER_NAMES, lower) ? OTHER_NAMES[lower] : nearest(role, ROLES);
  const hint = meant === undefined ? "" : `; did you mean ${meant}?`;
  return `${at}.role is ${JSON.stringify(role.slice(0, 40))}, but must be one of ${roles}${hint}`;
}

const kindOf = (value: unknown) =>
  value === undefined ? "missing" : value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
