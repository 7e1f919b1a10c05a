/** POST /chat/completions: request and response. */
import { z } from "zod";
import { later } from "../schema.ts";
import { checkConstraints, checkEnd, checkTools } from "./chat_checks.ts";
import {
  CustomCall,
  LegacyChoice,
  LegacyFunction,
  orElse,
  PromptMessage,
  ResponseFormat,
  ToolCall,
} from "./messages.ts";
import {
  checkSampling,
  Fingerprint,
  MAX_ALTERNATIVES,
  MaxTokens,
  PromptTokenIds,
  type Refuse,
  returnsTokenIds,
  samplingFields,
  Timings,
  TokenIds,
  Usage,
} from "./sampling.ts";
import { SentChoice, type SentTool, SentTools } from "./tools.ts";

const MAX_MESSAGES = 10_000;
const MAX_FUNCTIONS = 128;

export const ChatCompletionRequest = later(() =>
  z
    .object({
      ...samplingFields(),
      messages: z.array(PromptMessage.unwrap()).min(1).max(MAX_MESSAGES),
      max_tokens: MaxTokens,
      max_completion_tokens: MaxTokens.describe("Overrides max_tokens. Default: the rest of the context"),
      logprobs: orElse(z.boolean(), false),
      top_logprobs: z.int().min(0).max(MAX_ALTERNATIVES).nullish(),
      return_token_ids: returnsTokenIds(),
      response_format: z
        .union([ResponseFormat.unwrap(), z.null()])
        .optional()
        .transform((format) => format ?? { type: "text" as const }),
      tools: orElse(SentTools.unwrap(), [] as SentTool[]).describe(
        "Tools of other kinds are dropped, and named in the header warning",
      ),
      tool_choice: orElse(SentChoice.unwrap(), "auto" as SentChoice),
      parallel_tool_calls: orElse(z.boolean(), true),
      functions: z.array(LegacyFunction).max(MAX_FUNCTIONS).nullish().describe("The older form of tools"),
      function_call: LegacyChoice.nullish().describe("The older form of tool_choice"),
      reasoning_effort: z
        .enum(["none", "minimal", "low", "medium", "high", "xhigh"])
        .nullish()
        .describe("The server passes this to the model's chat template. none asks the model not to think"),
      reasoning_format: orElse(z.enum(["auto", "deepseek", "none"]), "auto" as const).describe(
        "none: thoughts stay in content. Otherwise they are in reasoning_content, if the template knows thoughts",
      ),
      store: z
        .boolean()
        .nullish()
        .describe("true: request and answer are stored, and GET /v1/chat/completions lists them"),
      continue_final_message: z
        .boolean()
        .nullish()
        .describe("true: the answer continues the last message. Default: true if that is the assistant's"),
      add_generation_prompt: z.boolean().nullish(),
      verbose: orElse(z.boolean(), false).describe("The answer has the rendered prompt in __verbose"),
      chat_template_kwargs: z
        .record(z.string(), z.unknown())
        .nullish()
        .describe("Additional variables for the model's chat template"),
    })
    .superRefine((request, issues) => {
      const refuse: Refuse = (path, message) => issues.addIssue({ code: "custom", path, message, input: request });
      checkSampling(request, refuse);
      checkTools(request, refuse);
      checkConstraints(request, refuse);
      checkEnd(request, refuse);
      if (request.top_logprobs && !request.logprobs) refuse(["top_logprobs"], "needs logprobs: true");
    })
    .meta({ id: "ChatCompletionRequest" }),
);
export type ChatCompletionRequest = z.infer<typeof ChatCompletionRequest>;

export const FINISH_REASONS = ["stop", "length", "tool_calls", "function_call"] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

const StopReason = z.string().optional().describe("The string of `stop` that ended the answer, as vLLM names it");

const Alternative = later(() =>
  z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()).nullable() }),
);
export const ChatLogprobs = later(() =>
  z
    .object({
      content: z.array(Alternative.unwrap().extend({ top_logprobs: z.array(Alternative) })).nullable(),
      refusal: z.null(),
    })
    .meta({ id: "ChatLogprobs" }),
);
export type ChatLogprobs = z.infer<typeof ChatLogprobs>;

