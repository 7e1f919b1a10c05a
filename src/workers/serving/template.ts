/**
 * The model's own chat template. Its abilities are tested once: it renders a small conversation, and the output shows
 * whether it contains the system text, the tools and the arguments.
 */
import type { ChatMessage, Tool } from "../../lib/chat/messages.ts";
import { errorText } from "../../lib/error_text.ts";
import { AppError } from "../../lib/errors.ts";
import type { CallFormat } from "./calls/format.ts";
import { formatOf, HERMES } from "./calls/formats.ts";
import {
  callsApart,
  describeTools,
  foldSystem,
  inParts,
  mapTexts,
  spellCalls,
  spellOutCalls,
  type Turn,
  textOf,
  toTurns,
} from "./conversation.ts";
import type { ModelFacts } from "./engine/types.ts";
import { compileTemplate, type Render, TemplateOverrun, TemplateRefusal } from "./jinja.ts";

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
  const own = new OneTemplate(facts.chatTemplate, facts);
  const withTools = facts.toolTemplate === null ? own : new OneTemplate(facts.toolTemplate, facts);
  return {
    format: withTools.format,
    stop: [],
    render: (conversation) =>
      renderOpen(conversation, (given) => (given.tools.length > 0 ? withTools : own).render(given)),
  };
}

const END_MARK = "\uE0F2"; // a private-use character, as the marks of prompt.ts

