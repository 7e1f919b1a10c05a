/** Open row files. All readers and appends of a file share one connection; idle ones are closed. */
import { existsSync, mkdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { oncePer } from "../../../lib/once_per.ts";
import { openRows, type RowsFile } from "../../../platform/rows/file.ts";
import { createHashing } from "../../../platform/rows/hash.ts";
import type { DatasetRow } from "../table.ts";

const MOST_OPEN = 64;

export type Opened = {
  file: RowsFile;
  hashing: ReturnType<typeof createHashing>;
  users: number;
  /** False after opening and after a failed append: rows beyond the head may be left and must be cut off. */
  clean: boolean;
  /** The file was deleted: its last user closes it. */
  discarded: boolean;
};
export type RowsHandle = Pick<Opened, "file" | "hashing"> & { opened: Opened; release: () => void };

export const folderOf = (ctx: Ctx): string => {
  const dir = join(ctx.config.data_dir, "datasets");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return dir;
};
/** A stream has one file. A connected source has one for each snapshot, by `number`. */
export const pathOf = (ctx: Ctx, id: string, number?: number) =>
  join(folderOf(ctx), number === undefined ? `${id}.db` : `${id}.${number}.db`);
const PART = ".part";
/** Rows that a resolution has read so far. Their folder is the only one that the connector may write to. */
export const partPath = (ctx: Ctx, id: string) => join(folderOf(ctx), `${id}${PART}`, "rows.db");
export const discardPart = (ctx: Ctx, id: string) =>
  rm(join(folderOf(ctx), `${id}${PART}`), { recursive: true, force: true });
export const pathFor = (ctx: Ctx, row: DatasetRow, number: number) =>
  pathOf(ctx, row.id, row.source ? number : undefined);

/** Datasets whose row file has its final name, but whose row is not committed yet. The sweep spares them. */
export const makingOf = oncePer((_db: Ctx["db"]) => new Set<string>());

const openOf = oncePer((_db: Ctx["db"]) => new Map<string, Opened>());

/** Opens a row file; the caller releases it. Returns undefined if there is no file and `create` is false. */
export function hold(ctx: Ctx, path: string, { create = false } = {}): RowsHandle | undefined {
  const open = openOf(ctx.db);
  let opened = open.get(path);
  if (!opened) {
    if (!create && !existsSync(path)) return undefined;
    const file = openRows(path, "append");
    opened = { file, hashing: createHashing(file), users: 0, clean: false, discarded: false };
    evict(open);
  } else open.delete(path);
  open.set(path, opened); // The map is in order of use: the file used last comes last.
  opened.users++;
  const one = opened;
  let released = false;
  const release = () => {
    if (released) return;
    released = true;
    one.users--;
    if (one.discarded && one.users === 0) one.file.close();
  };
  return { file: opened.file, hashing: opened.hashing, opened, release };
}

/** Opens the row file of a dataset that has rows. */
export function mustHold(ctx: Ctx, path: string): RowsHandle {
  const rows = hold(ctx, path);
  if (rows) return rows;
  const message = `The row file ${basename(path)} is missing from the data directory: restore it from a backup`;
  throw new AppError("storage_unavailable", message, { retryAfterSeconds: 60 });
}

function evict(open: Map<string, Opened>) {
  for (const [path, { file, users }] of open) {
    if (open.size < MOST_OPEN) return;
    if (users > 0) continue;
    open.delete(path);
    file.close();
  }
}

/** Deletes a row file. Current readers can finish; the file is not opened again. */
export async function discard(ctx: Ctx, path: string) {
  const open = openOf(ctx.db);
  const opened = open.get(path);
  if (opened) {
    open.delete(path);
    opened.discarded = true;
    if (opened.users === 0) opened.file.close();
  }
  for (const suffix of ["", "-wal", "-shm"]) await rm(path + suffix, { force: true });
}

export function closeAll(ctx: Ctx) {
  const open = openOf(ctx.db);
  for (const { file } of open.values()) file.close();
  open.clear();
}
