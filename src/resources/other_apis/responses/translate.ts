/** Requests for responses as chat requests, and chat answers as responses. Pure. */
import type { z } from "zod";
import type { ChatCompletion, ChatCompletionRequest, FinishReason } from "../../../lib/chat/chat_completion.ts";
import type { Usage } from "../../../lib/chat/sampling.ts";
import type { Content, KnownItem, OutputItem } from "./items.ts";
import type { ModelResponse, PromptFields, ResponsesRequest, TextFormat, Tool, ToolChoice } from "./schema.ts";

type ChatFields = z.input<typeof ChatCompletionRequest>;
type ChatMessage = ChatFields["messages"][number];
type AssistantTurn = Extract<ChatMessage, { role: "assistant" }>;

const partText = (part: Exclude<Content, string>[number]): string =>
  part.type === "refusal" ? part.refusal : part.type === "input_image" ? "" : part.text;

const textOf = (content: Content): string => (typeof content === "string" ? content : content.map(partText).join(""));

type UserContent = Extract<ChatMessage, { role: "user" }>["content"];

/** Texts and images in their order; one text if there is no image. */
function saidIn(content: Content): UserContent {
  if (typeof content === "string" || !content.some(({ type }) => type === "input_image")) return textOf(content);
  return content.map((part) =>
    part.type === "input_image"
      ? { type: "image_url" as const, image_url: { url: part.image_url } }
      : { type: "text" as const, text: partText(part) },
  );
}

