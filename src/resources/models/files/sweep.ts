/** What rows and files owe each other: no file of ours without a row, no ready row without its file. */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { and, eq, inArray, isNotNull, ne } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { write } from "../../../platform/db/db.ts";
import { parseHubName } from "../hub/name.ts";
import { machine } from "../machine.ts";
import { type ModelRow, models as table } from "../table.ts";

export const PARTS = join("models", ".downloads");
/** Sources whose files this server wrote; what lies in the models folder is the operator's. */
const OURS: ModelRow["source"][] = ["hub", "upload", "training_job"];
const STALE_PART_MS = 7 * 86_400_000;

/** Whether a row other than this one names the file. */
export const otherAt = (ctx: Ctx, path: string, exceptId: string) =>
  ctx.db
    .select()
    .from(table)
    .where(and(eq(table.path, path), ne(table.id, exceptId), ne(table.status, "deleted")))
    .get();

/** Repositories of which something is on its way: a download looks first whether the file is here already. */
function onTheWay(ctx: Ctx): Set<string | undefined> {
  const rows = ctx.db.select({ name: table.name }).from(table).where(eq(table.status, "downloading")).all();
  return new Set(rows.map(({ name }) => parseHubName(name)?.repo));
}

/** The part owner/repo of models/hub/owner/repo/file. */
const repoOf = (path: string) => path.split("/").slice(2, 4).join("/");

/** Files of deleted rows that no other row names. */
export async function removeUnused(ctx: Ctx) {
  const gone = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.status, "deleted"), inArray(table.source, OURS), isNotNull(table.path)))
    .all();
  for (const { id, path } of gone) {
    if (path !== null && onTheWay(ctx).has(repoOf(path))) continue; // the next look decides
    if (path !== null && !otherAt(ctx, path, id)) await rm(join(ctx.config.data_dir, path), { force: true });
    write(ctx.db, (tx) => tx.update(table).set({ path: null }).where(eq(table.id, id)).run());
  }
}

/** A file that somebody removed by hand: the row says so, and the next request fetches or sends it again. */
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

/** Beginnings that nobody went on with. */
export async function removeStaleParts(ctx: Ctx) {
  const dir = join(ctx.config.data_dir, PARTS);
  for (const name of await readdir(dir).catch(() => [])) {
    const there = await stat(join(dir, name)).catch(() => undefined);
    if (there && ctx.clock.now() - there.mtimeMs > STALE_PART_MS) await rm(join(dir, name), { force: true });
  }
}
