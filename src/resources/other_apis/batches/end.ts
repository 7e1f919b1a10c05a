/**
 * The end of a batch: its results become an output and an error file. Each file is stored in one commit with its id in
 * the batch, and the last commit ends the batch. After a kill the work goes on with the file that is missing.
 */
import { and, asc, eq, gt, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { meterOf } from "../../data/storage_usage/service.ts";
import * as files from "../files/service.ts";
import { machine } from "./machine.ts";
import { type BatchError, type BatchItemRow, type BatchRow, inferenceBatches, inferenceBatchItems } from "./table.ts";

const BITE = 200; // lines in memory
const PAUSE_MS = 1_000; // while the disk has no space
const encoder = new TextEncoder();

type Ending = "complete" | "expire" | "stop";
const UNFINISHED: Record<Ending, { code: string; message: string } | null> = {
  complete: null,
  expire: { code: "batch_expired", message: "The batch expired before this request could run" },
  stop: { code: "batch_cancelled", message: "The batch was cancelled before this request could run" },
};

export async function end(ctx: Ctx, row: BatchRow, ending: Ending): Promise<void> {
  const { id } = row;
  const now = ctx.clock.now();
  let batch: BatchRow | undefined = row;
  if (ending === "complete" && row.status === "in_progress")
    batch = write(ctx.db, (tx) => transition(tx, machine, "finalize", { id, now }, { finalizingAt: now }));
  if (!batch) return; // it was cancelled meanwhile
  const withoutAnswer = batch.total - batch.completed;
  const errors: BatchError[] = [];
  try {
    if (batch.completed > 0 && batch.outputFileId === null)
      errors.push(...(await tryStore(ctx, batch, "output", ending)));
    if (withoutAnswer > 0 && batch.errorFileId === null) errors.push(...(await tryStore(ctx, batch, "error", ending)));
  } catch (error) {
    if (error instanceof AppError && error.code === "storage_unavailable")
      return ctx.clock.sleep(PAUSE_MS, ctx.closing); // still due
    throw error;
  }
  write(ctx.db, (tx) => {
    const patch = { finishedAt: ctx.clock.now(), ...(errors.length > 0 ? { errors } : {}) };
    const ended = transition(tx, machine, ending, { id, now }, patch);
    if (ended) tx.delete(inferenceBatchItems).where(eq(inferenceBatchItems.batchId, id)).run();
    return ended;
  });
}

/** A file beyond the quota is left out, and the batch says why. */
async function tryStore(ctx: Ctx, batch: BatchRow, which: "output" | "error", ending: Ending): Promise<BatchError[]> {
  try {
    await storeResults(ctx, batch, which, ending);
    return [];
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "quota_exceeded") throw error;
    return [{ code: error.code, line: null, message: `The ${which} file was not kept: ${error.message}`, param: null }];
  }
}

async function storeResults(ctx: Ctx, batch: BatchRow, which: "output" | "error", ending: Ending) {
  const { id, workspaceId } = batch;
  const storageKey = files.keyFor(ctx.clock.now());
  using meter = meterOf(ctx, { workspaceId, kind: "files" });
  await looseKeys.store(ctx, {
    key: storageKey,
    put: () => ctx.storage.put(storageKey, linesOf(ctx, id, which, ending), { meter }),
    own(tx, { bytes: sizeBytes, sha256 }) {
      meter.keep(sizeBytes);
      const named = { filename: `${id}_${which}.jsonl`, purpose: "batch_output" as const, expiresAt: null };
      const file = files.add(tx, { workspaceId, ...named, sizeBytes, sha256, storageKey }, ctx.clock.now());
      const patch = which === "output" ? { outputFileId: file.id } : { errorFileId: file.id };
      tx.update(inferenceBatches).set(patch).where(eq(inferenceBatches.id, id)).run();
      return file;
    },
  });
}

async function* linesOf(ctx: Ctx, batchId: string, which: "output" | "error", ending: Ending) {
  const { number, failed, finishedAt } = inferenceBatchItems;
  const wanted = which === "output" ? and(eq(failed, false), isNotNull(finishedAt)) : undefined;
  for (let after = 0; ; ) {
    const rows = ctx.db
      .select()
      .from(inferenceBatchItems)
      .where(and(eq(inferenceBatchItems.batchId, batchId), gt(number, after), wanted))
      .orderBy(asc(number))
      .limit(BITE)
      .all();
    const last = rows.at(-1);
    if (!last) return;
    after = last.number;
    const lines = rows.filter((row) => which === "output" || row.failed || row.finishedAt === null);
    if (lines.length > 0)
      yield encoder.encode(lines.map((row) => `${row.result ?? unfinished(row, ending)}\n`).join(""));
  }
}

const unfinished = ({ customId }: BatchItemRow, ending: Ending) =>
  JSON.stringify({ id: `batch_${newId("req")}`, custom_id: customId, response: null, error: UNFINISHED[ending] });
