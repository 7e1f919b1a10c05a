import { inArray, lt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import * as files from "../files/service.ts";
import { type BatchRow, inferenceBatches } from "./table.ts";

/** Removes batches that ended before this time, with their files. An input stays while another batch has it. */
export async function prune(ctx: Ctx, before: number) {
  const removed = await gradually(ctx.db, (tx, rows) => removeSome(tx, { before, rows, now: ctx.clock.now() }));
  if (removed > 0) ctx.wake("volumes.sweep");
}

function removeSome(tx: Tx, { before, rows, now }: { before: number; rows: number; now: number }): number {
  const ended = tx.select().from(inferenceBatches).where(lt(inferenceBatches.finishedAt, before)).limit(rows).all();
  drop(tx, ended, now);
  return ended.length;
}

/** Removes batches that have ended, with their files. */
export function drop(tx: Tx, ended: readonly BatchRow[], now: number) {
  const { id, inputFileId } = inferenceBatches;
  const inputs = ended.map((batch) => batch.inputFileId);
  const ids = ended.map((batch) => batch.id);
  tx.delete(inferenceBatches).where(inArray(id, ids)).run();
  const others = tx.select({ inputFileId }).from(inferenceBatches).where(inArray(inputFileId, inputs)).all();
  const kept = new Set(others.map((batch) => batch.inputFileId));
  const results = ended.flatMap(({ outputFileId, errorFileId }) => [outputFileId, errorFileId]);
  const fileIds = [...inputs.filter((input) => !kept.has(input)), ...results.filter((file) => file !== null)];
  files.dropAll(tx, fileIds, now);
}
