/** POST /chat/completions: request and response. */
import { z } from "zod";
import { later } from "../schema.ts";
import { ChatMessage, orElse, ResponseFormat, Tool, ToolCall, ToolChoice } from "./messages.ts";
import { Fingerprint, samplingFields, Usage } from "./sampling.ts";

const MAX_MESSAGES = 10_000;
const MAX_TOOLS = 128;

export const ChatCompletionRequest = z
  .object({
    ...samplingFields,
    messages: z.array(ChatMessage).min(1).max(MAX_MESSAGES),
    max_tokens: z.int().min(1).nullish(),
    max_completion_tokens: z.int().min(1).nullish().describe("Overrides max_tokens. Default: the rest of the context"),
    logprobs: orElse(z.boolean(), false),
    top_logprobs: z.int().min(0).max(20).nullish(),
    response_format: z
      .union([ResponseFormat, z.null()])
      .optional()
      .transform((format) => format ?? { type: "text" as const }),
    tools: orElse(z.array(Tool).max(MAX_TOOLS), [] as Tool[]),
    tool_choice: orElse(ToolChoice, "auto" as ToolChoice),
    parallel_tool_calls: orElse(z.boolean(), true),
    chat_template_kwargs: z
      .record(z.string(), z.unknown())
      .nullish()
      .describe("Additional variables for the model's chat template"),
  })
  .superRefine((request, issues) => {
    const refuse = (path: string[], message: string) =>
      issues.addIssue({ code: "custom", path, message, input: request });
    const { tool_choice: choice, tools } = request;
    if (choice === "required" && tools.length === 0)
      refuse(["tool_choice"], "`required` needs at least one tool. Add one to tools");
    if (typeof choice === "object" && !tools.some((tool) => tool.function.name === choice.function.name))
      refuse(["tool_choice", "function", "name"], `${choice.function.name} is not among the tools`);
    const names = tools.map((tool) => tool.function.name);
    const twice = names.findIndex((name, i) => names.indexOf(name) !== i);
    if (twice >= 0)
      refuse(["tools", String(twice), "function", "name"], "another tool has the same name. Rename one of them");
    if (request.top_logprobs && !request.logprobs) refuse(["top_logprobs"], "needs logprobs: true");
  })
  .meta({ id: "ChatCompletionRequest" });
export type ChatCompletionRequest = z.infer<typeof ChatCompletionRequest>;

export const FINISH_REASONS = ["stop", "length", "tool_calls"] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

const Alternative = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()).nullable() });
export const ChatLogprobs = later(() =>
  z
    .object({
      content: z.array(Alternative.extend({ top_logprobs: z.array(Alternative) })).nullable(),
      refusal: z.null(),
    })
    .meta({ id: "ChatLogprobs" }),
);
export type ChatLogprobs = z.infer<typeof ChatLogprobs>;

const head = {
  id: z.string(),
  created: z.int().describe("Unix seconds"),
  model: z.string(),
  system_fingerprint: Fingerprint,
};

export const ChatCompletion = later(() =>
  z
    .object({
      ...head,
      object: z.literal("chat.completion"),
      choices: z.array(
        z.object({
          index: z.int(),
          message: z.object({
            role: z.literal("assistant"),
            content: z.string().nullable(),
            refusal: z.null(),
            tool_calls: z.array(ToolCall).optional(),
          }),
          logprobs: ChatLogprobs.nullable(),
          finish_reason: z.enum(FINISH_REASONS),
        }),
      ),
      usage: Usage,
    })
    .meta({ id: "ChatCompletion" }),
);
export type ChatCompletion = z.infer<typeof ChatCompletion>;

export const ToolCallDelta = z
  .object({
    index: z.int(),
    id: z.string().optional(),
    type: z.literal("function").optional(),
    function: z.object({ name: z.string().optional(), arguments: z.string().optional() }),
  })
  .meta({ id: "ChatToolCallDelta" });
export type ToolCallDelta = z.infer<typeof ToolCallDelta>;

export const ChatCompletionChunk = z
  .object({
    ...head,
    object: z.literal("chat.completion.chunk"),
    choices: z.array(
      z.object({
        index: z.int(),
        delta: z.object({
          role: z.literal("assistant").optional(),
          content: z.string().nullable().optional(),
          tool_calls: z.array(ToolCallDelta).optional(),
        }),
        logprobs: ChatLogprobs.nullable().optional(),
        finish_reason: z.enum(FINISH_REASONS).nullable(),
      }),
    ),
    usage: Usage.nullable().optional(),
  })
  .meta({ id: "ChatCompletionChunk" });
export type ChatCompletionChunk = z.infer<typeof ChatCompletionChunk>;
