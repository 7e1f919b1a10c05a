/** /v1/responses: the newer format of OpenAI. */
import { z } from "zod";
import { JsonSchema, orElse } from "../../../lib/chat/messages.ts";
import { MAX_ALTERNATIVES, TraceMetadata } from "../../../lib/chat/sampling.ts";
import { isServed, otherKind } from "../../../lib/chat/tools.ts";
import { later } from "../../../lib/schema.ts";
import { InputItem, OutputItem, STATUSES } from "./items.ts";

const MAX_ITEMS = 10_000;
const MAX_TOOLS = 128;
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

const FunctionTool = later(() =>
  z.object({
    type: z.literal("function"),
    name: z.string(),
    description: z.string().nullish(),
    parameters: JsonSchema.nullish(),
    strict: z.boolean().nullish(),
  }),
);

const CustomTool = later(() =>
  z.object({
    type: z.literal("custom"),
    name: z.string(),
    description: z.string().nullish(),
    format: z
      .discriminatedUnion("type", [
        z.object({ type: z.literal("text") }),
        z.object({ type: z.literal("grammar"), syntax: z.enum(["lark", "regex"]), definition: z.string() }),
      ])
      .nullish()
      .describe("regex is obeyed; lark is shown to the model"),
  }),
);
const Tool = later(() => z.union([FunctionTool.unwrap(), CustomTool.unwrap()]));
export type Tool = z.output<typeof Tool>;

/** Kinds that this server does not run are dropped. The answer names them. */
const SentTools = later(() =>
  z
    .array(z.union([FunctionTool.unwrap(), CustomTool.unwrap(), otherKind()]))
    .max(MAX_TOOLS)
    .transform((tools) => tools.filter((tool) => isServed<Tool>(tool))),
);

const namedTool = () => z.object({ type: z.enum(["function", "custom"]), name: z.string() });
const ToolChoice = later(() =>
  z.union([
    z.enum(["none", "auto", "required"]),
    namedTool(),
    z.object({
      type: z.literal("allowed_tools"),
      mode: z.enum(["auto", "required"]),
      tools: z
        .array(z.union([namedTool(), otherKind()]))
        .max(MAX_TOOLS)
        .transform((tools) => tools.filter((tool) => isServed<z.output<ReturnType<typeof namedTool>>>(tool))),
    }),
  ]),
);
export type ToolChoice = z.output<typeof ToolChoice>;
/** A choice of a tool that was dropped is `auto`. */
const SentChoice = later(() =>
  z
    .union([...ToolChoice.unwrap().options, otherKind(["allowed_tools"]).transform(() => "auto" as const)])
    .transform((choice): ToolChoice => choice),
);

const TextFormat = later(() =>
  z.discriminatedUnion("type", [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({
      type: z.literal("json_schema"),
      name: z.string().max(64),
      description: z.string().nullish(),
      schema: JsonSchema,
      strict: z.boolean().nullish(),
    }),
  ]),
);
export type TextFormat = z.output<typeof TextFormat>;

const conversationRef = () =>
  z.object({
    id: z.string(),
    parent_id: z
      .string()
      .optional()
      .describe("The item that the context ends with, and that the new items follow. Default: the newest item"),
  });
export type ConversationRef = z.output<ReturnType<typeof conversationRef>>;

const prompt = () => ({
  model: z.string().min(1).optional().describe("The name of the deployment. Default: the only one that runs"),
  input: z.union([z.string(), z.array(InputItem.unwrap()).min(1).max(MAX_ITEMS)]),
  instructions: z.string().nullish().describe("The system message. It is not taken over from the previous response"),
  previous_response_id: z.string().nullish().describe("A stored response that this one continues"),
  conversation: z
    .union([z.string(), conversationRef()])
    .nullish()
    .transform((sent): ConversationRef | null => (typeof sent === "string" ? { id: sent } : (sent ?? null)))
    .describe("A conversation: its items come before those of input. Input and output are added to it at the end"),
  tools: orElse(SentTools, [] as Tool[]).describe("Tools of other kinds are dropped, and named in the header warning"),
  tool_choice: orElse(SentChoice, "auto" as ToolChoice),
  parallel_tool_calls: orElse(z.boolean(), true),
  text: z.object({ format: TextFormat.nullish() }).nullish(),
  reasoning: z
    .object({ effort: z.enum(EFFORTS).nullish() })
    .nullish()
    .describe("effort is passed to the model's chat template"),
});

