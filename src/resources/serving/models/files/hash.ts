/** Computes the sha256 of files in the models folder in the background. The model can be used before. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { write } from "../../../../platform/db/db.ts";
import { type ModelRow, models as table } from "../table.ts";
import { inspect } from "./inspect.ts";

export async function hashNew(ctx: Ctx, signal?: AbortSignal) {
  const due = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.source, "folder"), eq(table.status, "ready"), isNull(table.sha256)))
    .all();
  for (const row of due) if (!signal?.aborted) await hashOne(ctx, row, signal);
}

async function hashOne(ctx: Ctx, row: ModelRow, signal: AbortSignal | undefined) {
  const path = join(ctx.config.data_dir, row.path ?? "");
  const inspection = await Promise.race([inspect(ctx, path, { workspaceId: "", hash: true }), aborted(signal)]);
  const after = await stat(path).catch(() => undefined);
  const same = after?.size === row.sizeBytes && Math.floor(after?.mtimeMs ?? -1) === row.fileMtimeMs;
  if (!inspection?.ok || !same) return; // the file has changed: the next scan inspects it again
  write(ctx.db, (tx) =>
    tx
      .update(table)
      .set({ sha256: inspection.sha256, updatedAt: ctx.clock.now() })
      .where(and(eq(table.id, row.id), eq(table.path, row.path ?? ""), isNull(table.sha256)))
      .run(),
  );
}

const aborted = (signal: AbortSignal | undefined) =>
  new Promise<undefined>((resolve) => signal?.addEventListener("abort", () => resolve(undefined), { once: true }));
