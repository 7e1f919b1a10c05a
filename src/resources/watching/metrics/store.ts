/** Stores counters every few seconds, and last of all before the database closes. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type Db, durable, prepared, write } from "../../../platform/db/db.ts";
import { allFamilies, allSeries, forget, isDirty, restore, type Series } from "../../../platform/metrics.ts";
import { counters } from "./table.ts";

/** Adds what earlier processes had counted, once. */
export function load({ db, state }: Pick<Ctx, "db" | "state">): void {
  if (state.metrics.isLoaded) return;
  state.metrics.isLoaded = true;
  for (const row of db.select().from(counters).all()) restore(db, row);
}

const put = prepared((db) =>
  db.$client.prepare<unknown, [string, string, string, string, number]>(
    `INSERT INTO counters (name, workspace_id, labels, counted, updated_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET counted = excluded.counted, updated_at = excluded.updated_at`,
  ),
);

/** Writes what was counted. A scrape shows it only once it is on the disk. */
export async function store(ctx: Pick<Ctx, "db" | "clock" | "state">): Promise<void> {
  const { db } = ctx;
  load(ctx);
  const due = livingSeries(db).filter(isDirty);
  if (due.length === 0) return;
  const now = ctx.clock.now();
  const kept = due.map((series) => [series, [...series.counted]] as const);
  write(db, (tx) => {
    for (const [{ family, workspaceId, labels }, counted] of kept)
      put(tx).run(family.name, workspaceId, JSON.stringify(labels), JSON.stringify(counted), now);
  });
  await durable(db);
  for (const [series, counted] of kept) series.stored = counted;
}

const deletedAmong = prepared((db) =>
  db.$client.prepare<{ id: string }, [string]>(
    "SELECT w.id FROM json_each(?) AS s CROSS JOIN workspaces AS w ON w.id = s.value WHERE w.status = 'deleted'",
  ),
);

/**
 * Series of deleted workspaces are removed here and on the disk. Only workspaces that have series are looked up: deleted
 * workspaces keep their rows for a year, so there may be many.
 */
function livingSeries(db: Db): Series[] {
  const all = allFamilies().flatMap(({ name }) => allSeries(db, name));
  const owners = [...new Set(all.map(({ workspaceId }) => workspaceId))];
  const deletedIds = new Set(
    deletedAmong(db)
      .all(JSON.stringify(owners))
      .map(({ id }) => id),
  );
  if (deletedIds.size === 0) return all;
  write(db, (tx) => {
    for (const id of deletedIds) tx.delete(counters).where(eq(counters.workspaceId, id)).run();
  });
  forget(db, deletedIds);
  return all.filter(({ workspaceId }) => !deletedIds.has(workspaceId));
}
