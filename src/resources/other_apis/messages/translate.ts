/** Messages of Anthropic's format as chat requests, and chat answers as messages. Pure. */
import type { z } from "zod";
import type { ChatCompletion, ChatCompletionRequest, FinishReason } from "../../../lib/chat/chat_completion.ts";
import type { Usage } from "../../../lib/chat/sampling.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import type { Block, Content, CountTokensRequest, Message, MessageParam, MessagesRequest } from "./schema.ts";

type ChatFields = z.input<typeof ChatCompletionRequest>;
type ChatMessages = ChatFields["messages"];

const textOf = (content: string | readonly { type: string; text?: string }[]): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");

type UserContent = Extract<ChatMessages[number], { role: "user" }>["content"];
type Part = Exclude<UserContent, string>[number];

/** Texts and images in their order; one text if there is no image. */
function partsOf(content: readonly Block[]): UserContent {
  const parts = content.flatMap((block): Part[] => {
    if (block.type === "text") return [{ type: "text", text: block.text }];
    if (block.type !== "image") return [];
    const { source } = block;
    const url = source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`;
    return [{ type: "image_url", image_url: { url } }];
  });
  return parts.some(({ type }) => type === "image_url") ? parts : textOf(parts);
}

/** Results of tools come before the words of the user: they answer the calls of the turn before. */
function turnsOf({ role, content }: MessageParam): ChatMessages {
  if (typeof content === "string") return [{ role, content }];
  const of = <T extends Block["type"]>(type: T) =>
    content.filter((block): block is Extract<Block, { type: T }> => block.type === type);
  const text = textOf(of("text"));
  if (role === "assistant") {
    const calls = of("tool_use").map(({ id, name, input }) => ({
      id,
      type: "function" as const,
      function: { name, arguments: JSON.stringify(input) },
    }));
    const thoughts = of("thinking")
      .map(({ thinking }) => thinking)
      .join("\n");
    return [
      {
        role,
        content: text,
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
        ...(thoughts === "" ? {} : { reasoning_content: thoughts }),
      },
    ];
  }
  const results = of("tool_result").map(({ tool_use_id: id, content: result, is_error: failed }) => ({
    role: "tool" as const,
    tool_call_id: id,
    content: `${failed ? "Error: " : ""}${textOf(result ?? "")}`,
  }));
  if (role === "system") return [{ role, content: text }];
  const said = partsOf(content);
  return said === "" && results.length > 0 ? results : [...results, { role, content: said }];
}

function choiceOf({
  tool_choice: choice,
}: CountTokensRequest): Pick<ChatFields, "tool_choice" | "parallel_tool_calls"> {
  if (!choice) return {};
  const parallel = choice.disable_parallel_tool_use ? { parallel_tool_calls: false } : {};
  if (choice.type === "tool")
    return { ...parallel, tool_choice: { type: "function", function: { name: choice.name ?? "" } } };
  return { ...parallel, tool_choice: choice.type === "any" ? "required" : choice.type };
}

/** The part of a request that decides its prompt. */
export function promptFields(request: CountTokensRequest): ChatFields {
  const { model, system, messages, tools, thinking } = request;
  const instructions = system ? [{ role: "system" as const, content: textOf(system) }] : [];
  return {
    model,
    messages: [...instructions, ...messages.flatMap(turnsOf)],
    tools: tools.map(({ name, description, input_schema: parameters }) => ({
      type: "function" as const,
      function: { name, description, parameters },
    })),
    ...choiceOf(request),
    ...(thinking ? { chat_template_kwargs: { enable_thinking: thinking.type !== "disabled" } } : {}),
  };
}

export function toChat(request: MessagesRequest): ChatFields {
  const { max_tokens, stop_sequences: stop, stream, temperature, top_p, top_k, metadata } = request;
  return {
    ...promptFields(request),
    max_tokens,
    stop,
    stream,
    temperature,
    top_p,
    top_k,
    metadata,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  };
}

export const stopReason = (reason: FinishReason): NonNullable<Message["stop_reason"]> =>
  reason === "length" ? "max_tokens" : reason === "stop" ? "end_turn" : "tool_use";

export const usageOf = ({
  prompt_tokens: input,
  completion_tokens: output,
  prompt_tokens_details: details,
}: Usage) => ({
  input_tokens: input,
  output_tokens: output,
  cache_read_input_tokens: details?.cached_tokens ?? 0,
});

export const idOf = (id: string) => `msg_${id.replace(/^chatcmpl-/, "")}`;

/** Arguments that a model cut off are no object. The call keeps its name. */
function inputOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

export function toMessage({ id, model, choices, usage }: ChatCompletion): Message {
  const choice = choices[0];
  const { content, reasoning_content: thoughts, tool_calls: calls = [] } = choice?.message ?? { content: "" };
  const blocks: Content[] = [];
  if (thoughts) blocks.push({ type: "thinking", thinking: thoughts, signature: "" });
  if (content) blocks.push({ type: "text", text: content });
  for (const call of calls.filter(isFunctionCall))
    blocks.push({ type: "tool_use", id: call.id, name: call.function.name, input: inputOf(call.function.arguments) });
  return {
    id: idOf(id),
    type: "message",
    role: "assistant",
    model,
    content: blocks,
    stop_reason: choice ? stopReason(choice.finish_reason) : null,
    stop_sequence: null,
    usage: usageOf(usage),
  };
}
