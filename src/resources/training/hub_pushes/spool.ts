/**
 * Files on their way to a hub, in `pushes/<push>/` of the data directory. A finished file has its hash in its name, so
 * that a push which goes on after a kill reads it no second time.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { renameDurably, sha256File, tempPath, writeTemp } from "../../../platform/files.ts";
import { spaceMeter } from "../../data/storage_usage/service.ts";
import type { PushedFile } from "./contents.ts";

const ROOT = "pushes";
const dirOf = (ctx: Ctx, id: string) => join(ctx.config.data_dir, ROOT, id);

export type Spooled = { path: string; sha256: string };

/** The file on the disk with its hash. Throws StorageError if the disk is full. */
export async function spool(ctx: Ctx, id: string, file: PushedFile): Promise<Spooled> {
  if (file.disk !== undefined) return { path: file.disk, sha256: await sha256File(file.disk) };
  const dir = dirOf(ctx, id);
  const stem = createHash("sha256").update(file.path).digest("hex").slice(0, 16);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const made = (await readdir(dir)).find((name) => name.startsWith(`${stem}-`));
  if (made !== undefined) return { path: join(dir, made), sha256: made.slice(stem.length + 1) };
  using meter = spaceMeter(ctx);
  meter.expect(file.size);
  const temp = tempPath(dir);
  try {
    const { bytes, sha256 } = await writeTemp(temp, await file.open(0, file.size), { meter, maxBytes: file.size });
    if (bytes !== file.size) throw new Error(`${file.path} has ${bytes} bytes instead of ${file.size}`);
    const path = join(dir, `${stem}-${sha256}`);
    await renameDurably(temp, path);
    return { path, sha256 };
  } catch (error) {
    await rm(temp, { force: true });
    throw error;
  }
}

/** The hub has the file. */
export async function dropSpooled({ disk }: PushedFile, { path }: Spooled) {
  if (disk === undefined) await rm(path, { force: true });
}

export const removeSpool = (ctx: Ctx, id: string) => rm(dirOf(ctx, id), { recursive: true, force: true });

/** Removes what pushes left that are over. */
export async function sweepSpool(ctx: Ctx, isOpen: (id: string) => boolean) {
  const names = await readdir(join(ctx.config.data_dir, ROOT)).catch(() => []);
  for (const id of names) if (!isOpen(id)) await removeSpool(ctx, id);
}
