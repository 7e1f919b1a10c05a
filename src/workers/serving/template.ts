/** The model's own chat template: a conversation becomes the text that the model continues. */
import type { ChatMessage, Tool } from "../../lib/chat/messages.ts";
import { errorText } from "../../lib/error_text.ts";
import { AppError } from "../../lib/errors.ts";
import { type Abilities, asText, compileChat, evaluateTurns, isBug, probe, type Template } from "./abilities.ts";
import type { CallFormat } from "./calls/format.ts";
import { HERMES } from "./calls/formats.ts";
import {
  callsApart,
  describeTools,
  foldSystem,
  mapTexts,
  spellCalls,
  spellOutCalls,
  type TemplateTurn,
  type Turn,
  textOf,
  toTurns,
} from "./conversation.ts";
import type { ModelFacts } from "./engine/types.ts";
import { TemplateOverrun, TemplateRefusal } from "./jinja.ts";

export type Conversation = {
  messages: readonly ChatMessage[];
  tools: readonly Tool[];
  variables: Record<string, unknown>;
  /** Applied to each text of the client before the template sees it. */
  quote: (text: string) => string;
  /** Default true: the text ends where the answer begins. */
  open?: boolean;
  /** The text ends where the last message ends, so that the answer continues it. */
  continues?: boolean;
};
export type ChatTemplate = {
  render: (conversation: Conversation) => string;
  /** The format in which this model writes calls. */
  format: CallFormat;
  /** Stop strings for a model that has no end token. */
  stop: readonly string[];
};

type Facts = Pick<ModelFacts, "chatTemplate" | "toolTemplate" | "bosToken" | "eosToken">;

export function createChatTemplate(facts: Facts): ChatTemplate {
  if (facts.chatTemplate === null) return plainTemplate();
  const plain = openTemplate(facts.chatTemplate, facts);
  const withTools = facts.toolTemplate === null ? plain : openTemplate(facts.toolTemplate, facts);
  return {
    format: withTools.abilities.format,
    stop: [],
    render: (conversation) =>
      renderOpen(conversation, (each) => renderBy(each.tools.length > 0 ? withTools : plain, each)),
  };
}

type Probed = { template: Template; abilities: Abilities };

function openTemplate(source: string, facts: Facts): Probed {
  const template = compileChat(source, facts);
  return { template, abilities: probe(template) };
}

const END_MARK = "\uE0F2"; // a private-use character, as the marks of prompt.ts

/** Cuts the text off at the end of the last message if the answer continues that message. */
function renderOpen(conversation: Conversation, render: (each: Conversation) => string): string {
  const { messages, continues } = conversation;
  const last = messages.at(-1);
  if (!continues || last?.role !== "assistant") return render(conversation);
  const content = (typeof last.content === "string" ? last.content : textOf(last.content)).replaceAll(END_MARK, "");
  const marked = { ...last, content: `${content}${END_MARK}` };
  const text = render({ ...conversation, messages: [...messages.slice(0, -1), marked], open: false });
  const at = text.lastIndexOf(END_MARK);
  if (at >= 0) return text.slice(0, at);
  throw new AppError("invalid_request", "The model's chat template cannot continue a message. Add a user message", {
    param: "/messages",
  });
}

function renderBy(probed: Probed, conversation: Conversation): string {
  const { format, tools: how, overrun } = probed.abilities;
  if (overrun) throw refusal(overrun);
  try {
    return renderAs(how, probed, conversation);
  } catch (error) {
    // If a native template fails on these tools, describe the tools in its own format instead.
    const hasOther = how === "native" && conversation.tools.length > 0 && format === HERMES && isBug(error);
    if (!hasOther) throw refusal(error);
  }
  try {
    return renderAs("foreign", probed, conversation);
  } catch (error) {
    throw refusal(error);
  }
}

function renderAs(
  how: Abilities["tools"],
  { template, abilities }: Probed,
  { messages, tools, variables, quote, open = true }: Conversation,
): string {
  const { format } = abilities;
  const apart = how === "foreign" || abilities.takesSeveral ? undefined : callsApart(messages);
  let turns = toTurns(apart ?? messages).map((turn) => mapTexts(turn, quote));
  if (!abilities.takesDeveloper)
    turns = turns.map((turn) => (turn.role === "developer" ? { ...turn, role: "system" } : turn));
  if (how === "foreign") turns = spellOutCalls(turns);
  else if (abilities.calls.as === "nothing")
    turns = turns.map((turn) => spellCalls(turn, format.spell ?? HERMES.spell));
  if (how !== "native" && tools.length > 0) turns = describeTools(turns, tools, format.example);
  if (!abilities.takesSystem && turns.some((turn) => turn.role === "system")) turns = foldSystem(turns);
  return evaluateTurns(template, {
    turns: how === "foreign" ? turns : withCalls(turns, abilities),
    inParts: abilities.needsParts,
    tools: how === "native" ? tools : [],
    variables,
    open,
  });
}

/** Calls in the form that the template expects. Ids are spelled as this model expects. */
function withCalls(turns: readonly Turn[], { calls: { as, content }, format }: Abilities): TemplateTurn[] {
  if (as === "nothing") return [...turns];
  const ids = new Map<string, string>();
  return turns.map((turn) => {
    const { tool_calls: calls, tool_call_id: answered } = turn;
    if (answered !== undefined) return { ...turn, tool_call_id: ids.get(answered) ?? answered };
    if (!calls) return turn;
    const spelt = calls.map((call) => {
      const { name, arguments: args } = call.function;
      const id = format.spellId(call.id, name, ids.size);
      ids.set(call.id, id);
      return { ...call, id, function: { name, arguments: as === "text" ? asText(args) : args } };
    });
    return { ...turn, tool_calls: spelt, ...(content === "kept" ? {} : { content }) };
  });
}

function refusal(error: unknown): unknown {
  if (error instanceof AppError) return error;
  const message = errorText(error);
  if (error instanceof TemplateRefusal)
    return new AppError("invalid_request", `The model's chat template rejects these messages: ${message}`, {
      param: "/messages",
      cause: error,
    });
  if (error instanceof TemplateOverrun) return new AppError("invalid_request", message, { cause: error });
  return new AppError("invalid_request", `The model's chat template fails on these messages: ${message}`, {
    param: "/messages",
    cause: error,
  });
}

const SPEAKERS: Record<string, string> = { user: "User", assistant: "Assistant" };

/** For a model without a template: a transcript that stops at the next user turn. */
function plainTemplate(): ChatTemplate {
  return {
    format: HERMES,
    stop: ["\nUser:"],
    render: (conversation) => renderOpen(conversation, renderTranscript),
  };
}

function renderTranscript({ messages, tools, quote, open = true }: Conversation): string {
  let turns = spellOutCalls(toTurns(messages).map((turn) => mapTexts(turn, quote)));
  if (tools.length > 0) turns = describeTools(turns, tools);
  const lines = turns.map(({ role, content }) => (SPEAKERS[role] ? `${SPEAKERS[role]}: ${content}` : `${content}\n`));
  return (open ? [...lines, "Assistant:"] : lines).join("\n");
}
