/** Deletes models. The row stays, because deployments name it; the next scan removes the file of a workspace's model. */
import { rmSync } from "node:fs";
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import * as uploads from "../../data/uploads/service.ts";
import { machine } from "./machine.ts";
import { projectorPath } from "./projector.ts";
import { mustBeUnused } from "./registry/dependents.ts";
import * as models from "./service.ts";
import { type ModelRow, models as table } from "./table.ts";

/** Only a model of the workspace can be deleted: files in the models folder belong to the operator. */
export function remove(ctx: Ctx, workspaceId: string, name: string): ModelRow {
  const row = models.mustGet(ctx, workspaceId, name);
  if (row.workspaceId === null) {
    const fix =
      row.source === "builtin"
        ? "a built-in model cannot be deleted"
        : `the operator can remove its file (${row.path})`;
    throw new AppError("unsupported_state", `Model ${row.name} belongs to the installation: ${fix}`, { param: "id" });
  }
  mustBeUnused(ctx, row);
  return drop(ctx, row);
}

/**
 * For the operator at the command line: also deletes a model of the models folder, with its file. The file goes first:
 * after a kill the model is `missing`, and can be deleted again.
 */
export function removeAsOperator(ctx: Ctx, workspaceId: string, name: string): ModelRow {
  const row = models.mustGet(ctx, workspaceId, name);
  if (row.workspaceId !== null || row.source === "builtin") return remove(ctx, workspaceId, name);
  mustBeUnused(ctx, row);
  if (row.path !== null) {
    rmSync(models.pathOf(ctx, row), { force: true });
    rmSync(projectorPath(models.pathOf(ctx, row)), { force: true });
  }
  return drop(ctx, row);
}

function drop(ctx: Ctx, row: ModelRow): ModelRow {
  const patch = { name: `${row.name} (deleted ${row.id})`, progress: null };
  const now = ctx.clock.now();
  const dropped = write(ctx.db, (tx) => {
    uploads.abortAll(tx, row.id, now);
    return transition(tx, machine, "remove", { id: row.id, now }, patch);
  });
  ctx.state.models.quantizing.get(row.id)?.abort();
  ctx.wake("models.scan"); // removes the file, which no row names any more
  return dropped ?? row;
}

/** Called when the workspace is deleted, after its deployments were stopped. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), models.here))
    .all();
  for (const row of rows) drop(ctx, row);
}
