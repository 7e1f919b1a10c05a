/** POST /v1/messages: the format of Anthropic. */
import { z } from "zod";
import { orElse } from "../../../lib/chat/messages.ts";
import { later } from "../../../lib/schema.ts";

const MAX_BLOCKS = 4_096;
const MAX_MESSAGES = 10_000;

const TextBlock = z.object({ type: z.literal("text"), text: z.string() });
const ToolUse = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
const ToolResult = z.object({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(TextBlock).max(MAX_BLOCKS)]).nullish(),
  is_error: z.boolean().nullish().describe("true: the model reads `Error: ` before the content"),
});
const Thinking = z.object({ type: z.literal("thinking"), thinking: z.string(), signature: z.string().nullish() });

const ImageBlock = z.object({
  type: z.literal("image"),
  source: z.discriminatedUnion("type", [
    z.object({ type: z.literal("base64"), media_type: z.string().max(100), data: z.string() }),
    z.object({ type: z.literal("url"), url: z.string() }),
  ]),
});

const Block = z.discriminatedUnion("type", [TextBlock, ImageBlock, ToolUse, ToolResult, Thinking], {
  error: ({ code }) =>
    code === "invalid_union"
      ? "must be text, image, tool_use, tool_result or thinking: documents are not supported"
      : undefined,
});
export type Block = z.output<typeof Block>;

const MessageParam = z.object({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(Block).max(MAX_BLOCKS)]),
});
export type MessageParam = z.output<typeof MessageParam>;

const ToolParam = z.object({
  name: z.string(),
  description: z.string().nullish(),
  input_schema: z.record(z.string(), z.unknown()),
});

const shared = {
  model: z.string().min(1).optional().describe("The name of the deployment. Default: the only one that runs"),
  messages: z.array(MessageParam).min(1).max(MAX_MESSAGES),
  system: z.union([z.string(), z.array(TextBlock).max(MAX_BLOCKS)]).nullish(),
  tools: orElse(z.array(ToolParam).max(128), [] as z.output<typeof ToolParam>[]),
  tool_choice: z
    .object({
      type: z.enum(["auto", "any", "tool", "none"]),
      name: z.string().optional().describe("With tool"),
      disable_parallel_tool_use: z.boolean().nullish(),
    })
    .nullish(),
  thinking: z
    .object({ type: z.enum(["enabled", "disabled", "adaptive"]) })
    .nullish()
    .describe("Passed to the model's chat template. budget_tokens has no effect"),
};

export const MessagesRequest = z
  .object({
    ...shared,
    max_tokens: z.int().min(0),
    stop_sequences: z.array(z.string().min(1)).max(16).nullish(),
    stream: orElse(z.boolean(), false),
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    top_k: z.int().min(0).nullish(),
    metadata: z.object({ user_id: z.string().nullish() }).nullish(),
  })
  .meta({ id: "MessagesRequest" });
export type MessagesRequest = z.output<typeof MessagesRequest>;

export const CountTokensRequest = z.object(shared).meta({ id: "CountTokensRequest" });
export type CountTokensRequest = z.output<typeof CountTokensRequest>;
export const CountedTokens = later(() => z.object({ input_tokens: z.int() }).meta({ id: "CountedTokens" }));

const Content = z.union([
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() }),
  z.object({ type: z.literal("tool_use"), id: z.string(), name: z.string(), input: z.record(z.string(), z.unknown()) }),
]);
export type Content = z.infer<typeof Content>;

export const STOP_REASONS = ["end_turn", "max_tokens", "tool_use"] as const;

export const Message = later(() =>
  z
    .object({
      id: z.string(),
      type: z.literal("message"),
      role: z.literal("assistant"),
      model: z.string(),
      content: z.array(Content),
      stop_reason: z.enum(STOP_REASONS).nullable(),
      stop_sequence: z.null(),
      usage: z.object({ input_tokens: z.int(), output_tokens: z.int(), cache_read_input_tokens: z.int() }),
    })
    .meta({ id: "AnthropicMessage" }),
);
export type Message = z.infer<typeof Message>;
