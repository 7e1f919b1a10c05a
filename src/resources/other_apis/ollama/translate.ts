/** Requests of Ollama as requests of this server. Pure. */
import type { z } from "zod";
import type { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import type { CompletionRequest } from "../../../lib/chat/completion.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Message, OllamaChat, OllamaGenerate, Options } from "./schema.ts";

type ChatFields = z.input<typeof ChatCompletionRequest>;
type ChatMessages = ChatFields["messages"];
type TextFields = z.input<typeof CompletionRequest>;

/** Images come before the text, as in the prompts that Ollama makes. */
function withImages(content: string, images: readonly string[] | null | undefined) {
  if (!images?.length) return content;
  const parts = images.map((data) => ({ type: "image_url" as const, image_url: { url: `data:;base64,${data}` } }));
  return [...parts, { type: "text" as const, text: content }];
}

/** Calls of Ollama may have no id. A result answers the oldest open call of its function, else the oldest open call. */
export function toMessages(messages: readonly Message[]): ChatMessages {
  let idCount = 0;
  let open: { id: string; name: string }[] = [];
  return messages.map(({ role, content, images, thinking, tool_calls: calls, tool_name: name, tool_call_id: id }) => {
    if (role === "tool") {
      const answered = open.find((call) => call.id === id) ?? open.find((call) => call.name === name) ?? open[0];
      open = open.filter((call) => call !== answered);
      return { role, content, tool_call_id: id ?? answered?.id ?? "call_0", ...(name ? { name } : {}) };
    }
    if (role === "user") return { role, content: withImages(content, images) };
    if (role !== "assistant") return { role, content };
    const named = (calls ?? []).map((call) => ({
      id: call.id ?? `call_${idCount++}`,
      type: "function" as const,
      function: { name: call.function.name, arguments: JSON.stringify(call.function.arguments) },
    }));
    open = named.map((call) => ({ id: call.id, name: call.function.name }));
    return {
      role,
      content,
      ...(thinking ? { reasoning_content: thinking } : {}),
      ...(named.length > 0 ? { tool_calls: named } : {}),
    };
  });
}

export function samplingOf(options: Options) {
  const { num_predict: limit, temperature, top_k, top_p, min_p, seed, stop } = options ?? {};
  const { presence_penalty, frequency_penalty } = options ?? {};
  const sampling = { temperature, top_k, top_p, min_p, seed, stop, presence_penalty, frequency_penalty };
  return { ...sampling, max_tokens: typeof limit === "number" ? Math.max(-1, limit) : undefined };
}

type Format = OllamaChat["format"];

function formatOf(format: Format): Pick<ChatFields, "response_format"> {
  if (!format) return {};
  if (format === "json") return { response_format: { type: "json_object" } };
  return { response_format: { type: "json_schema", json_schema: { schema: format } } };
}

function thinkingOf(think: OllamaChat["think"]): Pick<ChatFields, "reasoning_effort" | "chat_template_kwargs"> {
  if (think === null || think === undefined) return {};
  if (typeof think === "string") return { reasoning_effort: think };
  return { chat_template_kwargs: { enable_thinking: think } };
}

const streamFields = (stream: boolean) => ({ stream, ...(stream ? { stream_options: { include_usage: true } } : {}) });

type Shared = Pick<OllamaChat, "model" | "stream" | "format" | "options" | "think" | "logprobs" | "top_logprobs">;
const sharedFields = ({ model, stream, format, options, think, logprobs, top_logprobs }: Shared) => ({
  model,
  ...(logprobs ? { logprobs, top_logprobs: top_logprobs ?? 0 } : {}),
  ...samplingOf(options),
  ...streamFields(stream),
  ...formatOf(format),
  ...thinkingOf(think),
});

export const fromChat = (request: OllamaChat): ChatFields => ({
  ...sharedFields(request),
  messages: toMessages(request.messages),
  tools: request.tools,
});

export function fromGenerate(request: OllamaGenerate): ChatFields {
  const { system, prompt, images } = request;
  const before = system ? [{ role: "system" as const, content: system }] : [];
  return { ...sharedFields(request), messages: [...before, { role: "user", content: withImages(prompt, images) }] };
}

/**
 * Without the template of the model. The default of Ollama is the rest of the context. `tokens`: an earlier conversation
 * and the prompt, in place of the prompt.
 */
export function fromRaw(
  { model, prompt, suffix, options, format, stream, images, logprobs, top_logprobs }: OllamaGenerate,
  tokens?: number[],
): TextFields {
  if (images?.length)
    throw new AppError("schema", "images: cannot be combined with raw, suffix or context. Remove one of them", {
      param: "/images",
    });
  const { max_tokens = -1, ...sampling } = samplingOf(options);
  const schema = format ? { json_schema: format === "json" ? { type: "object" } : format } : {};
  return {
    model,
    prompt: tokens ?? prompt,
    ...(suffix ? { suffix } : {}),
    ...sampling,
    max_tokens,
    ...schema,
    ...(logprobs ? { logprobs: top_logprobs ?? 0 } : {}),
    ...streamFields(stream),
  };
}
