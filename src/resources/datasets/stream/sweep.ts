import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { isId } from "../../../lib/ids.ts";
import { durable } from "../../../platform/db/db.ts";
import { cleanTemp } from "../../../platform/files.ts";
import { endAbandoned, interrupted } from "../connected/resolve.ts";
import * as datasets from "../service.ts";
import { discard, discardPart, folderOf, makingOf } from "./files.ts";

const ABANDONED_MS = 24 * 3_600_000; // an upload that a crash cut off

/** Removes files of rows that no dataset names: of deleted ones, and of uploads that a crash cut off. */
export async function sweep(ctx: Ctx): Promise<number> {
  const dir = folderOf(ctx);
  endAbandoned(ctx);
  const making = makingOf(ctx.db);
  const isOrphan = (name: string) => {
    const [id = "", second = ""] = name.split(".");
    if (!isId(id, "ds") || making.has(id)) return false;
    const row = datasets.current(ctx, id);
    if (name === `${id}.part`) return !row; // the folder of a reading
    return name.endsWith(".db") && (!row || !(second === "db" || Number(second) <= row.snapshotCount));
  };
  const names = new Set((await readdir(dir)).map((name) => name.replace(/-(wal|shm)$/, "")));
  const orphans = [...names].filter(isOrphan);
  await durable(ctx.db); // one that was deleted just now may yet come back
  let removed = 0;
  for (const name of orphans) {
    if (!isOrphan(name)) continue;
    if (name.endsWith(".db")) await discard(ctx, join(dir, name));
    else await discardPart(ctx, name.slice(0, name.indexOf(".")));
    removed++;
  }
  return removed + (await cleanTemp(dir, ABANDONED_MS, ctx.clock.now()));
}

/** At the start, when no upload and no reading can be under way: what the last process left half-made. */
export async function begin(ctx: Ctx) {
  interrupted(ctx);
  await cleanTemp(folderOf(ctx), 0, Number.POSITIVE_INFINITY);
}
