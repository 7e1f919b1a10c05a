/** POST /v1/messages: the format of Anthropic. */
import { z } from "zod";
import { orElse } from "../../../lib/chat/messages.ts";
import { later } from "../../../lib/schema.ts";

const MAX_BLOCKS = 4_096;
const MAX_MESSAGES = 10_000;

const FileSource = z.object({ type: z.literal("file"), file_id: z.string() });
const TextBlock = z.object({ type: z.literal("text"), text: z.string() });
const ImageBlock = z.object({
  type: z.literal("image"),
  source: z.discriminatedUnion("type", [
    z.object({ type: z.literal("base64"), media_type: z.string().max(100), data: z.string() }),
    z.object({ type: z.literal("url"), url: z.string() }),
    FileSource,
  ]),
});
const DocumentBlock = z
  .object({
    type: z.literal("document"),
    source: z.discriminatedUnion(
      "type",
      [
        z.object({ type: z.literal("text"), media_type: z.string().max(100).nullish(), data: z.string() }),
        z.object({
          type: z.literal("content"),
          content: z.union([z.string(), z.array(z.union([TextBlock, ImageBlock])).max(MAX_BLOCKS)]),
        }),
        FileSource,
      ],
      {
        error: ({ code }) =>
          code === "invalid_union"
            ? "must be text, content or file: PDF files are not read. Send their text"
            : undefined,
      },
    ),
    title: z.string().nullish().describe("The model reads it before the text"),
    context: z.string().nullish().describe("The model reads it after the title"),
  })
  .describe("The model reads a document as text");
export type DocumentBlock = z.output<typeof DocumentBlock>;

const ToolUse = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
const ToolResult = z.object({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z
    .union([z.string(), z.array(z.discriminatedUnion("type", [TextBlock, ImageBlock, DocumentBlock])).max(MAX_BLOCKS)])
    .nullish(),
  is_error: z.boolean().nullish().describe("true: the model reads `Error: ` before the content"),
});
const Thinking = z.object({ type: z.literal("thinking"), thinking: z.string(), signature: z.string().nullish() });
/** Thoughts that only their own server can read. The model does not get them. */
const RedactedThinking = z.object({ type: z.literal("redacted_thinking"), data: z.string().nullish() });

const KINDS = [TextBlock, ImageBlock, DocumentBlock, ToolUse, ToolResult, Thinking, RedactedThinking] as const;
const NAMES = KINDS.map(({ shape }) => shape.type.value);
const Block = z.discriminatedUnion("type", KINDS, {
  error: ({ code }) =>
    code === "invalid_union"
      ? `must be ${NAMES.slice(0, -1).join(", ")} or ${NAMES.at(-1)}: this server runs no tools of its own, so no other block exists`
      : undefined,
});
export type Block = z.output<typeof Block>;

const MessageParam = z.object({
  role: z.enum(["user", "assistant", "system"]),
  content: z.union([z.string(), z.array(Block).max(MAX_BLOCKS)]),
});
export type MessageParam = z.output<typeof MessageParam>;

const ToolParam = z.object({
  type: z
    .literal("custom", {
      error: "must be custom: this server runs no tools of its own. Remove the tool, or send it with an input_schema",
    })
    .nullish(),
  name: z.string(),
  description: z.string().nullish(),
  input_schema: z.record(z.string(), z.unknown()),
});

const OutputFormat = z.object({ type: z.literal("json_schema"), schema: z.record(z.string(), z.unknown()) });

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
  output_config: z
    .object({
      format: OutputFormat.nullish().describe("The answer obeys the schema"),
      effort: z
        .enum(["low", "medium", "high", "xhigh", "max"])
        .nullish()
        .describe("Passed to the model's chat template as reasoning_effort"),
    })
    .nullish(),
  output_format: OutputFormat.nullish().describe("The older form of output_config.format"),
  mcp_servers: z
    .array(z.unknown())
    .max(0, { error: "must be empty: this server calls no MCP servers. Remove the field" })
    .nullish(),
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
    thread: z
      .looseObject({})
      .nullish()
      .describe("Refused: the server keeps no threads. Anthropic's client then sends the whole conversation"),
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

export const STOP_REASONS = ["end_turn", "max_tokens", "tool_use", "stop_sequence"] as const;

const MessageUsage = z.object({
  input_tokens: z.int().describe("Without the tokens that were in the cache"),
  output_tokens: z.int(),
  cache_read_input_tokens: z.int(),
  cache_creation_input_tokens: z.int().describe("Always 0: the server keeps its cache by itself"),
});
export type MessageUsage = z.infer<typeof MessageUsage>;

export const Message = later(() =>
  z
    .object({
      id: z.string(),
      type: z.literal("message"),
      role: z.literal("assistant"),
      model: z.string(),
      content: z.array(Content),
      stop_reason: z.enum(STOP_REASONS).nullable(),
      stop_sequence: z.string().nullable().describe("The string of stop_sequences that ended the message"),
      usage: MessageUsage,
    })
    .meta({ id: "AnthropicMessage" }),
);
export type Message = z.infer<typeof Message>;
