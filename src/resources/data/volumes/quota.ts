/** The quota of a workspace. It is checked in the commit that uses it, so two requests cannot take the last byte. */
import { and, eq, gt, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import { AppError } from "../../../lib/errors.ts";
import { quotaOf } from "../../../platform/config/quotas.ts";
import type { Db } from "../../../platform/db/db.ts";
import { mustLeaveSpace } from "../../../platform/machine/disk.ts";
import type { OpenMeter } from "../../../platform/storage/meter.ts";
import { spaceMeter, usedBytes } from "../storage_usage/service.ts";
import { isLive } from "../uploads/service.ts";
import { type UploadRow, uploadParts, uploads } from "../uploads/table.ts";
import { findFile } from "./service.ts";
import type { VolumeRow } from "./table.ts";

/** Bytes of open uploads: the announced size, or the parts that have arrived. */
const reservedBytes = (db: Db, workspaceId: string, { now, except }: { now: number; except: string }): number =>
  db
    .select({ bytes: sql<number>`coalesce(sum(coalesce(${uploads.sizeBytes}, ${PARTS})), 0)` })
    .from(uploads)
    .where(
      and(
        eq(uploads.workspaceId, workspaceId),
        isLive,
        eq(uploads.purpose, "volume"),
        gt(uploads.expiresAt, now),
        ne(uploads.id, except),
      ),
    )
    .get()?.bytes ?? 0;

const PARTS = sql`(SELECT sum(${uploadParts.sizeBytes}) FROM ${uploadParts} WHERE ${uploadParts.uploadId} = ${uploads.id})`;

export type NewFile = {
  path: string;
  /** Undefined for an unknown size: the file may use all space that is left. */
  sizeBytes: number | undefined;
  /** The upload that reserved the space. It is not counted twice. */
  uploadId?: string;
  /** Names the field in an error. */
  param?: string;
};

/** Returns how large the file may be. Throws if it is larger. The space of the file that it replaces counts as free. */
export function roomFor(ctx: Ctx, volume: VolumeRow, newFile: NewFile): number {
  const { max_file_bytes: most } = ctx.config.volumes;
  const { most: quota, setting } = quotaOf(ctx.config, volume.workspaceId, "volume_bytes");
  const { sizeBytes, param = "/size_bytes" } = newFile;
  if (sizeBytes !== undefined && sizeBytes > most)
    throw new AppError("payload_too_large", `A file may have at most ${formatBytes(most)} (volumes.max_file_bytes)`, {
      param,
    });
  mustLeaveSpace(ctx, sizeBytes);
  if (quota === 0) return sizeBytes ?? most;
  const { used, reserved, replaced } = countsOf(ctx, volume, newFile);
  const room = Math.max(0, quota - used - reserved + replaced);
  if ((sizeBytes ?? 1) > room)
    throw full(
      sizeBytes === undefined ? "The file" : `A file of ${sizeBytes} bytes`,
      { quota, setting, used, reserved },
      param,
    );
  return sizeBytes ?? Math.min(most, room);
}

function countsOf(ctx: Ctx, volume: VolumeRow, { path, uploadId = "" }: Pick<NewFile, "path" | "uploadId">) {
  const { workspaceId } = volume;
  return {
    used: usedBytes(ctx.db, { workspaceId, kind: "volumes" }),
    reserved: reservedBytes(ctx.db, workspaceId, { now: ctx.clock.now(), except: uploadId }),
    replaced: findFile(ctx, volume, path)?.sizeBytes ?? 0,
  };
}

type Full = { quota: number; setting: string; used: number; reserved: number };

const full = (file: string, { quota, setting, used, reserved }: Full, param: string) =>
  new AppError(
    "quota_exceeded",
    `${file} cannot be stored: the volumes of this workspace may hold ${quota} bytes, ` +
      `${used} are in use and ${reserved} reserved. Delete files, or ask the operator to raise ${setting}`,
    { param },
  );

type Incoming = {
  path: string;
  upload?: Pick<UploadRow, "sizeBytes">;
  /** The size of an earlier copy of the same part. */
  replacedPart?: number;
};

/**
 * Counts a file while it is written. An upload with an announced size has its room already. The commit calls `roomFor`
 * once more, because the room may have become smaller.
 */
export function meterFor(ctx: Ctx, volume: VolumeRow, { path, upload, replacedPart = 0 }: Incoming): OpenMeter {
  const { most: quota, setting } = quotaOf(ctx.config, volume.workspaceId, "volume_bytes");
  if (quota === 0 || (upload && upload.sizeBytes !== null)) return spaceMeter(ctx);
  const counts = () => countsOf(ctx, volume, { path });
  return ctx.state.storageUsage.meters.open({
    key: [volume.workspaceId, "volumes", ""].join(" "),
    most: quota,
    used() {
      const { used, reserved, replaced } = counts();
      return used + reserved - replaced - replacedPart;
    },
    refusal(bytes, others) {
      const { used, reserved } = counts();
      return full(`A file of ${bytes} bytes`, { quota, setting, used, reserved: reserved + others }, "path");
    },
    mustFit() {},
  });
}
