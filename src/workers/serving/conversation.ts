/** Converts a client's messages to the form that chat templates expect: plain texts, few roles. Pure. */
import type { ChatMessage, Tool } from "../../lib/chat/messages.ts";
import type { SpeltCall } from "./calls/format.ts";
import { HERMES } from "./calls/formats.ts";

export type TurnCall = { id: string; type: "function"; function: { name: string; arguments: unknown } };
export type Turn = {
  role: string;
  content: string;
  name?: string;
  reasoning_content?: string;
  tool_calls?: TurnCall[];
  tool_call_id?: string;
};

/** A turn as a template gets it. Some templates write the calls of a turn only if its content is null. */
export type TemplateTurn = Omit<Turn, "content"> & { content: string | null };

export const textOf = (content: ChatMessage["content"]): string =>
  typeof content === "string" ? content : (content ?? []).map((part) => part.text).join("");

export function toTurns(messages: readonly ChatMessage[]): Turn[] {
  return messages.map((message) => {
    const turn: Turn = { role: message.role, content: textOf(message.content) };
    if (message.name) turn.name = message.name;
    if (message.role === "tool") turn.tool_call_id = message.tool_call_id;
    if (message.role === "assistant") {
      if (message.reasoning_content) turn.reasoning_content = message.reasoning_content;
      if (message.tool_calls?.length)
        turn.tool_calls = message.tool_calls.map(({ id, function: { name, arguments: text } }) => ({
          id,
          type: "function",
          function: { name, arguments: parsed(text) },
        }));
    }
    return turn;
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // the model wrote these arguments, and they may be incomplete JSON
  }
}

/** Replaces every text that came from a client by `quote(text)`. */
export function mapTexts(turn: Turn, quote: (text: string) => string): Turn {
  const deep = (value: unknown): unknown => {
    if (typeof value === "string") return quote(value);
    if (Array.isArray(value)) return value.map(deep);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [quote(key), deep(item)]));
  };
  return deep(turn) as Turn;
}

/** For templates that take parts alone. */
export const inParts = (turn: TemplateTurn) => ({
  ...turn,
  content: turn.content ? [{ type: "text", text: turn.content }] : [],
});

/** For templates without a system role: puts the system text before the first user message. */
export function foldSystem(turns: readonly Turn[]): Turn[] {
  const system = turns.filter((turn) => turn.role === "system").map((turn) => turn.content);
  const rest = turns.filter((turn) => turn.role !== "system");
  const text = system.join("\n\n");
  const at = rest.findIndex((turn) => turn.role === "user");
  if (at < 0) return [{ role: "user", content: text }, ...rest];
  return rest.map((turn, i) => (i === at ? { ...turn, content: `${text}\n\n${turn.content}` } : turn));
}

/** For templates with one call in a turn: each call gets a turn with its result. Undefined if no turn has several. */
export function callsApart(messages: readonly ChatMessage[]): ChatMessage[] | undefined {
  if (!messages.some((message) => message.role === "assistant" && (message.tool_calls?.length ?? 0) > 1))
    return undefined;
  const moved = new Set<ChatMessage>();
  return messages.flatMap((message, at) => {
    if (moved.has(message)) return [];
    if (message.role !== "assistant" || !message.tool_calls) return [message];
    return message.tool_calls.flatMap((call, i) => {
      const result = messages.slice(at).find((other) => other.role === "tool" && other.tool_call_id === call.id);
      if (result) moved.add(result);
      const turn: ChatMessage = { ...message, content: i === 0 ? message.content : "", tool_calls: [call] };
      return result ? [turn, result] : [turn];
    });
  });
}

/** Writes the calls of a turn as text. */
export function spellCalls(turn: Turn, spell: (calls: readonly SpeltCall[]) => string): Turn {
  const { tool_calls: calls, ...rest } = turn;
  if (!calls) return turn;
  const text = spell(calls.map(({ function: { name, arguments: args } }) => ({ name, arguments: args })));
  return { ...rest, content: [turn.content, text].filter(Boolean).join("\n") };
}

/** For templates without tools: writes calls and their results as text in the Hermes format. */
export function spellOutCalls(turns: readonly Turn[]): Turn[] {
  const out: Turn[] = [];
  for (const turn of turns) {
    if (turn.role === "tool") {
      const content = `<tool_response>\n${turn.content}\n</tool_response>`;
      const last = out.at(-1);
      if (last?.role === "user" && last.content.endsWith("</tool_response>")) last.content += `\n${content}`;
      else out.push({ role: "user", content });
    } else out.push({ ...spellCalls(turn, HERMES.spell) });
  }
  return out;
}

const EXAMPLE = '<tool_call>\n{"name": "<name>", "arguments": {<arguments>}}\n</tool_call>';

/** For templates without tools: adds a system message that lists the tools and explains how to call them. */
export function describeTools(turns: readonly Turn[], tools: readonly Tool[], example = EXAMPLE): Turn[] {
  const text = [
    "These functions can be called, each described by a JSON object:",
    "<tools>",
    ...tools.map((tool) => JSON.stringify(tool.function)),
    "</tools>",
    "To call one, answer with its name and arguments in this form, once per call:",
    example,
  ].join("\n");
  const [first, ...rest] = turns;
  if (first?.role === "system") return [{ ...first, content: `${first.content}\n\n${text}` }, ...rest];
  return [{ role: "system", content: text }, ...turns];
}
