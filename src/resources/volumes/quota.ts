/** What a workspace may keep. Decided from the rows inside the commit that spends it, so two cannot take the last byte. */
import { and, eq, gt, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { formatBytes } from "../../lib/bytes.ts";
import { AppError } from "../../lib/errors.ts";
import type { Db } from "../../platform/db/db.ts";
import { mustLeaveSpace } from "../../platform/machine/disk.ts";
import { usedBytes } from "../storage_usage/service.ts";
import { isLive } from "../uploads/service.ts";
import { uploadParts, uploads } from "../uploads/table.ts";
import { findFile } from "./service.ts";
import type { VolumeRow } from "./table.ts";

/** By uploads that may still come: what they announced, or else the parts that are here. */
const reserved = (db: Db, workspaceId: string, { now, except }: { now: number; except: string }): number =>
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

export type Wish = {
  path: string;
  /** Undefined: as much as there is room. */
  sizeBytes: number | undefined;
  /** The upload that reserved it: not counted twice. */
  uploadId?: string;
  /** Names the field in an error. */
  param?: string;
};

/** How large the file may be; throws when the wish is larger. What it replaces makes room for it. */
export function roomFor(ctx: Ctx, volume: VolumeRow, wish: Wish): number {
  const { max_file_bytes: most, quota_bytes: quota } = ctx.config.volumes;
  const { sizeBytes, param = "/size_bytes" } = wish;
  if (sizeBytes !== undefined && sizeBytes > most)
    throw new AppError("payload_too_large", `A file may have ${formatBytes(most)} (volumes.max_file_bytes)`, { param });
  mustLeaveSpace(ctx, sizeBytes);
  if (quota === 0) return sizeBytes ?? most;
  const held = reserved(ctx.db, volume.workspaceId, { now: ctx.clock.now(), except: wish.uploadId ?? "" });
  const kept = usedBytes(ctx.db, { workspaceId: volume.workspaceId, kind: "volumes" });
  const replaced = findFile(ctx, volume, wish.path)?.sizeBytes ?? 0;
  const room = Math.max(0, quota - kept - held + replaced);
  if ((sizeBytes ?? 1) > room)
    throw new AppError(
      "quota_exceeded",
      `${sizeBytes === undefined ? "The file" : `${sizeBytes} bytes`} cannot be kept: the volumes of this workspace may hold ${quota} bytes, ` +
        `${kept} are in use and ${held} reserved. Delete files, or have volumes.quota_bytes raised`,
      { param },
    );
  return sizeBytes ?? Math.min(most, room);
}
