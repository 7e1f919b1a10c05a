/** Input and output of a request as messages, whatever form the API stored: a text, texts, or chat messages. */
export type Message = { role: string; text: string };

export function messagesOf(content: unknown): Message[] {
  if (content === null || content === undefined) return [];
  return (Array.isArray(content) ? content : [content]).map(messageOf);
}

function messageOf(value: unknown): Message {
  if (typeof value === "string") return { role: "", text: value };
  if (typeof value !== "object" || value === null || !("role" in value))
    return { role: "", text: JSON.stringify(value, null, 2) };
  const { role, content, tool_calls: calls } = value as { role: unknown; content?: unknown; tool_calls?: unknown };
  const parts = [textOf(content), ...(Array.isArray(calls) ? calls.map(callOf) : [])];
  return { role: String(role), text: parts.filter((part) => part !== "").join("\n") };
}

function textOf(content: unknown): string {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map(partOf).join("\n") : JSON.stringify(content, null, 2);
}

const partOf = (part: unknown): string =>
  typeof part === "object" && part !== null && "text" in part ? String(part.text) : JSON.stringify(part);

function callOf(call: unknown): string {
  const { name, arguments: args } = (call as { function?: { name?: unknown; arguments?: unknown } }).function ?? {};
  return `calls ${String(name)}(${typeof args === "string" ? args : JSON.stringify(args ?? {})})`;
}

/** The last message, in one line, to tell requests apart. */
export const lastLine = (content: unknown): string =>
  messagesOf(content).at(-1)?.text.replaceAll(/\s+/g, " ").trim() ?? "";

/** Messages of a request that the one before it in the conversation did not have. */
export function newMessages(before: readonly Message[], now: readonly Message[]): readonly Message[] {
  let same = 0;
  while (same < before.length && same < now.length && before[same]?.text === now[same]?.text) same++;
  return same > 0 && same < now.length ? now.slice(same) : now;
}
