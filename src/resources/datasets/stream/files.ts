/** The open files of rows. One connection each, shared by all who read and append; idle ones are closed. */
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

type Opened = {
  file: RowsFile;
  hashing: ReturnType<typeof createHashing>;
  users: number;
  /** Whether what lies beyond the head was cut off since this process opened the file, and since the last failure. */
  clean: boolean;
  doomed: boolean;
};
export type Held = Pick<Opened, "file" | "hashing"> & { opened: Opened; release: () => void };

export const folderOf = (ctx: Ctx): string => {
  const dir = join(ctx.config.data_dir, "datasets");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return dir;
};
/** A stream has one file; of a connected source each snapshot has its own. */
export const pathOf = (ctx: Ctx, id: string, number?: number) =>
  join(folderOf(ctx), number === undefined ? `${id}.db` : `${id}.${number}.db`);
const PART = ".part";
/** What a reading of a connected source has got so far: in a folder of its own, the only one that the connector writes. */
export const partPath = (ctx: Ctx, id: string) => join(folderOf(ctx), `${id}${PART}`, "rows.db");
export const discardPart = (ctx: Ctx, id: string) =>
  rm(join(folderOf(ctx), `${id}${PART}`), { recursive: true, force: true });
export const pathFor = (ctx: Ctx, row: DatasetRow, number: number) =>
  pathOf(ctx, row.id, row.source ? number : undefined);

/** Files that have their name already and whose dataset is about to be recorded. */
export const makingOf = oncePer((_db: Ctx["db"]) => new Set<string>());

const openOf = oncePer((_db: Ctx["db"]) => new Map<string, Opened>());

/** Undefined where no row was ever written, unless `create`. Release it. */
export function hold(ctx: Ctx, path: string, { create = false } = {}): Held | undefined {
  const open = openOf(ctx.db);
  let opened = open.get(path);
  if (!opened) {
    if (!create && !existsSync(path)) return undefined;
    const file = openRows(path, "append");
    opened = { file, hashing: createHashing(file), users: 0, clean: false, doomed: false };
    evict(open);
  } else open.delete(path);
  open.set(path, opened); // youngest
  opened.users++;
  const one = opened;
  let held = true;
  const release = () => {
    if (!held) return;
    held = false;
    one.users--;
    if (one.doomed && one.users === 0) one.file.close();
  };
  return { file: opened.file, hashing: opened.hashing, opened, release };
}

/** The rows of a dataset that has some. */
export function mustHold(ctx: Ctx, path: string): Held {
  const held = hold(ctx, path);
  if (held) return held;
  const message = `${basename(path)} is missing from the data directory: put it back from a backup`;
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

/** Whoever still reads it reads on; nobody else finds it. */
export async function discard(ctx: Ctx, path: string) {
  const open = openOf(ctx.db);
  const opened = open.get(path);
  if (opened) {
    open.delete(path);
    opened.doomed = true;
    if (opened.users === 0) opened.file.close();
  }
  for (const suffix of ["", "-wal", "-shm"]) await rm(path + suffix, { force: true });
}

export function closeAll(ctx: Ctx) {
  const open = openOf(ctx.db);
  for (const { file } of open.values()) file.close();
  open.clear();
}
