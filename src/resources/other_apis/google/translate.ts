/** Requests of Google's format as chat requests, and chat answers as Google writes them. Pure. */
import { z } from "zod";
import type { ChatCompletion, ChatCompletionRequest, FinishReason } from "../../../lib/chat/chat_completion.ts";
import type { Usage } from "../../../lib/chat/sampling.ts";
import { isFunctionCall } from "../../../lib/chat/tools.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Model } from "../../serving/models/schema.ts";
import type { Message } from "../ollama/schema.ts";
import { toMessages } from "../ollama/translate.ts";
import { toJsonSchema } from "./json_schema.ts";
import type { AnswerPart, Content, GenerateContentAnswer, GenerateContentRequest, Part } from "./schema.ts";

type ChatFields = z.input<typeof ChatCompletionRequest>;
const Texts = z.array(z.string());

type Fields = Omit<ChatFields, "messages" | "model">;

const said = (parts: readonly Part[]) => parts.map(({ text }) => text ?? "").join("");

export const textOf = ({ parts }: Content): string => said(parts);

/** Results of functions come before the words of the user: they answer the calls of the turn before. */
function messagesOf({ role, parts }: Content): Message[] {
  const words = parts.filter(({ thought }) => !thought);
  const images = parts.flatMap(({ inlineData }) => inlineData?.data ?? []);
  const calls = parts.flatMap(({ functionCall: call }) =>
    call ? [{ id: call.id, function: { name: call.name, arguments: call.args ?? {} } }] : [],
  );
  if (role === "model") {
    const thinking = said(parts.filter(({ thought }) => thought));
    return [{ role: "assistant", content: said(words), thinking, tool_calls: calls }];
  }
  const results = parts.flatMap(({ functionResponse: result }): Message[] => {
    if (!result) return [];
    const { id, name, response } = result;
    return [{ role: "tool", content: JSON.stringify(response), tool_name: name, tool_call_id: id }];
  });
  const content = said(words);
  const isEmpty = content === "" && images.length === 0 && results.length > 0;
  return isEmpty ? results : [...results, { role: role === "system" ? role : "user", content, images }];
}

/** A client that streams keeps one content for each piece of an answer. They are one message. */
function joined(contents: readonly Content[]): Content[] {
  const list: Content[] = [];
  for (const content of contents) {
    const last = list.at(-1);
    if (last?.role === "model" && content.role === "model") last.parts = [...last.parts, ...content.parts];
    else list.push({ ...content });
  }
  return list;
}

function toolsOf({ tools, toolConfig }: GenerateContentRequest): Pick<Fields, "tools" | "tool_choice"> {
  const all = tools.flatMap(({ functionDeclarations }) => functionDeclarations ?? []);
  const { mode, allowedFunctionNames: names } = toolConfig?.functionCallingConfig ?? {};
  const shown = names?.length ? all.filter(({ name }) => names.includes(name)) : all;
  const missing = names?.find((name) => !all.some((each) => each.name === name));
  if (missing !== undefined)
    throw new AppError(
      "schema",
      `toolConfig.functionCallingConfig.allowedFunctionNames: ${missing} is not among the functions`,
      {
        param: "/toolConfig/functionCallingConfig/allowedFunctionNames",
      },
    );
  return {
    tools: shown.map(({ name, description, parameters, parametersJsonSchema }) => ({
      type: "function" as const,
      function: {
        name,
        description,
        parameters: parametersJsonSchema ?? (parameters ? toJsonSchema(parameters) : null),
      },
    })),
    ...(mode === "ANY"
      ? { tool_choice: "required" as const }
      : mode === "NONE"
        ? { tool_choice: "none" as const }
        : {}),
  };
}

function choicesOf(schema: Record<string, unknown> | undefined): string[] {
  const texts = Texts.safeParse(schema?.["enum"]);
  if (texts.success) return texts.data;
  const message =
    "generationConfig.responseSchema: text/x.enum needs a schema with enum: send the texts to choose from";
  throw new AppError("schema", message, { param: "/generationConfig/responseSchema" });
}

