import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { isId } from "../../../../lib/ids.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import { durable } from "../../../../platform/db/db.ts";
import { cleanTemp } from "../../../../platform/files.ts";
import { endAbandoned, failInterrupted } from "../connected/resolve.ts";
import * as datasets from "../service.ts";
import { discard, discardPart, folderOf } from "./files.ts";

const ABANDONED_MS = DAY_MS; // No upload takes this long: the file is left from a crash.

/** Removes row files that belong to no dataset: the dataset was deleted, or a crash interrupted an upload. */
export async function sweep(ctx: Ctx): Promise<number> {
  const dir = folderOf(ctx);
  endAbandoned(ctx);
  const { making } = ctx.state.datasets;
  const isOrphan = (name: string) => {
    const [id = "", second = ""] = name.split(".");
    if (!isId(id, "ds") || making.has(id)) return false;
    const row = datasets.current(ctx, id);
    if (name === `${id}.part`) return !row; // the folder of a resolution
    return name.endsWith(".db") && (!row || !(second === "db" || Number(second) <= row.snapshotCount));
  };
  const names = new Set((await readdir(dir)).map((name) => name.replace(/-(wal|shm)$/, "")));
  const orphans = [...names].filter(isOrphan);
  await durable(ctx.db); // A deletion that is not on the disk yet may be lost, and the dataset with its rows is back.
  let removed = 0;
  for (const name of orphans) {
    if (!isOrphan(name)) continue;
    if (name.endsWith(".db")) await discard(ctx, join(dir, name));
    else await discardPart(ctx, name.slice(0, name.indexOf(".")));
    removed++;
  }
  return removed + (await cleanTemp(dir, ABANDONED_MS, ctx.clock.now()));
}

/** Runs at the start, before any upload or resolution: cleans up what the previous process left unfinished. */
export async function begin(ctx: Ctx) {
  failInterrupted(ctx);
  const dir = folderOf(ctx);
  for (const name of await readdir(dir)) {
    const [id = ""] = name.split(".");
    if (name === `${id}.part` && isId(id, "ds") && !datasets.current(ctx, id)) await discardPart(ctx, id); // of an upload
  }
  await cleanTemp(dir, 0, Number.POSITIVE_INFINITY);
}
