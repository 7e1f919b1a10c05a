import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../context.ts";
import { isId } from "../../lib/ids.ts";
import { durable } from "../../platform/db.ts";
import { cleanTemp } from "../../platform/files.ts";
import { discard, folderOf, makingOf } from "./files.ts";
import { endAbandoned, interrupted } from "./resolve.ts";
import * as datasets from "./service.ts";

const ABANDONED_MS = 24 * 3_600_000; // an upload that a crash cut off

/** Removes files of rows that no dataset names: of deleted ones, and of uploads that a crash cut off. */
export async function sweep(ctx: Ctx): Promise<number> {
  const dir = folderOf(ctx);
  await durable(ctx.db);
  endAbandoned(ctx);
  const making = makingOf(ctx.db);
  let removed = 0;
  for (const name of await readdir(dir)) {
    const [id = "", second] = name.split(".");
    if (!isId(id, "ds") || !name.endsWith(".db") || making.has(id)) continue;
    const row = datasets.current(ctx, id);
    const known = row && (second === "db" || second === "part" || Number(second) <= row.snapshotCount);
    if (known) continue;
    await discard(ctx, join(dir, name));
    removed++;
  }
  return removed + (await cleanTemp(dir, ABANDONED_MS, ctx.clock.now()));
}

/** At the start, when no upload and no reading can be under way: what the last process left half-made. */
export async function begin(ctx: Ctx) {
  interrupted(ctx);
  await cleanTemp(folderOf(ctx), 0, Number.POSITIVE_INFINITY);
}