/** Thoughts, text and calls of one answer are items of their own here, and one message of a chat. */
export function toMessages(items: readonly KnownItem[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let open: AssistantTurn | undefined;
  const turn = (isTaken: (turn: AssistantTurn) => boolean): AssistantTurn => {
    if (!open || isTaken(open)) {
      open = { role: "assistant", content: "" };
      messages.push(open);
    }
    return open;
  };
  for (const item of items) {
    if (item.type === "reasoning") {
      const text = (item.content ?? []).map((part) => part.text).join("");
      if (text !== "")
        turn(({ content, tool_calls }) => content !== "" || Boolean(tool_calls)).reasoning_content = text;
    } else if (item.type === "function_call") {
      const call = { id: item.call_id, type: "function" as const };
      const calling = turn(() => false);
      const named = { ...call, function: { name: item.name, arguments: item.arguments } };
      calling.tool_calls = [...(calling.tool_calls ?? []), named];
    } else if (item.type === "custom_tool_call") {
      const calling = turn(() => false);
      const custom = { name: item.name, input: item.input };
      calling.tool_calls = [...(calling.tool_calls ?? []), { id: item.call_id, type: "custom", custom }];
    } else if (item.type === "function_call_output" || item.type === "custom_tool_call_output") {
      open = undefined;
      messages.push({ role: "tool", tool_call_id: item.call_id, content: textOf(item.output) });
    } else if (item.role === "assistant") {
      turn(({ content, tool_calls }) => content !== "" || Boolean(tool_calls)).content = textOf(item.content);
    } else {
      open = undefined;
      messages.push(
        item.role === "user"
          ? { role: "user", content: saidIn(item.content) }
          : { role: item.role, content: textOf(item.content) },
      );
    }
  }
  return messages;
}

function formatOf(format: TextFormat | null | undefined): Pick<ChatFields, "response_format"> {
  if (!format) return {};
  if (format.type !== "json_schema") return { response_format: format };
  const { type, ...json_schema } = format;
  return { response_format: { type, json_schema } };
}

function chatTool(tool: Tool): NonNullable<ChatFields["tools"]>[number] {
  if (tool.type === "function") {
    const { type, ...named } = tool;
    return { type, function: named };
  }
  const { type, format, ...named } = tool;
  if (format?.type !== "grammar") return { type, custom: { ...named, format } };
  const { type: kind, ...grammar } = format;
  return { type, custom: { ...named, format: { type: kind, grammar } } };
}

function chatChoice(choice: ToolChoice): ChatFields["tool_choice"] {
  if (typeof choice === "string") return choice;
  if (choice.type !== "allowed_tools") return namedChoice(choice);
  const { type, mode, tools } = choice;
  return { type, allowed_tools: { mode, tools: tools.map(namedChoice) } };
}

const namedChoice = ({ type, name }: { type: "function" | "custom"; name: string }) =>
  type === "custom" ? { type, custom: { name } } : { type, function: { name } };

/** The part of a request that decides its prompt. `items`: with those of the responses before. */
export function promptFields(request: PromptFields, items: readonly KnownItem[]): ChatFields {
  const { model, instructions, tools, tool_choice: choice, parallel_tool_calls, text, reasoning } = request;
  const system = instructions ? [{ role: "system" as const, content: instructions }] : [];
  return {
    model,
    messages: [...system, ...toMessages(items)],
    parallel_tool_calls,
    tools: tools.map(chatTool),
    tool_choice: chatChoice(choice),
    ...formatOf(text?.format),
    ...(reasoning?.effort ? { reasoning_effort: reasoning.effort } : {}),
  };
}

export function toChat(request: ResponsesRequest, items: readonly KnownItem[]): ChatFields {
  const { max_output_tokens, stream, temperature, top_p, top_logprobs, metadata } = request;
  return {
    ...promptFields(request, items),
    max_completion_tokens: max_output_tokens,
    stream,
    temperature,
    top_p,
    metadata,
    ...(typeof top_logprobs === "number" ? { logprobs: true, top_logprobs } : {}),
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  };
}

/** The fields of a response that its request decides. */
export type Head = { id: string; createdAt: number; model: string; request: ResponsesRequest };

/** A response before its first token. */
export function blankResponse({ id, createdAt, model, request }: Head, status: ModelResponse["status"]): ModelResponse {
  const { background, instructions = null, max_output_tokens = null, parallel_tool_calls, store } = request;
  const { temperature = null, tool_choice, tools, top_p = null, metadata, reasoning, text } = request;
  return {
    id,
    object: "response",
    created_at: Math.floor(createdAt / 1000),
    status,
    background,
    error: null,
    incomplete_details: null,
    instructions,
    max_output_tokens,
    model,
    output: [],
    parallel_tool_calls,
    previous_response_id: request.previous_response_id ?? null,
    conversation: request.conversation,
    reasoning: { effort: reasoning?.effort ?? null, summary: null },
    store,
    temperature,
    text: { format: text?.format ?? { type: "text" } },
    tool_choice,
    tools,
    top_p,
    truncation: "disabled",
    usage: null,
    metadata: metadata ?? {},
  };
}

export const usageOf = (usage: Usage): NonNullable<ModelResponse["usage"]> => ({
  input_tokens: usage.prompt_tokens,
  input_tokens_details: { cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0 },
  output_tokens: usage.completion_tokens,
  output_tokens_details: { reasoning_tokens: usage.completion_tokens_details?.reasoning_tokens ?? 0 },
  total_tokens: usage.total_tokens,
});

type ItemPrefix = "msg" | "fc" | "ctc" | "rs";
/** The id of an item holds the id of its response, so that a reference to the item finds both. */
export const itemId = (prefix: ItemPrefix, responseId: string, index: number) =>
  `${prefix}_${responseId.replace(/^resp_/, "")}_${index}`;
const ITEM_ID = /^(?:msg|fc|ctc|rs)_([0-9a-z]{26})_\d+$/;
export const responseOfItem = (id: string): string | undefined => {
  const [, ulid] = ITEM_ID.exec(id) ?? [];
  return ulid && `resp_${ulid}`;
};

export const endOf = (reason: FinishReason): Pick<ModelResponse, "status" | "incomplete_details"> =>
  reason === "length"
    ? { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }
    : { status: "completed", incomplete_details: null };

/** `blank`: the response before its first token. */
export function toResponse(
  blank: ModelResponse,
  { choices, usage }: Pick<ChatCompletion, "choices" | "usage">,
): ModelResponse {
  const choice = choices[0];
  const end = endOf(choice?.finish_reason ?? "stop");
  const status = end.status === "incomplete" ? "incomplete" : "completed";
  const { content, reasoning_content: thoughts, tool_calls: calls = [] } = choice?.message ?? { content: "" };
  const output: OutputItem[] = [];
  const idFor = (prefix: ItemPrefix) => itemId(prefix, blank.id, output.length);
  if (thoughts) {
    const parts = [{ type: "reasoning_text" as const, text: thoughts }];
    output.push({ type: "reasoning", id: idFor("rs"), status, summary: [], content: parts });
  }
  if (content) {
    const logprobs = choice?.logprobs?.content ?? [];
    const parts = [{ type: "output_text" as const, text: content, annotations: [], logprobs }];
    output.push({ type: "message", id: idFor("msg"), status, role: "assistant", content: parts });
  }
  for (const call of calls)
    output.push(
      call.type === "custom"
        ? { type: "custom_tool_call", id: idFor("ctc"), status, call_id: call.id, ...call.custom }
        : { type: "function_call", id: idFor("fc"), status, call_id: call.id, ...call.function },
    );
  return { ...blank, ...end, output, usage: usageOf(usage) };
}
