/** Checks the messages of a row. The rules are those of the chat route, so that a row trains what serving can render. */
import { isObject } from "../json/object.ts";
import { nearest } from "../text/nearest.ts";

type Message = Record<string, unknown>;
export type Fault = { field: string; message: string };

export const isRow = (value: unknown): value is Record<string, unknown> => isObject(value);

/** Roles that chat templates know. A misspelled role would train on text that no template treats as a turn. */
export const ROLES: ReadonlySet<string> = new Set(["system", "developer", "user", "assistant", "tool", "function"]);
/** Names that other tools give to the roles. */
export const OTHER_ROLES: Readonly<Record<string, string>> = {
  human: "user",
  gpt: "assistant",
  chatgpt: "assistant",
  bot: "assistant",
  model: "assistant",
  ai: "assistant",
};
const EXAMPLE = '{"role": "user", "content": "…"}';

/** `end`: the role that the last message must have, or must not have. */
export type Ending = "any" | "assistant" | "question";

export function messagesFault(field: string, value: unknown, ending: Ending = "any"): Fault | undefined {
  const fault = (message: string): Fault => ({ field, message });
  if (!Array.isArray(value)) return fault(`${field} must be a list of messages, not ${kindOf(value)}`);
  if (value.length === 0) return fault(`${field} is an empty list. Add at least one message`);
  for (let i = 0; i < value.length; i++) {
    const at = `${field}[${i}]`;
    const message: unknown = value[i];
    if (!isRow(message)) return fault(`${at} must be a message such as ${EXAMPLE}`);
    const { role } = message;
    if (typeof role !== "string" || !ROLES.has(role)) return fault(roleFault(at, message));
    const wrong = callsFault(at, message) ?? contentFault(at, message);
    if (wrong) return fault(wrong);
  }
  const wrong = endFault(field, value as Message[], ending);
  return wrong === undefined ? undefined : fault(wrong);
}

function endFault(field: string, messages: readonly Message[], ending: Ending): string | undefined {
  const role = String(messages.at(-1)?.["role"]);
  const last = `${field}[${messages.length - 1}].role`;
  if (ending === "assistant" && role !== "assistant")
    return `${last} is "${role}", but ${field} must end with a message of the assistant`;
  if (ending === "question" && role === "assistant")
    return `${last} is "assistant", but ${field} must end before the answer. Move the answer to its own field`;
  if (messages.every((each) => each["role"] === "system" || each["role"] === "developer"))
    return `${field} has only ${role} messages. Add a message of the user`;
  return undefined;
}

function contentFault(at: string, message: Message): string | undefined {
  const { role, content } = message;
  const calls = hasCalls(message);
  if (content === null || content === undefined)
    return calls || role === "function" ? undefined : `${at}.content must be a string, not ${kindOf(content)}`;
  if (typeof content === "string") {
    const needsText = (role === "user" || role === "assistant") && !calls;
    return needsText && content.trim() === "" ? `${at}.content is empty. Give the text, or remove the row` : undefined;
  }
  if (!Array.isArray(content)) return `${at}.content must be a string, not ${kindOf(content)}`;
  for (let i = 0; i < content.length; i++) {
    const part: unknown = content[i];
    const where = `${at}.content[${i}]`;
    if (!isRow(part)) return `${where} must be a part such as {"type": "text", "text": "…"}`;
    if (part["type"] !== "text")
      return `${where}.type is ${shown(part["type"])}, but only text parts can be trained on: use "text"`;
    if (typeof part["text"] !== "string") return `${where}.text must be a string, not ${kindOf(part["text"])}`;
  }
  return undefined;
}

/** Files with fixed columns have null or an empty list where a message calls no tool. */
const hasCalls = ({ tool_calls: calls, function_call: call }: Message) =>
  isRow(call) || (Array.isArray(calls) && calls.length > 0);

function callsFault(at: string, { role, tool_calls: calls }: Message): string | undefined {
  if (calls === undefined || calls === null) return undefined;
  if (!Array.isArray(calls)) return `${at}.tool_calls must be a list, not ${kindOf(calls)}`;
  if (calls.length > 0 && role !== "assistant")
    return `${at}.tool_calls belongs to a message of the assistant, not of the role ${String(role)}`;
  for (let i = 0; i < calls.length; i++) {
    const call: unknown = calls[i];
    const called = isRow(call) ? call["function"] : undefined;
    if (!isRow(called) || typeof called["name"] !== "string")
      return `${at}.tool_calls[${i}] must be a call such as {"type": "function", "function": {"name": "…", "arguments": "{}"}}`;
    const { arguments: args } = called;
    if (typeof args !== "string" && !isRow(args))
      return `${at}.tool_calls[${i}].function.arguments must be JSON text or an object, not ${kindOf(args)}`;
  }
  return undefined;
}

function roleFault(at: string, { role, from, value }: Message): string {
  const roles = [...ROLES].join(", ");
  if (role === undefined && typeof from === "string" && value !== undefined)
    return `${at} has from and value: rename them to role and content, with one of the roles ${roles}`;
  if (typeof role !== "string" || role === "") return `${at}.role must be a string such as "user"`;
  const hint = roleMeant(role);
  return `${at}.role is ${shown(role)}, but must be one of ${roles}${hint === undefined ? "" : `; did you mean ${hint}?`}`;
}

/** The role that a wrong one probably stands for. */
function roleMeant(role: string): string | undefined {
  const lower = role.toLowerCase();
  return Object.hasOwn(OTHER_ROLES, lower) ? OTHER_ROLES[lower] : nearest(role, ROLES);
}

const shown = (value: unknown) => (JSON.stringify(value) ?? "missing").slice(0, 42);

export const kindOf = (value: unknown) =>
  value === undefined ? "missing" : value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
