/** Messages of Anthropic's format as chat requests, and chat answers as messages. Pure. */
import type { z } from "zod";
import type { ChatCompletion, ChatCompletionRequest, FinishReason } from "../../../lib/chat/chat_completion.ts";
import type { Usage } from "../../../lib/chat/sampling.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import type {
  Block,
  Content,
  CountTokensRequest,
  DocumentBlock,
  Message,
  MessageParam,
  MessagesRequest,
  MessageUsage,
} from "./schema.ts";

type ChatFields = z.input<typeof ChatCompletionRequest>;
type ChatMessages = ChatFields["messages"];

const textOf = (content: string | readonly Shown[]): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");

type UserContent = Extract<ChatMessages[number], { role: "user" }>["content"];
type Part = Exclude<UserContent, string>[number];

type Shown = { type: string; text?: string };

/** A document as texts and images: its title, what it is about, its content. */
function partsOfDocument({ source, title, context }: DocumentBlock): Part[] {
  const before = [title, context].filter((text) => text).map((text) => `${text}\n\n`);
  const content = source.type === "content" ? source.content : source.type === "text" ? source.data : "";
  const blocks = typeof content === "string" ? [{ type: "text" as const, text: content }] : content;
  return [
    ...before.map((text) => ({ type: "text" as const, text })),
    ...blocks.flatMap(partsOfBlock),
    { type: "text", text: "\n\n" }, // the next block does not go on with the last line of the document
  ];
}

function partsOfBlock(block: Block): Part[] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  if (block.type === "document") return partsOfDocument(block);
  if (block.type !== "image" || block.source.type === "file") return [];
  const { source } = block;
  const url = source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`;
  return [{ type: "image_url", image_url: { url } }];
}

const isImage = ({ type }: Shown) => type === "image_url";

/** Texts and images in their order; one text if there is no image. */
const contentOf = (parts: Part[]): UserContent => (parts.some(isImage) ? parts : textOf(parts));

/** Only messages of the user have images: those of a tool's result follow it there. */
function partsOfResult(content: string | readonly Block[] | null | undefined): { text: string; images: Part[] } {
  if (typeof content === "string") return { text: content, images: [] };
  const parts = (content ?? []).flatMap(partsOfBlock);
  return { text: textOf(parts.filter((part) => !isImage(part))), images: parts.filter(isImage) };
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
  if (role === "system") return [{ role, content: text }];
  const images: Part[] = [];
  const results = of("tool_result").map(({ tool_use_id: id, content: result, is_error: failed }) => {
    const shown = partsOfResult(result);
    images.push(...shown.images);
    return { role: "tool" as const, tool_call_id: id, content: `${failed ? "Error: " : ""}${shown.text}` };
  });
  const said = contentOf([...images, ...content.flatMap(partsOfBlock)]);
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

/** Variables of the chat template. */
function variablesOf({
  thinking,
  output_config: output,
}: CountTokensRequest): Pick<ChatFields, "chat_template_kwargs"> {
  const variables = {
    ...(thinking ? { enable_thinking: thinking.type !== "disabled" } : {}),
    ...(output?.effort ? { reasoning_effort: output.effort } : {}),
  };
  return Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables };
}

function formatOf({
  output_config: output,
  output_format: older,
}: CountTokensRequest): Pick<ChatFields, "response_format"> {
  const format = output?.format ?? older;
  return format ? { response_format: { type: "json_schema", json_schema: { schema: format.schema } } } : {};
}

/** The part of a request that decides its prompt. */
export function promptFields(request: CountTokensRequest): ChatFields {
  const { model, system, messages, tools } = request;
  const instructions = system ? [{ role: "system" as const, content: textOf(system) }] : [];
  return {
    model,
    messages: [...instructions, ...messages.flatMap(turnsOf)],
    tools: tools.map(({ name, description, input_schema: parameters }) => ({
      type: "function" as const,
      function: { name, description, parameters },
    })),
    ...choiceOf(request),
    ...formatOf(request),
    ...variablesOf(request),
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
    // The progress says how many tokens the prompt has, before the first token: `message_start` has the number.
    ...(stream ? { stream_options: { include_usage: true }, return_progress: true } : {}),
  };
}

type Ended = Pick<Message, "stop_reason" | "stop_sequence">;

/** `stop`: the string of `stop_sequences` that ended the message. */
export function endOf(reason: FinishReason, stop: string | undefined): Ended {
  if (stop !== undefined && reason === "stop") return { stop_reason: "stop_sequence", stop_sequence: stop };
  const stop_reason = reason === "length" ? "max_tokens" : reason === "stop" ? "end_turn" : "tool_use";
  return { stop_reason, stop_sequence: null };
}

/** Tokens of the prompt are counted once: in the cache, or not. */
export const countTokens = (prompt: number, cached: number, output: number): MessageUsage => ({
  input_tokens: prompt - cached,
  output_tokens: output,
  cache_read_input_tokens: cached,
  cache_creation_input_tokens: 0,
});

export const usageOf = ({ prompt_tokens: prompt, completion_tokens: output, prompt_tokens_details: details }: Usage) =>
  countTokens(prompt, details?.cached_tokens ?? 0, output);

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
    ...(choice ? endOf(choice.finish_reason, choice.stop_reason) : { stop_reason: null, stop_sequence: null }),
    usage: usageOf(usage),
  };
}
