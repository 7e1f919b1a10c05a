/** Deletes models. The row stays, because deployments name it; the next scan removes the file of a workspace's model. */
import { rmSync } from "node:fs";
import { and, eq, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import * as uploads from "../../data/uploads/service.ts";
import { machine } from "./machine.ts";
import { projectorPath } from "./projector.ts";
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

/**
 * Adapters of the workspace that cannot be served without this model; of all workspaces if the model belongs to the
 * installation. Uploaded ones know its name only.
 */
const adaptersOf = (ctx: Ctx, workspaceId: string | null, baseModelId: string): ModelRow[] =>
  ctx.db
    .select()
    .from(table)
    .where(and(workspaceId === null ? undefined : eq(table.workspaceId, workspaceId), models.here))
    .all()
    .filter((row) => row.shape?.type === "adapter" && isRecordedBase(ctx, row, baseModelId));

const isRecordedBase = (ctx: Ctx, row: ModelRow, baseModelId: string) =>
  (row.baseModelId ?? row.baseModel) !== null && models.baseOf(ctx, row.workspaceId ?? "", row)?.id === baseModelId;

function mustBeUnused(ctx: Ctx, { id, name, workspaceId }: ModelRow) {
  const refuse = (why: string) => {
    throw new AppError("unsupported_state", why, { param: "id" });
  };
  const one = (query: SQL) => ctx.db.get<[string] | undefined>(query)?.[0];
  const deployment = one(
    sql`SELECT name FROM deployments WHERE (model_id = ${id} OR json_extract(next_model, '$.modelId') = ${id}) AND status NOT IN ('stopped', 'failed') LIMIT 1`,
  );
  if (deployment)
    refuse(`Deployment ${deployment} uses model ${name}: stop it first with \`verk deployments stop ${deployment}\``);
  const job = one(
    sql`SELECT id FROM training_jobs WHERE (base_model_id = ${id} OR start_model_id = ${id}) AND completed_at IS NULL LIMIT 1`,
  );
  if (job) refuse(`Training job ${job} trains on model ${name}: cancel it first, or wait until it has ended`);
  const adapters = adaptersOf(ctx, workspaceId, id).map((row) => `${row.name} (${row.id})`);
  if (adapters.length > 0)
    refuse(
      `Model ${name} is the base model of ${listed(adapters)}: delete ${adapters.length === 1 ? "it" : "them"} first`,
    );
}

const listed = (names: string[]) =>
  names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", ");
