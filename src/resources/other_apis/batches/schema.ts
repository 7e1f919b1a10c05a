import { z } from "zod";
import { later } from "../../../lib/schema.ts";
import { seconds, secondsOrNull } from "../files/schema.ts";
import { type BatchRow, ENDPOINTS, STATUSES } from "./table.ts";

const Metadata = later(() =>
  z.record(z.string().max(64), z.string().max(512)).refine((given) => Object.keys(given).length <= 16, {
    message: "takes at most 16 keys",
  }),
);

export const CreateBatch = later(() =>
  z
    .object({
      input_file_id: z.string().describe("A file with the purpose batch: one request per line"),
      endpoint: z.enum(ENDPOINTS).describe("The route of every request in the file"),
      completion_window: z.literal("24h").describe("Requests that have not run by then end as expired"),
      metadata: Metadata.nullish(),
    })
    .meta({ id: "CreateBatch" }),
);
export type CreateBatch = z.infer<typeof CreateBatch>;

const Time = z.int().nullable().describe("Unix seconds");

export const Batch = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("batch"),
      endpoint: z.string(),
      errors: z
        .object({
          object: z.literal("list"),
          data: z.array(
            z.object({
              code: z.string(),
              line: z.int().nullable(),
              message: z.string(),
              param: z.string().nullable(),
            }),
          ),
        })
        .nullable(),
      input_file_id: z.string(),
      completion_window: z.literal("24h"),
      status: z.enum(STATUSES),
      output_file_id: z.string().nullable(),
      error_file_id: z.string().nullable(),
      created_at: z.int().describe("Unix seconds"),
      in_progress_at: Time,
      expires_at: z.int().describe("Unix seconds"),
      finalizing_at: Time,
      completed_at: Time,
      failed_at: Time,
      expired_at: Time,
      cancelling_at: Time,
      cancelled_at: Time,
      request_counts: z.object({ total: z.int(), completed: z.int(), failed: z.int() }),
      usage: z.object({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }),
      metadata: z.record(z.string(), z.string()).nullable(),
    })
    .meta({ id: "Batch" }),
);
export type Batch = z.infer<typeof Batch>;

export function present(row: BatchRow): Batch {
  const endedAs = (status: BatchRow["status"]) => (row.status === status ? secondsOrNull(row.finishedAt) : null);
  const { inputTokens, outputTokens } = row;
  const failed = row.finishedAt === null ? row.failed : row.total - row.completed; // also those that did not run
  return {
    id: row.id,
    object: "batch",
    endpoint: row.endpoint,
    errors: row.errors && { object: "list", data: row.errors },
    input_file_id: row.inputFileId,
    completion_window: "24h",
    status: row.status,
    output_file_id: row.outputFileId,
    error_file_id: row.errorFileId,
    created_at: seconds(row.createdAt),
    in_progress_at: secondsOrNull(row.inProgressAt),
    expires_at: seconds(row.expiresAt),
    finalizing_at: secondsOrNull(row.finalizingAt),
    completed_at: endedAs("completed"),
    failed_at: endedAs("failed"),
    expired_at: endedAs("expired"),
    cancelling_at: secondsOrNull(row.cancellingAt),
    cancelled_at: endedAs("cancelled"),
    request_counts: { total: row.total, completed: row.completed, failed },
    usage: { input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
    metadata: row.metadata,
  };
}
