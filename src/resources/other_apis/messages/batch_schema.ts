/** Batches of messages, in the format of Anthropic. */
import { z } from "zod";
import { ANTHROPIC_POSITION, anthropicListOf } from "../../../http/answer/anthropic.ts";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { BatchRow } from "../batches/table.ts";

/** A body has one more level and one more request than the server would read as one. */
export const MOST_REQUESTS = 10_000;

export const CreateMessageBatch = later(() =>
  z
    .object({
      requests: z
        .array(
          z.object({
            custom_id: z.string().regex(/^[\w-]{1,64}$/, "must have 1 to 64 letters, digits, _ or -"),
            params: z.record(z.string(), z.unknown()).describe("A request for POST /v1/messages without stream"),
          }),
        )
        .min(1)
        .max(MOST_REQUESTS)
        .superRefine((requests, issues) => {
          const ids = new Set<string>();
          for (const [i, { custom_id: id }] of requests.entries()) {
            if (ids.has(id)) {
              const message = "another request has the same custom_id. Rename one of them";
              issues.addIssue({ code: "custom", path: [i, "custom_id"], message });
              return;
            }
            ids.add(id);
          }
        }),
    })
    .meta({ id: "CreateMessageBatch" }),
);
export type CreateMessageBatch = z.infer<typeof CreateMessageBatch>;

export const MessageBatchesQuery = PageQuery.extend(ANTHROPIC_POSITION);

const Count = z.int();

export const MessageBatch = later(() =>
  z
    .object({
      id: z.string(),
      type: z.literal("message_batch"),
      processing_status: z.enum(["in_progress", "canceling", "ended"]),
      request_counts: z.object({
        processing: Count,
        succeeded: Count,
        errored: Count,
        canceled: Count,
        expired: Count,
      }),
      created_at: DateTime,
      expires_at: DateTime.describe("Requests that have not run by then end as expired"),
      ended_at: DateTime.nullable(),
      cancel_initiated_at: DateTime.nullable(),
      archived_at: z.null(),
      results_url: z.string().nullable().describe("Set when the batch has ended"),
    })
    .meta({ id: "MessageBatch" }),
);
export type MessageBatch = z.infer<typeof MessageBatch>;

export const MessageBatchList = anthropicListOf(MessageBatch, "MessageBatchList");
export const DeletedMessageBatch = later(() =>
  z.object({ id: z.string(), type: z.literal("message_batch_deleted") }).meta({ id: "DeletedMessageBatch" }),
);

/** `root`: the address of this server. */
export function presentMessageBatch(row: BatchRow, root: string): MessageBatch {
  const { id, status, total, completed, failed, finishedAt } = row;
  const rest = total - completed - failed; // they have not run
  const hasEnded = finishedAt !== null;
  const restIf = (condition: boolean) => (condition ? rest : 0);
  return {
    id,
    type: "message_batch",
    processing_status: hasEnded ? "ended" : status === "cancelling" ? "canceling" : "in_progress",
    request_counts: {
      processing: restIf(!hasEnded),
      succeeded: completed,
      errored: failed + restIf(status === "failed" || status === "completed"),
      canceled: restIf(status === "cancelled"),
      expired: restIf(status === "expired"),
    },
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
    ended_at: hasEnded ? isoTime(finishedAt) : null,
    cancel_initiated_at: row.cancellingAt === null ? null : isoTime(row.cancellingAt),
    archived_at: null,
    results_url: hasEnded ? `${root}/v1/messages/batches/${id}/results` : null,
  };
}
