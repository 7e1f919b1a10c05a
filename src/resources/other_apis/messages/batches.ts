/**
 * Batches of messages: the same rows, files and loop as the batches of OpenAI. The requests become an input file, and the
 * results are read from the output and the error file.
 */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { forwardOf } from "../../../http/answer/anthropic.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { type Creation, creates } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { write } from "../../../platform/db/db.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { meterOf } from "../../data/storage_usage/service.ts";
import { linesOf } from "../batches/lines.ts";
import { drop } from "../batches/prune.ts";
import * as batches from "../batches/service.ts";
import { type BatchRow, inferenceBatches, MESSAGES } from "../batches/table.ts";
import * as files from "../files/service.ts";
import type { ClientFileRow } from "../files/table.ts";
import type { CreateMessageBatch } from "./batch_schema.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function mustGet(ctx: Ctx, workspaceId: string, id: string): BatchRow {
  const row = batches.mustGet(ctx, workspaceId, id);
  if (row.endpoint === MESSAGES) return row;
  throw new AppError(
    "resource_not_found",
    `Batch ${id} has requests for ${row.endpoint}: read it at /v1/batches/${id}`,
    {
      param: "id",
    },
  );
}

export const list = <P>(ctx: Ctx, workspaceId: string, query: PageQuery, present: (row: BatchRow) => P) =>
  page(
    ctx.db,
    inferenceBatches,
    and(eq(inferenceBatches.workspaceId, workspaceId), eq(inferenceBatches.endpoint, MESSAGES)),
    forwardOf(query),
    present,
  );

/** The input file and the batch are stored in one commit. */
export async function create(
  ctx: Ctx,
  call: Creation & { body: CreateMessageBatch },
  present: (row: BatchRow) => object,
): Promise<object> {
  const { requests } = call.body;
  const { workspaceId } = call.principal;
  using meter = meterOf(ctx, { workspaceId, kind: "files" }, { param: "/requests" });
  const storageKey = files.keyFor(ctx.clock.now());
  const answer = await looseKeys.store(ctx, {
    key: storageKey,
    put: () => ctx.storage.put(storageKey, inputOf(requests), { meter }),
    own(tx, { bytes: sizeBytes, sha256 }) {
      const now = ctx.clock.now();
      let isNew = false;
      const made = creates(ctx, call, () => {
        isNew = true;
        call.set.status = 200; // as Anthropic answers
        meter.keep(sizeBytes);
        const named = { workspaceId, filename: "requests.jsonl", purpose: "batch" as const, expiresAt: null };
        const file = files.add(tx, { ...named, sizeBytes, sha256, storageKey }, now);
        const fields = { file, endpoint: MESSAGES, metadata: null, total: requests.length } as const;
        return present(batches.add(ctx, tx, call.principal, fields));
      });
      if (!isNew) looseKeys.drop(tx, storageKey, now); // the request was answered before
      return made;
    },
  });
  batches.wake(ctx);
  return answer;
}

async function* inputOf(requests: CreateMessageBatch["requests"]) {
  const turn = takingTurns();
  for (const { custom_id, params: body } of requests) {
    await turn();
    yield encoder.encode(`${JSON.stringify({ custom_id, method: "POST", url: MESSAGES, body })}\n`);
  }
}

/** Removes the batch with its files. */
export function remove(ctx: Ctx, workspaceId: string, id: string) {
  write(ctx.db, (tx) => drop(tx, [mustHaveEnded(mustGet(ctx, workspaceId, id))], ctx.clock.now()));
  ctx.wake("volumes.sweep");
}

function mustHaveEnded(row: BatchRow): BatchRow {
  if (row.finishedAt !== null) return row;
  throw new AppError("unsupported_state", `The batch is ${row.status}: cancel it or wait for its end`, { param: "id" });
}

/** One JSON object on each line, for each request of a batch that has ended. */
export function resultsOf(ctx: Ctx, workspaceId: string, id: string): ReadableStream<Uint8Array> {
  const { outputFileId, errorFileId, inputFileId, inProgressAt, status } = mustHaveEnded(mustGet(ctx, workspaceId, id));
  const stored = [outputFileId, errorFileId].filter((file) => file !== null);
  const read = (file: string) => files.mustGet(ctx, workspaceId, file);
  const unread = { response: null, error: { code: status === "expired" ? "batch_expired" : "batch_cancelled" } };
  const lines =
    inProgressAt === null // it ended before its requests were read
      ? resultLines(ctx, [read(inputFileId)], ({ custom_id }) => ({ custom_id, ...unread }))
      : resultLines(ctx, stored.map(read), (line) => line);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await lines.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => void lines.return(),
  });
}

async function* resultLines(ctx: Ctx, stored: readonly ClientFileRow[], lineOf: (line: Line) => Line) {
  const turn = takingTurns();
  for (const { storageKey } of stored) {
    const opened = await ctx.storage.get(storageKey);
    if (!opened) throw new LostKeyError(storageKey);
    for await (const { bytes } of linesOf(opened.stream, Number.POSITIVE_INFINITY)) {
      await turn();
      yield encoder.encode(`${JSON.stringify(toResult(lineOf(JSON.parse(decoder.decode(bytes)) as Line)))}\n`);
    }
  }
}

/** A line of an output or error file of this server; of an input file it has the id alone. */
type Line = {
  custom_id: string;
  response: { status_code: number; body: object } | null;
  error: { code: string } | null;
};

function toResult({ custom_id, response, error }: Line) {
  if (!response) return { custom_id, result: { type: error?.code === "batch_expired" ? "expired" : "canceled" } };
  const { status_code: status, body } = response;
  if (status >= 400) return { custom_id, result: { type: "errored", error: body } };
  return { custom_id, result: { type: "succeeded", message: body } };
}
