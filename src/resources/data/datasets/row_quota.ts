import { eq, sum } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { quotaOf } from "../../../platform/config/quotas.ts";
import { datasets } from "./table.ts";

type NewRows = { workspaceId: string; rows: number; param: string };

/** 422 if the datasets of the workspace would have more rows than its quota. Called in the commit that keeps them. */
export function mustFitRows({ db, config }: Pick<Ctx, "db" | "config">, { workspaceId, rows, param }: NewRows) {
  const { most, setting } = quotaOf(config, workspaceId, "dataset_rows");
  if (most === 0) return;
  const held = db
    .select({ rows: sum(datasets.liveRows).mapWith(Number) })
    .from(datasets)
    .where(eq(datasets.workspaceId, workspaceId))
    .get();
  const used = held?.rows ?? 0;
  if (used + rows <= most) return;
  throw new AppError(
    "quota_exceeded",
    `${rows} rows cannot be stored: the datasets of this workspace may hold ${most} rows (${setting}), and ${used} are in use. Delete some, or ask the operator to raise the setting`,
    { param },
  );
}