const ONE_HISTORY = "cannot be combined with conversation: both say what came before";
type Histories = { previous_response_id?: string | null | undefined; conversation: ConversationRef | null };
const hasTwoHistories = ({ previous_response_id, conversation }: Histories) =>
  Boolean(previous_response_id) && conversation !== null;

export const CountInput = later(() =>
  z
    .object(prompt())
    .refine((request) => !hasTwoHistories(request), { path: ["previous_response_id"], message: ONE_HISTORY })
    .meta({ id: "ResponseInputTokensRequest" }),
);
export type PromptFields = z.output<typeof CountInput>;

export const ResponsesRequest = later(() =>
  z
    .object({
      ...prompt(),
      store: orElse(z.boolean(), true).describe("true: the response is kept for responses.retention_days"),
      stream: orElse(z.boolean(), false),
      background: orElse(z.boolean(), false).describe(
        "true: the answer comes at once, and the work goes on. Needs store",
      ),
      max_output_tokens: z.int().min(1).nullish().describe("Default: the rest of the context"),
      temperature: z.number().min(0).max(2).nullish(),
      top_p: z.number().min(0).max(1).nullish(),
      top_logprobs: z.int().min(0).max(MAX_ALTERNATIVES).nullish(),
      metadata: TraceMetadata,
    })
    .superRefine((request, issues) => {
      const { background, store, top_logprobs } = request;
      const refuse = (field: string, message: string) =>
        issues.addIssue({ code: "custom", path: [field], message, input: background });
      if (hasTwoHistories(request)) refuse("previous_response_id", ONE_HISTORY);
      if (background && !store) refuse("store", "must be true with background: the result is read from the store");
      if (background && typeof top_logprobs === "number") refuse("top_logprobs", "cannot be combined with background");
    })
    .meta({ id: "ResponsesRequest" }),
);
export type ResponsesRequest = z.output<typeof ResponsesRequest>;

const Usage = later(() =>
  z.object({
    input_tokens: z.int(),
    input_tokens_details: z.object({ cached_tokens: z.int() }),
    output_tokens: z.int(),
    output_tokens_details: z.object({ reasoning_tokens: z.int().describe("Tokens of thoughts. 0 with background") }),
    total_tokens: z.int(),
  }),
);

export const ModelResponse = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("response"),
      created_at: z.int().describe("Unix seconds"),
      status: z.enum(STATUSES),
      background: z.boolean(),
      error: z.object({ code: z.string(), message: z.string() }).nullable(),
      incomplete_details: z.object({ reason: z.literal("max_output_tokens") }).nullable(),
      instructions: z.string().nullable(),
      max_output_tokens: z.int().nullable(),
      model: z.string(),
      output: z.array(OutputItem),
      parallel_tool_calls: z.boolean(),
      previous_response_id: z.string().nullable(),
      conversation: conversationRef().nullable(),
      reasoning: z.object({ effort: z.enum(EFFORTS).nullable(), summary: z.null() }),
      store: z.boolean(),
      temperature: z.number().nullable(),
      text: z.object({ format: TextFormat }),
      tool_choice: ToolChoice,
      tools: z.array(Tool),
      top_p: z.number().nullable(),
      truncation: z.literal("disabled"),
      usage: Usage.nullable(),
      metadata: z.record(z.string(), z.unknown()),
    })
    .meta({ id: "ModelResponse" }),
);
export type ModelResponse = z.infer<typeof ModelResponse>;

export const CompactRequest = later(() =>
  z
    .object({
      model: z
        .string()
        .min(1)
        .optional()
        .describe("The deployment that writes the summary. Default: the only one that runs"),
      input: prompt().input.nullish(),
      instructions: z.string().nullish(),
      previous_response_id: z.string().nullish().describe("A stored response whose conversation is compacted too"),
    })
    .meta({ id: "CompactResponseRequest" }),
);

export const CompactedResponse = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("response.compaction"),
      created_at: z.int().describe("Unix seconds"),
      output: z
        .array(z.record(z.string(), z.unknown()))
        .describe("The input of the next request: one item of the type compaction, which only this server can read"),
      usage: Usage,
    })
    .meta({ id: "CompactedResponse" }),
);

export const InputItemList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(z.record(z.string(), z.unknown())),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    })
    .meta({ id: "ResponseInputItemList" }),
);

export const CountedInput = later(() =>
  z.object({ object: z.literal("response.input_tokens"), input_tokens: z.int() }).meta({ id: "ResponseInputTokens" }),
);
