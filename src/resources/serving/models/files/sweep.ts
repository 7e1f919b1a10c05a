/** Keeps rows and files consistent: no file of this server without a row, no ready row without its file. */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { and, eq, inArray, isNotNull, ne } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { parseHubName } from "../hub/name.ts";
import { machine } from "../machine.ts";
import { type ModelRow, models as table } from "../table.ts";

export const PARTS = join("models", ".downloads");
/** Sources whose files this server wrote. Files in the models folder belong to the operator. */
const OURS: ModelRow["source"][] = ["hub", "upload", "training_job", "quantized"];
const STALE_PART_MS = 7 * DAY_MS;

/** Another row that names the file. */
export const otherAt = (ctx: Ctx, path: string, exceptId: string) =>
  ctx.db
    .select()
    .from(table)
    .where(and(eq(table.path, path), ne(table.id, exceptId), ne(table.status, "deleted")))
    .get();

/** Repositories with a download: it may use a file that is here already. */
function downloadingRepos(ctx: Ctx): Set<string | undefined> {
  const rows = ctx.db.select({ name: table.hubName }).from(table).where(eq(table.status, "downloading")).all();
  return new Set(rows.map(({ name }) => parseHubName(name ?? "")?.repo));
}

/** The part owner/repo of models/hub/owner/repo/file. */
const repoOf = (path: string) => path.split("/").slice(2, 4).join("/");

/** Removes files of deleted rows that no other row names. */
export async function removeUnused(ctx: Ctx) {
  const deleted = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.status, "deleted"), inArray(table.source, OURS), isNotNull(table.path)))
    .all();
  for (const { id, path } of deleted) {
    if (path !== null && downloadingRepos(ctx).has(repoOf(path))) continue; // the next scan decides
    if (path !== null && !otherAt(ctx, path, id)) await rm(join(ctx.config.data_dir, path), { force: true });
    write(ctx.db, (tx) => tx.update(table).set({ path: null }).where(eq(table.id, id)).run());
  }
}

/** Marks rows whose file was removed by hand as `missing`. The next request downloads or uploads the file again. */
export async function noticeLost(ctx: Ctx) {
  const rows = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.status, "ready"), inArray(table.source, OURS)))
    .all();
  for (const { id, path } of rows) {
    if (await stat(join(ctx.config.data_dir, path ?? "")).catch(() => undefined)) continue;
    write(ctx.db, (tx) => transition(tx, machine, "lose", { id, now: ctx.clock.now() }));
  }
}

/** Removes parts of downloads that were given up. */
export async function removeStaleParts(ctx: Ctx) {
  const dir = join(ctx.config.data_dir, PARTS);
  for (const name of await readdir(dir).catch(() => [])) {
    const stats = await stat(join(dir, name)).catch(() => undefined);
    if (stats && ctx.clock.now() - stats.mtimeMs > STALE_PART_MS)
      await rm(join(dir, name), { recursive: true, force: true }); // a set of files has a folder
  }
}
