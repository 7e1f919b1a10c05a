/** Turns as the messages of a chat request, and messages of others as turns. Pure. */
import { isObject } from "../../../lib/json/object.ts";
import { doneAnswer } from "./answer.ts";
import { add, EMPTY_TREE, type Tree, type Turn } from "./tree.ts";

type Part = { type: "text"; text: string } | { type: "image_url"; image_url: { url: string } };
export type SentCall = { id: string; type: "function"; function: { name: string; arguments: string } };
export type SentMessage =
  | { role: "system" | "user"; content: string | Part[] }
  | { role: "assistant"; content: string | null; reasoning_content?: string; tool_calls?: SentCall[] }
  | { role: "tool"; content: string; tool_call_id: string; name: string };

/** `system`: the system prompt of all columns, may be empty. */
export const messagesOf = (path: readonly Turn[], system: string): SentMessage[] => [
  ...(system === "" ? [] : [{ role: "system" as const, content: system }]),
  ...path.flatMap(messageOf),
];

/** An answer that failed before its first word is left out: templates accept no empty turn. */
function messageOf(turn: Turn): SentMessage[] {
  if (turn.role === "tool") return [{ role: "tool", content: turn.text, tool_call_id: turn.call, name: turn.name }];
  if (turn.role !== "assistant") return [{ role: turn.role, content: contentOf(turn.text, turn.images) }];
  const { text, thinking, calls } = turn.answer;
  if (text === "" && calls.length === 0) return [];
  return [
    {
      role: "assistant",
      content: text === "" ? null : text,
      ...(thinking === "" ? {} : { reasoning_content: thinking }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map(sentCall) }),
    },
  ];
}

const sentCall = ({ id, name, text }: { id: string; name: string; text: string }): SentCall => ({
  id,
  type: "function",
  function: { name, arguments: text },
});

function contentOf(text: string, images: readonly string[]): string | Part[] {
  if (images.length === 0) return text;
  const parts = images.map((url): Part => ({ type: "image_url", image_url: { url } }));
  return text === "" ? parts : [...parts, { type: "text", text }];
}

const ROLES: Readonly<Record<string, "user" | "system">> = { user: "user", system: "system", developer: "system" };

/** Messages as a request or a trace has them, in whatever form. The first system message is the system prompt. */
export function conversationOf(
  messages: readonly unknown[],
  newId: () => string,
): { system: string; tree: Tree; end: string | null } {
  let system = "";
  let tree = EMPTY_TREE;
  let parent: string | null = null;
  const append = (turn: Turn) => {
    tree = add(tree, turn);
    parent = turn.id;
  };
  const names = new Map<string, string>(); // of called tools, by the id of the call
  for (const [i, message] of messages.entries()) {
    if (!isObject(message)) {
      if (typeof message === "string") append({ id: newId(), parent, role: "user", text: message, images: [] });
      continue;
    }
    const { text, images } = readContent(message["content"]);
    const role = String(message["role"]);
    if (role === "assistant") {
      const calls = readCalls(message["tool_calls"]);
      for (const { id, name } of calls) names.set(id, name);
      const thinking = typeof message["reasoning_content"] === "string" ? message["reasoning_content"] : "";
      append({ id: newId(), parent, role: "assistant", answer: doneAnswer({ text, thinking, calls }) });
    } else if (role === "tool" || role === "function") {
      const call = String(message["tool_call_id"] ?? `call_${String(message["name"])}`);
      const name = String(message["name"] ?? names.get(call) ?? "tool");
      append({ id: newId(), parent, role: "tool", call, name, text });
    } else if (i === 0 && ROLES[role] === "system") system = text;
    else append({ id: newId(), parent, role: ROLES[role] ?? "user", text, images });
  }
  return { system, tree, end: parent };
}

function readContent(content: unknown): { text: string; images: string[] } {
  if (typeof content === "string") return { text: content, images: [] };
  const texts: string[] = [];
  const images: string[] = [];
  for (const part of Array.isArray(content) ? content : []) {
    if (typeof part === "string") texts.push(part);
    if (!isObject(part)) continue;
    const { text, image_url: image } = part;
    if (typeof text === "string") texts.push(text);
    const url = isObject(image) ? image["url"] : image;
    if (typeof url === "string" && url.startsWith("data:image/")) images.push(url);
  }
  return { text: texts.join("\n"), images };
}

function readCalls(calls: unknown): { id: string; name: string; text: string }[] {
  return (Array.isArray(calls) ? calls : []).flatMap((call: unknown, i) => {
    const made: unknown = isObject(call) ? (call["function"] ?? call) : undefined;
    if (!isObject(call) || !isObject(made)) return [];
    const { name, arguments: args } = made;
    const text = typeof args === "string" ? args : JSON.stringify(args ?? {});
    return [{ id: String(call["id"] ?? `call_${i}`), name: String(name), text }];
  });
}
