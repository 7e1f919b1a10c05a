/** The content of a span, in the three forms that libraries send: messages, numbered attributes, and events. */
import type { Content } from "../new_trace.ts";
import type { Attributes, OtelSpan } from "./attributes.ts";

/** Undefined: the sender keeps its content to itself. */
export function contentOf(span: OtelSpan): Content | undefined {
  const input = side(span, "gen_ai.input.messages", "gen_ai.prompt", "gen_ai.content.prompt");
  const output = side(span, "gen_ai.output.messages", "gen_ai.completion", "gen_ai.content.completion");
  return input === null && output === null ? undefined : { input, output };
}

function side({ attributes, events }: OtelSpan, messages: string, older: string, event: string): unknown {
  const whole = attributes[messages] ?? attributes[older] ?? ofEvents(events, messages, older, event);
  return whole === undefined ? numbered(attributes, older) : plain(whole);
}

const ofEvents = (events: OtelSpan["events"], messages: string, older: string, name: string): unknown => {
  const event = events.find((each) => each.name === name || each.attributes[messages] !== undefined);
  return event?.attributes[messages] ?? event?.attributes[older];
};

/** `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content`, … → messages. */
function numbered(attributes: Attributes, prefix: string): unknown {
  const byIndex: Record<string, unknown>[] = [];
  for (const [name, value] of Object.entries(attributes)) {
    const [, index, field] =
      /^\.(\d{1,4})\.(role|content)$/.exec(name.startsWith(prefix) ? name.slice(prefix.length) : "") ?? [];
    if (index === undefined || field === undefined) continue;
    const message = byIndex[Number(index)] ?? {};
    message[field] = value;
    byIndex[Number(index)] = message;
  }
  const messages = byIndex.filter((each) => each !== undefined);
  return messages.length === 0 ? null : messages;
}

/** Libraries send messages as JSON text. Messages of parts become messages with a text where that loses nothing. */
function plain(value: unknown): unknown {
  const parsed = typeof value === "string" ? (parseJson(value) ?? value) : value;
  return Array.isArray(parsed) ? parsed.map(plainMessage) : parsed;
}

function plainMessage(message: unknown): unknown {
  const { parts, ...rest } = (message ?? {}) as { parts?: unknown };
  if (!Array.isArray(parts)) return message;
  const texts = parts.map((part) => {
    const { type, content } = (part ?? {}) as { type?: unknown; content?: unknown };
    return type === "text" && typeof content === "string" ? content : undefined;
  });
  return texts.every((text) => text !== undefined) ? { ...rest, content: texts.join("") } : message;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
