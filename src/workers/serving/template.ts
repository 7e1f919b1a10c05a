/**
 * The model's own chat template. What a template can do is found out by asking it once: it renders a small
 * conversation and the output shows whether the system text, the tools and the arguments are in it.
 */
import type { ChatMessage, Tool } from "../../lib/chat/messages.ts";
import { AppError } from "../../lib/errors.ts";
import { type CallFormat, formatOf, HERMES } from "./call_formats.ts";
import { describeTools, foldSystem, mapTexts, spellOutCalls, type Turn, toTurns } from "./conversation.ts";
import type { ModelFacts } from "./engine/types.ts";
import { compileTemplate, type Render, TemplateOverrun, TemplateRefusal } from "./jinja.ts";

export type Conversation = {
  messages: readonly ChatMessage[];
  tools: readonly Tool[];
  variables: Record<string, unknown>;
  /** Applied to each text of the client before it is put into the template. */
  quote: (text: string) => string;
};
export type ChatTemplate = {
  render: (conversation: Conversation) => string;
  /** How this model writes calls. */
  format: CallFormat;
  /** Where an answer ends when the model has no token for it. */
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
    render: (conversation) => (conversation.tools.length > 0 ? withTools : own).render(conversation),
  };
}

const PROBE = "zyxprobe";
const PROBE_TOOL = { type: "function", function: { name: PROBE, description: PROBE, parameters: { type: "object" } } };
const ASK: Turn = { role: "user", content: "hello" };

class OneTemplate {
  readonly format: CallFormat;
  private readonly template: Render;
  private readonly nativeTools: boolean;
  private systemWorks: boolean | undefined;
  private argumentsAsText: boolean | undefined;

  constructor(
    private readonly source: string,
    private readonly facts: Facts,
  ) {
    this.template = compiled(source);
    const known = formatOf(source);
    this.nativeTools = known !== undefined && this.shows([ASK], PROBE, [PROBE_TOOL]);
    this.format = known && this.nativeTools ? known : HERMES;
  }

  render({ messages, tools, variables, quote }: Conversation): string {
    let turns = toTurns(messages).map((turn) => mapTexts(turn, quote));
    const knowsDeveloper = /["']developer["']/.test(this.source);
    turns = turns.map((turn) => (turn.role === "developer" && !knowsDeveloper ? { ...turn, role: "system" } : turn));
    if (!this.nativeTools) {
      turns = spellOutCalls(turns);
      if (tools.length > 0) turns = describeTools(turns, tools);
    } else turns = this.withArguments(turns);
    if (turns.some((turn) => turn.role === "system") && !this.takesSystem()) turns = foldSystem(turns);
    try {
      return this.run(turns, this.nativeTools ? tools : [], variables);
    } catch (error) {
      throw refusal(error);
    }
  }

  private run(turns: readonly Turn[], tools: readonly unknown[], variables: Record<string, unknown> = {}): string {
    return this.template({
      ...variables,
      messages: turns,
      add_generation_prompt: true,
      bos_token: this.facts.bosToken,
      eos_token: this.facts.eosToken,
      ...(tools.length > 0 ? { tools } : {}),
    });
  }

  private shows(turns: readonly Turn[], text: string, tools: readonly unknown[] = []): boolean {
    try {
      return this.run(turns, tools).includes(text);
    } catch {
      return false;
    }
  }

  private takesSystem(): boolean {
    this.systemWorks ??= this.shows([{ role: "system", content: PROBE }, ASK], PROBE);
    return this.systemWorks;
  }

  /** Most templates write arguments as JSON themselves; some expect the text ready. Ids as this model spells them. */
  private withArguments(turns: readonly Turn[]): Turn[] {
    if (!turns.some((turn) => turn.tool_calls)) return [...turns];
    this.argumentsAsText ??= this.wantsText();
    return turns.map((turn) => {
      const { tool_calls: calls, tool_call_id: answers } = turn;
      const id = this.format.spellId;
      if (answers !== undefined) return { ...turn, tool_call_id: id(answers) };
      if (!calls) return turn;
      const spelt = calls.map((call) => ({
        ...call,
        id: id(call.id),
        function: {
          ...call.function,
          arguments: this.argumentsAsText ? asText(call.function.arguments) : call.function.arguments,
        },
      }));
      return { ...turn, tool_calls: spelt };
    });
  }

  private wantsText(): boolean {
    const turns = (args: unknown): Turn[] => [
      ASK,
      {
        role: "assistant",
        content: "",
        tool_calls: [{ id: "abcdefgh1", type: "function", function: { name: "f", arguments: args } }],
      },
      { role: "tool", content: "done", name: "f", tool_call_id: "abcdefgh1" },
    ];
    const key = `"${PROBE}"`;
    return !this.shows(turns({ [PROBE]: 1 }), key, [PROBE_TOOL]) && this.shows(turns(`{${key}: 1}`), key, [PROBE_TOOL]);
  }
}

const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));

/** A template that this program cannot read is known only when someone chats: the other routes work without. */
function compiled(source: string): Render {
  try {
    return compileTemplate(source);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    return () => {
      throw new AppError("invalid_request", `The model's chat template cannot be read (${why}): use /completions`, {
        cause,
      });
    };
  }
}

function refusal(error: unknown): unknown {
  if (error instanceof AppError) return error;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof TemplateRefusal)
    return new AppError("invalid_request", `The model's chat template refuses these messages: ${message}`, {
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

/** For a model without a template: a transcript, ended by the next turn of the user. */
function plainTemplate(): ChatTemplate {
  return {
    format: HERMES,
    stop: ["\nUser:"],
    render({ messages, tools, quote }) {
      let turns = spellOutCalls(toTurns(messages).map((turn) => mapTexts(turn, quote)));
      if (tools.length > 0) turns = describeTools(turns, tools);
      const lines = turns.map(({ role, content }) =>
        SPEAKERS[role] ? `${SPEAKERS[role]}: ${content}` : `${content}\n`,
      );
      return [...lines, "Assistant:"].join("\n");
    },
  };
}
