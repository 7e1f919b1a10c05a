/** Names of models. A model of the workspace must not hide one of the installation. */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { emit } from "../../../../events/emit.ts";
import { AppError } from "../../../../lib/errors.ts";
import { write } from "../../../../platform/db/db.ts";
import { withUniqueName } from "../../../../platform/db/errors.ts";
import { present } from "../schema.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";

/** Runs `work`, whose commit gives a model of the workspace this name. */
export function withName<T>(ctx: Ctx, workspaceId: string, name: string, work: () => T): T {
  const quoted = JSON.stringify(name);
  if (models.find(ctx, workspaceId, name)?.workspaceId === null)
    throw new AppError("name_taken", `A model named ${quoted} exists in this installation: choose another name`, {
      param: "/name",
    });
  return withUniqueName(`A model named ${quoted} exists: choose another name`, work);
}

/** Uploaded adapters know their base model by its name alone, so they follow. Jobs keep the name that they were created with. */
export function rename(ctx: Ctx, workspaceId: string, id: string, name: string): ModelRow {
  const row = models.mustGet(ctx, workspaceId, id);
  if (row.workspaceId === null)
    throw new AppError("unsupported_state", `Model ${row.name} belongs to the installation and keeps its name`, {
      param: "id",
    });
  if (row.name === name) return row;
  const now = ctx.clock.now();
  const own = eq(table.workspaceId, workspaceId);
  return withName(ctx, workspaceId, name, () =>
    write(ctx.db, (tx) => {
      const renamed = tx.update(table).set({ name, updatedAt: now }).where(eq(table.id, row.id)).returning().get();
      const isNamed = and(own, isNull(table.baseModelId), eq(table.baseModel, row.name));
      tx.update(table).set({ baseModel: name }).where(isNamed).run();
      tx.update(table)
        .set({ baseModel: name })
        .where(and(own, eq(table.baseModelId, row.id)))
        .run();
      emit(tx, "model.updated", { workspaceId, now }, present(renamed));
      return renamed;
    }),
  );
}
