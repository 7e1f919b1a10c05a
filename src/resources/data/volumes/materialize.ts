/** Copies volumes into directories of this machine, and changed files back into volumes. */
import { constants, copyFile, link } from "node:fs/promises";
import { and, asc, eq, gt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { take } from "../../../http/body/receive.ts";
import { type Chunks, errorCode, writeStreamAtomic } from "../../../platform/files.ts";
import type { Filled } from "../../../sandbox/files/stage.ts";
import * as looseKeys from "../loose_keys/service.ts";
import { spaceMeter } from "../storage_usage/service.ts";
import { into, keep, keyFor, requireRoom, type StoredFile } from "./content.ts";
import { meterFor, roomFor } from "./quota.ts";
import { type VolumeFileRow, type VolumeRow, volumeFiles } from "./table.ts";

const PAGE = 1_000;

/** Lists the files by path, page by page. Changes between two pages are visible. */
export function* filesOf(ctx: Pick<Ctx, "db">, volume: Pick<VolumeRow, "id">): Generator<VolumeFileRow> {
  for (let after = ""; ; ) {
    const page = ctx.db
      .select()
      .from(volumeFiles)
      .where(and(eq(volumeFiles.volumeId, volume.id), gt(volumeFiles.path, after)))
      .orderBy(asc(volumeFiles.path))
      .limit(PAGE)
      .all();
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < PAGE) return;
    after = last.path;
  }
}

/**
 * Writes the content to a path that does not exist yet. With `share` the path may become a hard link to the stored
 * content: only for a path through which no one can write or change the mode. Returns `gone` if the file was deleted
 * since it was listed.
 */
export async function copyOut(
  ctx: Ctx,
  file: VolumeFileRow,
  to: string,
  { share }: { share: boolean },
): Promise<Filled> {
  const opened = await ctx.storage.get(file.storageKey);
  if (!opened) return "gone";
  using meter = spaceMeter(ctx);
  if (!opened.file) {
    await writeStreamAtomic(to, opened.stream, { meter });
    return "copied";
  }
  await opened.stream.cancel();
  const path = await opened.file();
  if (share && (await linked(path, to))) return "shared";
  meter.take(opened.totalBytes);
  await copyFile(path, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  return "copied";
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (["EXDEV", "EMLINK", "EPERM", "ENOTSUP", "ENOENT"].includes(errorCode(error) ?? "")) return false;
    throw error;
  }
}

export type Incoming = { path: string; sizeBytes: number; body: Chunks };

/** Creates or replaces a file of the volume, as an upload does. */
export async function takeIn(ctx: Ctx, volume: VolumeRow, { path, sizeBytes, body }: Incoming): Promise<StoredFile> {
  requireRoom(ctx, volume, path);
  const maxBytes = roomFor(ctx, volume, { path, sizeBytes, param: "path" });
  const key = keyFor(volume, ctx.clock.now());
  using meter = meterFor(ctx, volume, { path });
  return await looseKeys.store(ctx, {
    key,
    put: () => take({ maxBytes }, (options) => into(ctx, key, meter)(body, options)),
    own: (tx, written) => keep(ctx, tx, volume, { path, contentType: null, key, meter, ...written }),
  });
}
