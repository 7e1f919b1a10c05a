/** Files of vector stores, alone and in batches. index_files.ts makes their chunks. */
import { and, asc, count, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { behind, requireId } from "../../../http/answer/cursor.ts";
import { page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { mustBeOpen as mustHaveRoom } from "../../data/storage_usage/service.ts";
import { clientList } from "../conversations/schema.ts";
import * as sources from "../files/service.ts";
import { machine } from "./machine.ts";
import { type AddFile, type FilesQuery, limitsOf, presentFile } from "./schema.ts";
import { type Attributes, type StoreRow, type VectorFileRow, vectorChunks, vectorFiles } from "./table.ts";

/** In all stores of a workspace together. */
const MOST_FILES = 10_000;

const insert = preparedInsert(vectorFiles);
const byFile = preparedRow(
  vectorFiles,
  and(
    eq(vectorFiles.storeId, sql.placeholder("storeId")),
    eq(vectorFiles.fileId, sql.placeholder("fileId")),
    isNull(vectorFiles.removedAt),
  ),
);

export function mustGet(ctx: Pick<Ctx, "db">, store: StoreRow, fileId: string): VectorFileRow {
  const row = byFile(ctx.db, { storeId: store.id, fileId });
  if (row) return row;
  throw new AppError("resource_not_found", `No file ${fileId.slice(0, 80)} in ${store.id}`, { param: "file" });
}

export const presented = (ctx: Pick<Ctx, "db">, store: StoreRow, fileId: string) =>
  presentFile(mustGet(ctx, store, fileId));

type Adding = { param: (index: number) => string; batchId?: string };

/** A file that is in the store already is embedded anew, with these attributes. */
export function addFiles(ctx: Ctx, tx: Tx, store: StoreRow, files: readonly AddFile[], { param, batchId }: Adding) {
  if (files.length === 0) return [];
  const { workspaceId } = store;
  mustHaveRoom(ctx, { workspaceId, kind: "files" });
  const now = ctx.clock.now();
  const isOwn = and(eq(vectorFiles.workspaceId, workspaceId), isNull(vectorFiles.removedAt));
  const held = tx.select({ number: count() }).from(vectorFiles).where(isOwn).get()?.number ?? 0;
  if (held + files.length > MOST_FILES)
    throw new AppError("quota_exceeded", `The vector stores of a workspace have at most ${MOST_FILES} files`);
  return files.map(({ file_id, attributes, chunking_strategy }, i): VectorFileRow => {
    sources.mustGet(ctx, workspaceId, file_id, param(i));
    removeWhere(ctx, tx, and(eq(vectorFiles.storeId, store.id), eq(vectorFiles.fileId, file_id)));
    return insert(tx, {
      id: newId("vsf", now),
      workspaceId,
      storeId: store.id,
      fileId: file_id,
      batchId: batchId ?? null,
      status: machine.initial,
      error: null,
      attributes: attributes ?? null,
      ...limitsOf(chunking_strategy),
      position: 0,
      chunkCount: 0,
      usageBytes: 0,
      attempts: 0,
      notBefore: null,
      removedAt: null,
      createdAt: now,
      updatedAt: now,
    });
  });
}

function removeWhere(ctx: Ctx, tx: Tx, where: SQL | undefined) {
  const removedAt = ctx.clock.now();
  const rows = tx
    .update(vectorFiles)
    .set({ removedAt })
    .where(and(where, isNull(vectorFiles.removedAt)))
    .returning({ id: vectorFiles.id })
    .all();
  for (const { id } of rows) ctx.state.vectorStores.running.get(id)?.stop.abort();
  return rows.length;
}

export function add(ctx: Ctx, store: StoreRow, file: AddFile) {
  const rows = write(ctx.db, (tx) => addFiles(ctx, tx, store, [file], { param: () => "/file_id" }));
  ctx.wake("vector_stores.index");
  return presentFile(rows[0] as VectorFileRow);
}

/** The cursor is the id of a file, and the rows have ids of their own. */
export function list(ctx: Ctx, store: StoreRow, query: FilesQuery, within?: SQL) {
  const { filter, after, limit } = query;
  const where = and(
    eq(vectorFiles.storeId, store.id),
    isNull(vectorFiles.removedAt),
    filter === undefined ? undefined : eq(vectorFiles.status, filter),
    within,
    after === undefined ? undefined : behind(ctx.db, vectorFiles, positionOf(ctx, store, after)),
  );
  return clientList(page(ctx.db, vectorFiles, where, { limit }, presentFile));
}

function positionOf(ctx: Ctx, store: StoreRow, after: string): string {
  const row = byFile(ctx.db, { storeId: store.id, fileId: after });
  if (!row) requireId(vectorFiles, after); // throws, as the id of a file has another prefix
  return row?.id ?? after;
}

export function update(ctx: Ctx, store: StoreRow, fileId: string, attributes: Attributes | null) {
  const row = mustGet(ctx, store, fileId);
  const change = { attributes, updatedAt: ctx.clock.now() };
  write(ctx.db, (tx) => void tx.update(vectorFiles).set(change).where(eq(vectorFiles.id, row.id)).run());
  return presentFile({ ...row, ...change });
}

/** The file itself stays. */
export function remove(ctx: Ctx, store: StoreRow, fileId: string) {
  const { id } = mustGet(ctx, store, fileId);
  write(ctx.db, (tx) => removeWhere(ctx, tx, eq(vectorFiles.id, id)));
  ctx.wake("vector_stores.prune");
}

const CONTENT_CHUNKS = 100;

/** The texts of the chunks, a page at a time. They overlap as the chunks do. */
export function content(ctx: Ctx, store: StoreRow, fileId: string, from: number) {
  const { id } = mustGet(ctx, store, fileId);
  const rows = ctx.db
    .select({ id: vectorChunks.id, text: vectorChunks.text })
    .from(vectorChunks)
    .where(and(eq(vectorChunks.vectorFileId, id), sql`${vectorChunks.id} > ${from}`))
    .orderBy(asc(vectorChunks.id))
    .limit(CONTENT_CHUNKS + 1)
    .all();
  const shown = rows.slice(0, CONTENT_CHUNKS);
  const next = rows.length > CONTENT_CHUNKS ? String(shown.at(-1)?.id) : null;
  return {
    object: "vector_store.file_content.page" as const,
    data: shown.map(({ text }) => ({ type: "text" as const, text })),
    has_more: next !== null,
    next_page: next,
  };
}
