/** Row files: where they are, and how they are opened and deleted. */
import { mkdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { DatasetRow } from "../table.ts";
import type { RowsHandle } from "./open_rows.ts";

export const folderOf = (ctx: Ctx): string => {
  const dir = join(ctx.config.data_dir, "datasets");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return dir;
};
/** A stream has one file. A connected source has one for each snapshot, by `number`. */
export const pathOf = (ctx: Ctx, id: string, number?: number) =>
  join(folderOf(ctx), number === undefined ? `${id}.db` : `${id}.${number}.db`);
const PART = ".part";
/** The only folder that a child process which reads rows for this dataset may write to. */
export const partFolder = (ctx: Ctx, id: string) => join(folderOf(ctx), `${id}${PART}`);
/** Rows that a resolution has read so far. */
export const partPath = (ctx: Ctx, id: string) => join(partFolder(ctx, id), "rows.db");
export const discardPart = (ctx: Ctx, id: string) => rm(partFolder(ctx, id), { recursive: true, force: true });
export const pathFor = (ctx: Ctx, row: DatasetRow, number: number) =>
  pathOf(ctx, row.id, row.source ? number : undefined);

/** Opens a row file; the caller releases it. Returns undefined if there is no file and `create` is false. */
export const hold = (ctx: Ctx, path: string, { create = false } = {}): RowsHandle | undefined =>
  ctx.state.datasets.openRows.hold(path, create);

/** Opens the row file of a dataset that has rows. */
export function mustHold(ctx: Ctx, path: string): RowsHandle {
  const rows = hold(ctx, path);
  if (!rows) throw missing(path);
  return rows;
}

export function missing(path: string): AppError {
  const message = `The row file ${basename(path)}, or a part of it, is missing from the data directory: restore it from a backup`;
  return new AppError("storage_unavailable", message, { retryAfterSeconds: 60 });
}

/** Deletes a row file. Current readers can finish. */
export async function discard(ctx: Ctx, path: string) {
  ctx.state.datasets.openRows.discard(path);
  for (const suffix of ["", "-wal", "-shm"]) await rm(path + suffix, { force: true });
}

export const closeAll = (ctx: Ctx) => ctx.state.datasets.openRows.close();
