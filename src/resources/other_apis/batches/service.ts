/** Batches of inference requests, in the format of OpenAI; those of messages are in ../messages. The loop `batches.run` does the work. */
import { and, eq, isNull, ne, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { limitWaiting } from "../../../platform/db/waiting_limit.ts";
import { mustBeOpen } from "../../data/storage_usage/service.ts";
import * as files from "../files/service.ts";
import type { ClientFileRow } from "../files/table.ts";
import { machine } from "./machine.ts";
import { type CreateBatch, present } from "./schema.ts";
import { type BatchRow, inferenceBatches, MESSAGES } from "./table.ts";

const insert = preparedInsert(inferenceBatches);
const byId = preparedRow(
  inferenceBatches,
  and(eq(inferenceBatches.id, sql.placeholder("id")), eq(inferenceBatches.workspaceId, sql.placeholder("workspaceId"))),
);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): BatchRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No batch ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(
    ctx.db,
    inferenceBatches,
    and(eq(inferenceBatches.workspaceId, workspaceId), ne(inferenceBatches.endpoint, MESSAGES)),
    query,
    present,
  );

export function create(ctx: Ctx, principal: Principal, body: CreateBatch): BatchRow {
  const { workspaceId } = principal;
  const file = files.mustGet(ctx, workspaceId, body.input_file_id, "/input_file_id");
  if (file.purpose !== "batch")
    throw new AppError(
      "schema",
      `input_file_id: the file has the purpose ${file.purpose}. Upload it with the purpose batch`,
      { param: "/input_file_id" },
    );
  const { endpoint, metadata = null } = body;
  const row = write(ctx.db, (tx) => add(ctx, tx, principal, { file, endpoint, metadata, total: 0 }));
  wake(ctx);
  return row;
}

type NewBatch = { file: ClientFileRow; total: number } & Pick<BatchRow, "endpoint" | "metadata">;

/** `total`: the number of requests, if it is known before the file is read. */
export function add(ctx: Ctx, tx: Tx, { workspaceId, keyId }: Principal, { file, ...fields }: NewBatch): BatchRow {
  mustBeOpen(ctx, { workspaceId, kind: "files" }); // for its results
  const now = ctx.clock.now();
  const counts = { completed: 0, failed: 0, inputTokens: 0, outputTokens: 0 };
  const times = { inProgressAt: null, finalizingAt: null, cancellingAt: null, finishedAt: null };
  const isUnfinished = and(eq(inferenceBatches.workspaceId, workspaceId), isNull(inferenceBatches.finishedAt));
  limitWaiting({ db: tx, config: ctx.config }, "batches", inferenceBatches, isUnfinished);
  return insert(tx, {
    id: newId("batch", now),
    workspaceId,
    keyId,
    status: machine.initial,
    ...fields,
    inputFileId: file.id,
    inputKey: file.storageKey,
    errors: null,
    ...counts,
    ...times,
    outputFileId: null,
    errorFileId: null,
    expiresAt: now + DAY_MS,
    createdAt: now,
    updatedAt: now,
  });
}

/** Ends the requests under way. The loop then stores the results that there are. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): BatchRow {
  const before = mustGet(ctx, workspaceId, id);
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => transition(tx, machine, "cancel", { id, now }, { cancellingAt: now }));
  if (!row && before.status !== "cancelling" && before.status !== "cancelled")
    throw new AppError("unsupported_state", `The batch is ${before.status}: it can no longer be cancelled`);
  stopWork(ctx, id);
  wake(ctx);
  return row ?? before;
}

function stopWork(ctx: Ctx, id: string) {
  for (const { batchId, stop } of ctx.state.inferenceBatches.running.values())
    if (batchId === id) stop.abort(new Error("the batch was cancelled"));
}

export function wake(ctx: Ctx) {
  ctx.state.inferenceBatches.bell.resolve();
  ctx.wake("batches.run");
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const removed = write(ctx.db, (tx) =>
    tx.delete(inferenceBatches).where(eq(inferenceBatches.workspaceId, workspaceId)).returning().all(),
  );
  for (const { id } of removed) stopWork(ctx, id);
}
