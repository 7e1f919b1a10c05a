/** A volume as a directory of this machine, and changes of that directory as files of the volume. */
import { constants, copyFile, link } from "node:fs/promises";
import { and, asc, eq, gt } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { take } from "../../http/body/receive.ts";
import { type Chunks, errorCode, writeStreamAtomic } from "../../platform/files.ts";
import type { Filled } from "../../sandbox/files/stage.ts";
import * as looseKeys from "../loose_keys/service.ts";
import { into, type Kept, keep, keyFor, requireRoom } from "./content.ts";
import { roomFor } from "./quota.ts";
import { type VolumeFileRow, type VolumeRow, volumeFiles } from "./table.ts";

const PAGE = 1_000;

/** By path, in pieces: of what is there as each piece is read. */
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
 * The content at a path that does not exist. `share`: as a second name of the stored content where that is a file;
 * only for what nobody can write to through that name, or change its mode. `gone`: from the volume, since it was looked
 * up.
 */
export async function copyOut(
  ctx: Ctx,
  file: VolumeFileRow,
  to: string,
  { share }: { share: boolean },
): Promise<Filled> {
  const opened = await ctx.storage.get(file.storageKey);
  if (!opened) return "gone";
  if (opened.path === undefined) {
    await writeStreamAtomic(to, opened.stream);
    return "copied";
  }
  await opened.stream.cancel();
  if (share && (await linked(opened.path, to))) return "shared";
  await copyFile(opened.path, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
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

/** A file of the volume, new or in place of the old one, as an upload would make it. */
export async function takeIn(ctx: Ctx, volume: VolumeRow, { path, sizeBytes, body }: Incoming): Promise<Kept> {
  requireRoom(ctx, volume, path);
  const maxBytes = roomFor(ctx, volume, { path, sizeBytes, param: "path" });
  const key = keyFor(volume, ctx.clock.now());
  return looseKeys.store(ctx, {
    key,
    put: () => take({ maxBytes }, (options) => into(ctx, key)(body, options)),
    own: (tx, written) => keep(ctx, tx, volume, { path, contentType: null, key, ...written }),
  });
}
