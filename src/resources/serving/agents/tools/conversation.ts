/** The turns of a chat whose agent has MCP servers: the model answers, its calls are made, and it is asked again. */
import type { Ctx } from "../../../../context.ts";
import type { ChatCompletion, ChatCompletionRequest } from "../../../../lib/chat/chat_completion.ts";
import type { NewTrace } from "../../../watching/traces/new_trace.ts";
import * as traces from "../../../watching/traces/service.ts";
import type { Span } from "../../../watching/traces/table.ts";
import type { Call, Executed, ExecutedTool, Toolbox } from "./toolbox.ts";

/** `onTrace` takes the trace of the request instead of the store of traces. */
export type Send = (body: ChatCompletionRequest, onTrace?: (trace: NewTrace) => void) => Promise<Response>;

type Message = ChatCompletion["choices"][number]["message"];
type Usage = ChatCompletion["usage"];
type Options = { body: ChatCompletionRequest; toolbox: Toolbox; maxTurns: number; send: Send };

/** The turns of one chat. */
export class Conversation {
  readonly #messages: ChatCompletionRequest["messages"];
  readonly executed: ExecutedTool[] = [];
  #usage: Usage | undefined;
  #turn = 0;
  #trace = Promise.withResolvers<NewTrace>();

  constructor(
    readonly ctx: Ctx,
    readonly options: Options,
  ) {
    this.#messages = [...options.body.messages];
  }

  /** Asks the model. The last turn has no tools to call, so that it ends with an answer. */
  ask(): Promise<Response> {
    const { body, toolbox, maxTurns, send } = this.options;
    this.#turn++;
    const isLast = this.#turn >= maxTurns;
    // A choice that forces a call is for the first turn: it would force one in every turn.
    const choice = isLast ? "none" : this.#turn === 1 ? body.tool_choice : "auto";
    const trace = Promise.withResolvers<NewTrace>();
    this.#trace = trace;
    const tools = [...body.tools, ...toolbox.tools];
    const streams = body.stream ? { stream_options: { ...body.stream_options, include_usage: true } } : {};
    return send({ ...body, ...streams, messages: [...this.#messages], tools, tool_choice: choice }, trace.resolve).then(
      (response) => response,
      (error) => {
        this.#release([]);
        throw error;
      },
    );
  }

  /** Calls of the last message that have no result: the client has approved them. */
  async answerApproved(): Promise<void> {
    const at = this.#messages.findLastIndex(({ role }) => role !== "tool");
    const last = this.#messages[at];
    if (last?.role !== "assistant") return;
    const answered = new Set(
      this.#messages.slice(at + 1).map((each) => (each.role === "tool" ? each.tool_call_id : "")),
    );
    const open = (last.tool_calls ?? []).filter(
      ({ id, function: { name } }) => !answered.has(id) && this.options.toolbox.entries.has(name),
    );
    await this.#execute(open.map(({ id, function: call }) => ({ id, ...call })));
  }

  /** Makes the calls of an answer. False: the answer goes to the client, with its calls. */
  async answerCalls({ choices: [choice], usage }: ChatCompletion): Promise<boolean> {
    this.#count(usage);
    const calls = callsOf(choice?.message);
    const { entries } = this.options.toolbox;
    const isOurs = calls.length > 0 && calls.every(({ name }) => entries.get(name)?.isApprovalNeeded === false);
    if (!choice || !isOurs || choice.finish_reason !== "tool_calls") {
      this.#release([]);
      return false;
    }
    const { content, reasoning_content: thoughts } = choice.message;
    const tool_calls = calls.map(({ id, ...call }) => ({ id, type: "function" as const, function: call }));
    const said = { role: "assistant" as const, content, ...(thoughts ? { reasoning_content: thoughts } : {}) };
    this.#messages.push({ ...said, tool_calls });
    const executed: Executed[] = [];
    try {
      await this.#execute(calls, executed);
    } finally {
      this.#release(executed);
    }
    return true;
  }

  async #execute(calls: readonly Call[], executed: Executed[] = []) {
    for (const call of calls) {
      const each = await this.options.toolbox.call(call, this.executed.length);
      const { durationMs: _, startedAt: __, ...shown } = each;
      executed.push(each);
      this.executed.push(shown);
      const content = each.error === null ? (each.output ?? "") : `Error: ${each.error}`;
      this.#messages.push({ role: "tool", tool_call_id: call.id, name: call.name, content });
    }
  }

  /** The trace of the turn is stored with the calls that followed it. */
  #release(executed: readonly Executed[]) {
    const { ctx } = this;
    void this.#trace.promise.then((trace) =>
      traces.record(ctx, { ...trace, spans: [...trace.spans, ...executed.map((each) => spanOf(each, trace))] }),
    );
  }

  #count(usage: Usage) {
    const before = this.#usage;
    this.#usage = before
      ? {
          ...usage,
          prompt_tokens: before.prompt_tokens + usage.prompt_tokens,
          completion_tokens: before.completion_tokens + usage.completion_tokens,
          total_tokens: before.total_tokens + usage.total_tokens,
        }
      : usage;
  }

  get usage(): Usage | undefined {
    return this.#usage;
  }

  final(completion: ChatCompletion): ChatCompletion {
    if (this.executed.length === 0) return completion;
    const choices = completion.choices.map((choice) => ({
      ...choice,
      message: { ...choice.message, executed_tools: this.executed },
    }));
    return { ...completion, choices, usage: this.#usage ?? completion.usage };
  }
}

const callsOf = (message: Message | undefined): Call[] =>
  (message?.tool_calls ?? []).flatMap((call) =>
    call.type === "custom" ? { id: call.id, name: call.custom.name, arguments: "" } : { id: call.id, ...call.function },
  );

const spanOf = ({ name, server_label, error, startedAt, durationMs }: Executed, trace: NewTrace): Span => ({
  name: "tool_call",
  start_ms: Math.max(0, startedAt - trace.startedAt),
  duration_ms: Math.round(durationMs * 1000) / 1000,
  attributes: { tool: name, server: server_label, failed: error !== null },
});
