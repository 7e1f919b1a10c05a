import { z } from "zod";
import { DateTime, later } from "../../../../lib/schema.ts";
import { isoTime } from "../../../../lib/time.ts";
import { Trace } from "../schema.ts";
import type { ConversationRow } from "../table.ts";

const shape = {
  id: z.string().describe("The text of the client: metadata.conversation_id, or the header x-conversation-id"),
  object: z.literal("trace.conversation"),
  trace_count: z.int(),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  created_at: DateTime.describe("The end of its first request"),
  last_at: DateTime.describe("The end of its last request"),
};

export const ConversationSummary = later(() => z.object(shape).meta({ id: "TraceConversationSummary" }));

export const Conversation = later(() =>
  z
    .object({
      ...shape,
      traces: z.array(Trace).describe("Oldest first: at most 500, and at most about 8 MiB of content"),
      has_more: z.boolean().describe("There are more traces: GET /v1/traces?conversation_id=… lists them"),
    })
    .meta({ id: "TraceConversation" }),
);

export const ReplayConversation = z
  .object({
    deployment_id: z
      .string()
      .nullable()
      .default(null)
      .describe("Answers every request of the conversation. Default: the deployment that answered it first"),
  })
  .meta({ id: "ReplayTraceConversation" });
export type ReplayConversation = z.infer<typeof ReplayConversation>;

export const Replay = later(() =>
  z
    .object({
      object: z.literal("trace.conversation.replay"),
      conversation_id: z.string(),
      data: z.array(
        z.object({
          trace_id: z.string().describe("The recorded request"),
          replay_trace_id: z.string().nullable().describe("The new request; its metadata has replay_of"),
          deployment_id: z.string(),
          status: z.int(),
          input: z.unknown(),
          recorded_output: z.unknown(),
          output: z.unknown(),
          error: z.string().nullable(),
        }),
      ),
    })
    .meta({ id: "TraceConversationReplay" }),
);
export type Replay = z.infer<typeof Replay>;

export const presentConversation = (row: ConversationRow) => ({
  id: row.id,
  object: "trace.conversation" as const,
  trace_count: row.traceCount,
  prompt_tokens: row.promptTokens,
  completion_tokens: row.completionTokens,
  created_at: isoTime(row.createdAt),
  last_at: isoTime(row.lastAt),
});
