/** Batches of files. A batch is what its files have in common: it is gone with the last of them. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId, timeOf } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { seconds } from "../files/schema.ts";
import { countsOf } from "./counts.ts";
import { addFiles } from "./files.ts";
import { machine } from "./machine.ts";
import type { CreateBatch } from "./schema.ts";
import { type StoreRow, vectorFiles } from "./table.ts";

export function create(
  ctx: Ctx,
  store: StoreRow,
  { files, file_ids = [], attributes, chunking_strategy }: CreateBatch,
) {
  const batchId = newId("vsfb", ctx.clock.now());
  const added = files ?? [...new Set(file_ids)].map((file_id) => ({ file_id, attributes, chunking_strategy }));
  const param = (i: number) => (files ? `/files/${i}/file_id` : `/file_ids/${i}`);
  write(ctx.db, (tx) => void addFiles(ctx, tx, store, added, { param, batchId }));
  ctx.wake("vector_stores.index");
  return mustGet(ctx, store, batchId);
}

export function mustGet(ctx: Ctx, store: StoreRow, id: string) {
  const { counts } = countsOf(ctx, and(eq(vectorFiles.storeId, store.id), eq(vectorFiles.batchId, id)));
  if (counts.total === 0)
    throw new AppError("resource_not_found", `No batch ${id.slice(0, 80)} in ${store.id}`, { param: "batch" });
  const status = counts.in_progress > 0 ? "in_progress" : counts.cancelled > 0 ? "cancelled" : "completed";
  return {
    id,
    object: "vector_store.files_batch" as const,
    created_at: seconds(timeOf(id)),
    vector_store_id: store.id,
    status,
    file_counts: counts,
  };
}

export function cancel(ctx: Ctx, store: StoreRow, batchId: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const isOfBatch = and(eq(vectorFiles.batchId, batchId), eq(vectorFiles.storeId, store.id));
    for (const { id } of tx.select({ id: vectorFiles.id }).from(vectorFiles).where(isOfBatch).all())
      if (transition(tx, machine, "cancel", { id, now })) ctx.state.vectorStores.running.get(id)?.stop.abort();
  });
  return mustGet(ctx, store, batchId);
}
