/** Files in the format of OpenAI. A file is content in the storage with a name and a purpose; it never changes. */
import { and, eq, inArray, isNull, lte, not, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { forwardOf } from "../../../http/answer/anthropic.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import * as uploads from "../../data/uploads/service.ts";
import { inferenceBatches } from "../batches/table.ts";
import { vectorFiles } from "../vector_stores/table.ts";
import type { FilesQuery } from "./schema.ts";
import { type ClientFileRow, clientFiles } from "./table.ts";

const insert = preparedInsert(clientFiles);
const byId = preparedRow(
  clientFiles,
  and(eq(clientFiles.id, sql.placeholder("id")), eq(clientFiles.workspaceId, sql.placeholder("workspaceId"))),
);

export const keyFor = (now: number) => `files/${idFor(now)}`;

export const find = (ctx: Ctx, workspaceId: string, id: string): ClientFileRow | undefined =>
  byId(ctx.db, { id, workspaceId });

export function mustGet(ctx: Ctx, workspaceId: string, id: string, param = "id"): ClientFileRow {
  const row = find(ctx, workspaceId, id);
  if (!row) throw new AppError("resource_not_found", `No file ${id.slice(0, 80)}`, { param });
  return row;
}

export const list = <P>(
  ctx: Ctx,
  workspaceId: string,
  { purpose, ...query }: FilesQuery,
  present: (row: ClientFileRow) => P,
) => {
  const isOfWorkspace = eq(clientFiles.workspaceId, workspaceId);
  const within = purpose ? and(isOfWorkspace, eq(clientFiles.purpose, purpose)) : isOfWorkspace;
  return page(ctx.db, clientFiles, within, forwardOf(query), present);
};

type NewFile = Omit<ClientFileRow, "id" | "createdAt"> & { id?: string };

export const idFor = (now: number) => newId("file", now);

export const add = (tx: Tx, file: NewFile, now: number): ClientFileRow =>
  insert(tx, { id: idFor(now), ...file, createdAt: now });

export function remove(ctx: Ctx, workspaceId: string, id: string): ClientFileRow {
  const file = mustGet(ctx, workspaceId, id);
  write(ctx.db, (tx) => {
    const { id: batchId, inputFileId, finishedAt } = inferenceBatches;
    const user = tx
      .select({ batchId })
      .from(inferenceBatches)
      .where(and(eq(inputFileId, id), isNull(finishedAt)))
      .get();
    if (user)
      throw new AppError(
        "unsupported_state",
        `File ${id} is the input of ${user.batchId}: cancel it or wait for its end`,
        {
          param: "id",
        },
      );
    return drop(tx, file, ctx.clock.now());
  });
  ctx.wake("volumes.sweep");
  return file;
}

function drop(tx: Tx, row: ClientFileRow, now: number): ClientFileRow {
  tx.delete(clientFiles).where(eq(clientFiles.id, row.id)).run();
  const inStores = and(eq(vectorFiles.fileId, row.id), isNull(vectorFiles.removedAt));
  tx.update(vectorFiles).set({ removedAt: now }).where(inStores).run();
  looseKeys.drop(tx, row.storageKey, now);
  return row;
}

/** Removes these files in the commit of the batch that they belong to. */
export function dropAll(tx: Tx, ids: readonly string[], now: number) {
  for (const row of tx
    .select()
    .from(clientFiles)
    .where(inArray(clientFiles.id, [...ids]))
    .all())
    drop(tx, row, now);
}

const dropWhere = (ctx: Ctx, where: ReturnType<typeof and>) =>
  gradually(ctx.db, (tx, rows) => {
    const some = tx.select().from(clientFiles).where(where).limit(rows).all();
    for (const row of some) drop(tx, row, ctx.clock.now());
    return some.length;
  });

const inUse = sql`${clientFiles.id} IN (SELECT input_file_id FROM inference_batches WHERE finished_at IS NULL)`;

/** Removes files past their `expires_at`, except inputs of batches that run. */
export async function prune(ctx: Ctx) {
  const due = and(lte(clientFiles.expiresAt, ctx.clock.now()), not(inUse));
  if ((await dropWhere(ctx, due)) > 0) ctx.wake("volumes.sweep");
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  write(ctx.db, (tx) => {
    const rows = tx.select().from(clientFiles).where(eq(clientFiles.workspaceId, workspaceId)).all();
    for (const row of rows) drop(tx, row, ctx.clock.now());
    uploads.abortOf(tx, { workspaceId, purpose: "file" }, ctx.clock.now());
  });
  ctx.wake("volumes.sweep");
}

export async function send(ctx: Ctx, row: ClientFileRow, request: Request): Promise<Response> {
  const answer = await fileResponse(request, {
    name: row.filename,
    contentType: "application/octet-stream",
    sizeBytes: row.sizeBytes,
    sha256: row.sha256,
    updatedAt: row.createdAt,
    open: (range) => ctx.storage.get(row.storageKey, range),
  });
  if (answer) return answer;
  mustGet(ctx, row.workspaceId, row.id); // 404 if it was deleted meanwhile
  throw new LostKeyError(row.storageKey);
}
