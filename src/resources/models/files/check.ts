/** A file that a row names → ready or failed. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { durable, write } from "../../../platform/db/db.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { inspect } from "./inspect.ts";

type Known = { sha256?: string | null };

/** Looks at the file and records what it is. Undefined when the look itself broke: the row waits for the next one. */
export async function settleFile(ctx: Ctx, id: string, path: string, known: Known = {}): Promise<ModelRow | undefined> {
  const full = join(ctx.config.data_dir, path);
  const before = await stat(full).catch(() => undefined);
  const found = await inspect(ctx, full, { hash: false });
  if (!found.ok && found.broken) {
    ctx.log.warn("a model file could not be checked", { model: id, error: found.error });
    return undefined;
  }
  const now = ctx.clock.now();
  const fileMtimeMs = Math.floor(before?.mtimeMs ?? 0);
  const row = write(ctx.db, (tx) => {
    if (found.ok) {
      const { shape, sizeBytes } = found;
      return models.accept(tx, id, { shape, sizeBytes, sha256: known.sha256 ?? null, fileMtimeMs, path }, now);
    }
    tx.update(table)
      .set({ fileMtimeMs, sizeBytes: before?.size ?? null, path })
      .where(eq(table.id, id))
      .run();
    return models.refuse(tx, id, found.error, now);
  });
  await durable(ctx.db);
  return row;
}
