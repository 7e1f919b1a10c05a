import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import { baseFor } from "./files/import.ts";
import * as models from "./service.ts";
import { type ModelRow, models as table } from "./table.ts";

/** Sets the base model of an adapter that is here, for the operator at the command line. */
export function chooseBase(ctx: Ctx, workspaceId: string, adapter: string, base: string): ModelRow {
  const row = models.mustGet(ctx, workspaceId, adapter);
  if (row.shape === null)
    throw new AppError("unsupported_state", `Model ${row.name} is ${row.status}: wait until its file is checked`);
  const chosen = baseFor(ctx, workspaceId, row.shape, base);
  if (!chosen) return row;
  const set = { baseModel: chosen.name, baseModelId: chosen.id, updatedAt: ctx.clock.now() };
  return write(ctx.db, (tx) => tx.update(table).set(set).where(eq(table.id, row.id)).returning().get());
}