const FunctionCall = later(() => z.object({ name: z.string(), arguments: z.string().describe("JSON text") }));

const head = () => ({
  id: z.string(),
  created: z.int().describe("Unix seconds"),
  model: z.string(),
  system_fingerprint: Fingerprint,
});

/** `type`, `arguments` and `output` as Groq names them, the others as in `mcp_call` of OpenAI's responses. */
const ExecutedTools = later(() =>
  z
    .array(
      z
        .object({
          index: z.int(),
          type: z.literal("mcp"),
          id: z.string().describe("The id of the model's call"),
          server_label: z.string(),
          name: z.string(),
          arguments: z.string().describe("JSON text"),
          output: z.string().nullable().describe("The text that the model read; null after an error"),
          error: z.string().nullable(),
        })
        .meta({ id: "ChatExecutedTool" }),
    )
    .describe("Calls of an agent's MCP servers, which this server has made"),
);

export const ChatCompletion = later(() =>
  z
    .object({
      ...head(),
      object: z.literal("chat.completion"),
      choices: z.array(
        z.object({
          index: z.int(),
          message: z.object({
            role: z.literal("assistant"),
            content: z.string().nullable(),
            refusal: z.null(),
            reasoning_content: z.string().optional().describe("The thoughts of the model, apart from its answer"),
            tool_calls: z.array(z.union([ToolCall, CustomCall])).optional(),
            function_call: FunctionCall.optional().describe("The call, if the request has functions"),
            executed_tools: ExecutedTools.unwrap().optional(),
          }),
          logprobs: ChatLogprobs.nullable(),
          finish_reason: z.enum(FINISH_REASONS),
          stop_reason: StopReason,
          token_ids: TokenIds.optional(),
        }),
      ),
      prompt_token_ids: PromptTokenIds.optional(),
      usage: Usage,
      timings: Timings.optional(),
      __verbose: z.object({ prompt: z.string() }).optional(),
    })
    .meta({ id: "ChatCompletion" }),
);
export type ChatCompletion = z.infer<typeof ChatCompletion>;

export const ToolCallDelta = later(() =>
  z
    .union([
      z.object({
        index: z.int(),
        id: z.string().optional(),
        type: z.literal("function").optional(),
        function: z.object({ name: z.string().optional(), arguments: z.string().optional() }),
      }),
      CustomCall.unwrap().extend({ index: z.int() }).describe("A call of a custom tool comes whole"),
    ])
    .meta({ id: "ChatToolCallDelta" }),
);
export type ToolCallDelta = z.infer<typeof ToolCallDelta>;

export const ChatCompletionChunk = later(() =>
  z
    .object({
      ...head(),
      object: z.literal("chat.completion.chunk"),
      choices: z.array(
        z.object({
          index: z.int(),
          delta: z.object({
            role: z.literal("assistant").optional(),
            content: z.string().nullable().optional(),
            reasoning_content: z.string().optional(),
            function_call: FunctionCall.unwrap().partial().optional(),
            tool_calls: z.array(ToolCallDelta).optional(),
            executed_tools: ExecutedTools.unwrap().optional(),
          }),
          logprobs: ChatLogprobs.nullable().optional(),
          finish_reason: z.enum(FINISH_REASONS).nullable(),
          stop_reason: StopReason,
          token_ids: TokenIds.optional(),
        }),
      ),
      prompt_token_ids: PromptTokenIds.optional(),
      usage: Usage.nullable().optional(),
      timings: Timings.optional(),
      prompt_progress: z
        .object({ total: z.int(), cache: z.int(), processed: z.int(), time_ms: z.number() })
        .optional()
        .describe("With return_progress: tokens of the prompt that have been read"),
    })
    .meta({ id: "ChatCompletionChunk" }),
);
export type ChatCompletionChunk = z.infer<typeof ChatCompletionChunk>;
