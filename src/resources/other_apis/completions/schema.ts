/** Stored chat completions in the format of OpenAI. */
import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { ChatCompletion, type ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { later, Metadata } from "../../../lib/schema.ts";
import { clientListOf } from "../conversations/schema.ts";
import type { CompletionRow } from "./table.ts";

const order = z.enum(["asc", "desc"]).default("asc").describe("asc: the oldest first");

export const CompletionsQuery = PageQuery.extend({
  order,
  model: z.string().optional().describe("Only answers of this model, as the answer names it"),
  "metadata[key]": z
    .string()
    .optional()
    .describe("Only answers with this value under `key`. Several pairs must all be there"),
});
export type CompletionsQuery = z.output<typeof CompletionsQuery>;

export const MessagesQuery = PageQuery.extend({ order });
export type MessagesQuery = z.output<typeof MessagesQuery>;

export const UpdateCompletion = later(() =>
  z.object({ metadata: Metadata.nullable() }).meta({ id: "UpdateChatCompletion" }),
);

const settings = {
  request_id: z.string(),
  tools: z.array(z.record(z.string(), z.unknown())).nullable(),
  tool_choice: z.unknown(),
  temperature: z.number(),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  seed: z.number().nullable(),
  response_format: z.record(z.string(), z.unknown()).nullable(),
  input_user: z.null(),
  service_tier: z.null(),
};

export const StoredCompletion = later(() =>
  ChatCompletion.unwrap()
    .extend({ ...settings, metadata: z.record(z.string(), z.string()) })
    .meta({ id: "StoredChatCompletion" }),
);
export type StoredCompletion = z.infer<typeof StoredCompletion>;

export const CompletionList = clientListOf(StoredCompletion, "StoredChatCompletionList");

export const StoredMessage = later(() =>
  z
    .looseObject({
      id: z.string(),
      role: z.string(),
      content: z.string().nullable().describe("The text; null if the message has none"),
      content_parts: z.array(z.record(z.string(), z.unknown())).nullable().describe("The parts, if it has parts"),
      name: z.string().nullable(),
    })
    .meta({ id: "StoredChatMessage" }),
);
export const MessageList = clientListOf(StoredMessage, "StoredChatMessageList");

export const DeletedCompletion = later(() =>
  z
    .object({ id: z.string(), object: z.literal("chat.completion.deleted"), deleted: z.literal(true) })
    .meta({ id: "DeletedChatCompletion" }),
);

/** Settings of the request, which the answer does not show. */
export function settingsOf(body: ChatCompletionRequest, requestId: string) {
  const { tools, tool_choice, temperature, top_p, presence_penalty, frequency_penalty, seed = null } = body;
  const { response_format: format } = body;
  const hasTools = tools.length > 0;
  return {
    request_id: requestId,
    tools: hasTools ? tools : null,
    tool_choice: hasTools ? tool_choice : null,
    temperature,
    top_p,
    presence_penalty,
    frequency_penalty,
    seed,
    response_format: format.type === "text" ? null : format,
    input_user: null,
    service_tier: null,
  };
}

export const present = (row: CompletionRow): StoredCompletion => ({
  ...(JSON.parse(row.completion) as Omit<StoredCompletion, "metadata">),
  metadata: row.metadata,
});

type Message = ChatCompletionRequest["messages"][number];
type Part = { type: string; text?: string };

/** Pure. */
export function messagesOf({ id, messages }: Pick<CompletionRow, "id" | "messages">) {
  return (JSON.parse(messages) as Message[]).map((message, index) => {
    const { content = null, name = null, ...rest } = message;
    const parts: readonly Part[] | null = typeof content === "string" ? null : content;
    const text = parts ? parts.map((part) => part.text ?? "").join("") : (content as string | null);
    return { id: `${id}-${index}`, ...rest, name, content: text, content_parts: parts };
  });
}