/** Cuts the text off at the end of the last message if the answer continues that message. */
function renderOpen(conversation: Conversation, render: (given: Conversation) => string): string {
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

const PROBE = "zyxprobe";
const PROBE_PARAMETERS = {
  type: "object",
  properties: { value: { type: "string", description: PROBE } },
  required: ["value"],
};
const PROBE_TOOL = { type: "function", function: { name: PROBE, description: PROBE, parameters: PROBE_PARAMETERS } };
const ASK: Turn = { role: "user", content: "hello" };
const SPOKEN: Turn = { role: "user", content: PROBE };

class OneTemplate {
  readonly format: CallFormat;
  private readonly template: Render;
  /** The template lists tools; the prompt lists them and the template writes calls; the prompt does both. */
  private readonly tools: "native" | "described" | "foreign";
  private systemWorks: boolean | undefined;
  private several: boolean | undefined;
  private typed: boolean | undefined;
  private calls: ReturnType<OneTemplate["tryCalls"]> | undefined;
  private overrun: TemplateOverrun | undefined;

  constructor(
    private readonly source: string,
    private readonly facts: Facts,
  ) {
    this.template = compiled(source);
    const known = formatOf(source);
    const native = known !== undefined && this.shows([ASK], PROBE, [PROBE_TOOL]);
    const usable = native || known?.example !== undefined || known?.always;
    this.format = known && usable ? known : HERMES;
    this.tools = native ? "native" : this.format === HERMES ? "foreign" : "described";
  }

  render(conversation: Conversation): string {
    const { tools } = conversation;
    try {
      return this.attempt(conversation, this.tools);
    } catch (error) {
      // If a native template fails on these tools, describe the tools in its own format instead.
      const another = this.tools === "native" && tools.length > 0 && this.format === HERMES && isBug(error);
      if (!another) throw refusal(error);
    }
    try {
      return this.attempt(conversation, "foreign");
    } catch (error) {
      throw refusal(error);
    }
  }

  private attempt(
    { messages, tools, variables, quote, open = true }: Conversation,
    how: "native" | "described" | "foreign",
  ): string {
    const apart = how === "foreign" ? undefined : callsApart(messages);
    const said = apart && !this.takesSeveral() ? apart : messages;
    let turns = toTurns(said).map((turn) => mapTexts(turn, quote));
    const knowsDeveloper = /["']developer["']/.test(this.source);
    turns = turns.map((turn) => (turn.role === "developer" && !knowsDeveloper ? { ...turn, role: "system" } : turn));
    turns = how === "foreign" ? spellOutCalls(turns) : this.withCalls(turns);
    if (how !== "native" && tools.length > 0) turns = describeTools(turns, tools, this.format.example);
    if (turns.some((turn) => turn.role === "system") && !this.takesSystem()) turns = foldSystem(turns);
    return this.run(turns, how === "native" ? tools : [], variables, open);
  }

  /** No tools are passed as null, as most templates expect. Some iterate over them without a check. */
  private run(
    turns: readonly Turn[],
    tools: readonly unknown[],
    variables: Record<string, unknown> = {},
    open = true,
  ): string {
    const fixed = {
      messages: this.takesParts() ? turns.map(inParts) : turns,
      add_generation_prompt: open,
      bos_token: this.facts.bosToken,
      eos_token: this.facts.eosToken,
      // names of Firefunction
      ...(this.source.includes("+ functions") ? { functions: JSON.stringify(tools), datetime: now() } : {}),
    };
    if (this.overrun) throw this.overrun;
    try {
      return this.template({ ...variables, ...fixed, tools: tools.length > 0 ? tools : null });
    } catch (error) {
      if (tools.length > 0 || !isBug(error)) throw error;
      return this.template({ ...variables, ...fixed, tools: [] });
    }
  }

  private shows(turns: readonly Turn[], text: string, tools: readonly unknown[] = []): boolean {
    try {
      return this.run(turns, tools).includes(text);
    } catch (error) {
      // it failed on two words: later requests must not wait for it again
      if (error instanceof TemplateOverrun) this.overrun = error;
      return false;
    }
  }

  /** Some templates of models that read images know no content but a list of parts. */
  private takesParts(): boolean {
    if (this.typed !== undefined) return this.typed;
    this.typed = false; // `shows` asks for it
    if (this.shows([SPOKEN], PROBE)) return false;
    this.typed = true;
    this.typed = this.shows([SPOKEN], PROBE);
    return this.typed;
  }

  private takesSystem(): boolean {
    this.systemWorks ??= this.shows([{ role: "system", content: PROBE }, ASK], PROBE);
    return this.systemWorks;
  }

  /**
   * Most templates write arguments as JSON themselves; some expect finished text, and some write no calls at all. Ids
   * are spelled as this model expects.
   */
  private withCalls(turns: readonly Turn[]): Turn[] {
    if (!turns.some((turn) => turn.tool_calls)) return [...turns];
    this.calls ??= this.tryCalls();
    const { as, content } = this.calls;
    if (as === "nothing") return turns.map((turn) => spellCalls(turn, this.format.spell ?? HERMES.spell));
    const ids = new Map<string, string>();
    return turns.map((turn) => {
      const { tool_calls: calls, tool_call_id: answers } = turn;
      if (answers !== undefined) return { ...turn, tool_call_id: ids.get(answers) ?? answers };
      if (!calls) return turn;
      const spelt = calls.map((call) => {
        const { name, arguments: given } = call.function;
        const id = this.format.spellId(call.id, name, ids.size);
        ids.set(call.id, id);
        return { ...call, id, function: { name, arguments: as === "text" ? asText(given) : given } };
      });
      return { ...turn, tool_calls: spelt, ...(content === "kept" ? {} : { content: content as string }) };
    });
  }

  /** Some templates write the calls of a turn only if it has no text. */
  private tryCalls(): { as: "object" | "text" | "nothing"; content: "kept" | "" | null } {
    const name = `${PROBE}_key`;
    for (const content of ["kept", "", null] as const) {
      const shows = (args: unknown, key: string) => this.shows(probeCalls([args], content), key, [PROBE_TOOL]);
      if (shows({ [name]: 1 }, this.format.json ? `"${name}"` : name)) return { as: "object", content };
      if (shows(`{"${name}": 1}`, `"${name}"`)) return { as: "text", content };
      if (shows({ [name]: 1 }, name)) return { as: "object", content };
    }
    return { as: "nothing", content: "kept" };
  }

  /** Some templates reject a turn with several calls, or write the first one only. */
  private takesSeveral(): boolean {
    this.calls ??= this.tryCalls();
    const { as, content } = this.calls;
    const given = [1, 2].map((i) => ({ [`${PROBE}_${i}`]: 1 })).map((args) => (as === "text" ? asText(args) : args));
    this.several ??= this.shows(probeCalls(given, content), `${PROBE}_2`, [PROBE_TOOL]);
    return this.several;
  }
}

/** A turn with one call for each of these arguments, and its results. */
function probeCalls(given: readonly unknown[], content: string | null): Turn[] {
  const calls = given.map((args, i) => ({
    id: `abcdefgh${i}`,
    type: "function" as const,
    function: { name: "f", arguments: args },
  }));
  const results = calls.map(({ id }) => ({ role: "tool", content: "done", name: "f", tool_call_id: id }));
  return [ASK, { role: "assistant", content: content as string, tool_calls: calls }, ...results];
}

const now = () => new Date().toUTCString();
const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

/** An unreadable template is reported only when a client chats: the other routes work without it. */
function compiled(source: string): Render {
  try {
    return compileTemplate(source);
  } catch (cause) {
    const why = errorText(cause);
    return () => {
      throw new AppError(
        "invalid_request",
        `The model's chat template cannot be read (${why}). Use /completions instead`,
        {
          cause,
        },
      );
    };
  }
}

/** True if neither the template's own rejection nor its budget caused the error. */
const isBug = (error: unknown) =>
  !(error instanceof AppError || error instanceof TemplateRefusal || error instanceof TemplateOverrun);

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
