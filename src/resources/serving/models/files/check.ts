/** Inspects the file of a row and makes the row ready or failed. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { inspect } from "./inspect.ts";

type FileFacts = { sha256?: string | null };

/** Undefined: the inspection itself failed, and the row waits for the next scan. */
export async function settleFile(
  ctx: Ctx,
  id: string,
  path: string,
  facts: FileFacts = {},
): Promise<ModelRow | undefined> {
  const full = join(ctx.config.data_dir, path);
  const before = await stat(full).catch(() => undefined);
  const inspection = await inspect(ctx, full, { workspaceId: "", hash: false });
  if (!inspection.ok && inspection.broken) {
    ctx.log.warn("a model file could not be checked", { model: id, error: inspection.error });
    return undefined;
  }
  const now = ctx.clock.now();
  const fileMtimeMs = Math.floor(before?.mtimeMs ?? 0);
  const row = write(ctx.db, (tx) => {
    if (inspection.ok) {
      const { shape, sizeBytes } = inspection;
      return models.accept(tx, id, { shape, sizeBytes, sha256: facts.sha256 ?? null, fileMtimeMs, path }, now);
    }
    tx.update(table)
      .set({ fileMtimeMs, sizeBytes: before?.size ?? null, path })
      .where(eq(table.id, id))
      .run();
    return models.refuse(tx, id, inspection.error, now);
  });
  await durable(ctx.db);
  return row;
}