type Config = NonNullable<GenerateContentRequest["generationConfig"]>;

function formatOf({ responseMimeType: type, responseSchema, responseJsonSchema }: Config): Partial<Fields> {
  const schema = responseJsonSchema ?? (responseSchema ? toJsonSchema(responseSchema) : undefined);
  if (type === "text/x.enum") return { structured_outputs: { choice: choicesOf(schema) } };
  if (schema) return { response_format: { type: "json_schema", json_schema: { schema } } };
  return type === "application/json" ? { response_format: { type: "json_object" } } : {};
}

const EFFORTS = ["minimal", "low", "medium", "high"] as const;

/** For the chat template. */
function thinkingOf({ thinkingConfig: thinking }: Config): Partial<Fields> {
  const level = thinking?.thinkingLevel?.toLowerCase();
  const effort = EFFORTS.find((each) => each === level);
  return {
    ...(thinking?.thinkingBudget === 0 ? { chat_template_kwargs: { enable_thinking: false } } : {}),
    ...(effort ? { reasoning_effort: effort } : {}),
  };
}

type Asking = { model: string; stream?: boolean };

export function toChat(request: GenerateContentRequest, { model, stream = false }: Asking): ChatFields {
  const { contents, systemInstruction, generationConfig } = request;
  const config = generationConfig ?? {};
  const instructions = systemInstruction ? [{ role: "system" as const, content: textOf(systemInstruction) }] : [];
  return {
    model,
    messages: [...instructions, ...toMessages(joined(contents).flatMap(messagesOf))],
    ...toolsOf(request),
    ...formatOf(config),
    ...thinkingOf(config),
    temperature: config.temperature,
    top_p: config.topP,
    top_k: config.topK,
    seed: config.seed,
    n: config.candidateCount,
    max_tokens: config.maxOutputTokens,
    stop: config.stopSequences,
    presence_penalty: config.presencePenalty,
    frequency_penalty: config.frequencyPenalty,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  };
}

export const endOf = (reason: FinishReason) => (reason === "length" ? ("MAX_TOKENS" as const) : ("STOP" as const));

export function usageOf({ prompt_tokens: prompt, completion_tokens: output, total_tokens, ...details }: Usage) {
  const thoughts = details.completion_tokens_details?.reasoning_tokens ?? 0;
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: output - thoughts,
    thoughtsTokenCount: thoughts,
    cachedContentTokenCount: details.prompt_tokens_details?.cached_tokens ?? 0,
    totalTokenCount: total_tokens,
  };
}

type Call = { id: string; name: string; text: string };

/** Arguments that a model cut off are no object. The call keeps its name. */
function argumentsOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

export const callPart = ({ id, name, text }: Call): AnswerPart => ({
  functionCall: { id, name, args: argumentsOf(text) },
});

/** `thoughts`: the answer has them as parts. */
export const toAnswer =
  (thoughts: boolean) =>
  ({ id, model, choices, usage }: ChatCompletion): GenerateContentAnswer => ({
    candidates: choices.map(({ index, message, finish_reason }) => {
      const { content, reasoning_content: thought, tool_calls: calls = [] } = message;
      const parts: AnswerPart[] = [
        ...(thoughts && thought ? [{ text: thought, thought: true as const }] : []),
        ...(content ? [{ text: content }] : []),
        ...calls
          .filter(isFunctionCall)
          .map((call) => callPart({ id: call.id, name: call.function.name, text: call.function.arguments })),
      ];
      return { content: { role: "model" as const, parts }, finishReason: endOf(finish_reason), index };
    }),
    usageMetadata: usageOf(usage),
    modelVersion: model,
    responseId: id,
  });

export const toModel = ({ id, name, context_length, has_chat_template }: Model) => ({
  name: `models/${id}`,
  version: "1",
  displayName: id,
  description: name,
  inputTokenLimit: context_length ?? 0,
  outputTokenLimit: context_length ?? 0,
  supportedGenerationMethods: [...(has_chat_template ? ["generateContent", "countTokens"] : []), "embedContent"],
});
