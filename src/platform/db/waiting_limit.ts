import type { SQL } from "drizzle-orm";
import type { AnySQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { AppError } from "../../lib/errors.ts";
import type { Config } from "../config/config.ts";
import type { Db, Tx } from "./db.ts";

type Kind = keyof Config["queues"];
type Queue = SQLiteTable & { id: AnySQLiteColumn };

const RETRY_SECONDS = 60;
const NAMES: Record<Kind, string> = {
  experiments: "experiments",
  batches: "batches",
  responses: "background responses",
  detection_batches: "detection batches",
  downloads: "downloads",
  exports: "exports",
  pushes: "pushes to the hub",
};

/** 429 if the workspace has as many unfinished rows as it may. `mine`: the unfinished rows of the workspace. */
export function limitWaiting(
  { db, config }: { db: Db | Tx; config: Pick<Config, "queues"> },
  kind: Kind,
  table: Queue,
  mine: SQL | undefined,
) {
  const most = config.queues[kind];
  const last = db
    .select({ id: table.id })
    .from(table as SQLiteTable)
    .where(mine)
    .limit(1)
    .offset(most - 1)
    .get();
  if (!last) return;
  throw new AppError(
    "queue_full",
    `This workspace has ${most} ${NAMES[kind]} that have not ended, and may have no more (queues.${kind}): wait until some have ended, or cancel some`,
    { retryAfterSeconds: RETRY_SECONDS },
  );
}
