/** Creates signed URLs: of this server, or of the storage itself if clients can reach it. */
import type { Ctx } from "../../../context.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import { AppError } from "../../../lib/errors.ts";
import { isoTime } from "../../../lib/time.ts";
import { write } from "../../../platform/db/db.ts";
import * as signed from "../signed_urls/service.ts";
import * as uploads from "../uploads/service.ts";
import type { UploadRow } from "../uploads/table.ts";
import { requireRoom } from "./content.ts";
import { roomFor } from "./quota.ts";
import type { CreateDownloadUrl, CreateUploadUrl, DownloadUrl, UploadUrl } from "./schema.ts";
import * as volumes from "./service.ts";
import type { VolumeRow } from "./table.ts";

/** URLs of the storage. */
export type Direct = { staging: string; urls: string[]; headers: Record<string, string>; maxBytes: number };

/** Presigns URLs of the storage after all checks. Returns undefined if files are sent to this server. */
export async function askStorage(ctx: Ctx, volume: VolumeRow, body: CreateUploadUrl): Promise<Direct | undefined> {
  const { presign } = ctx.storage;
  const { size_bytes: bytes, sha256, content_type: contentType, parts: count } = body;
  requireRoom(ctx, volume, body.path, "/path");
  const room = roomFor(ctx, volume, { path: body.path, sizeBytes: bytes });
  if (!presign) return undefined;
  const expiresSeconds = body.expires_in_seconds ?? ctx.config.volumes.url_seconds;
  if (count !== undefined) {
    const { staging, urls } = await presign.parts({ expiresSeconds, count });
    return { staging, urls, headers: {}, maxBytes: room };
  }
  if ((bytes ?? 0) > presign.maxPutBytes)
    throw new AppError(
      "schema",
      `size_bytes: a file of more than ${formatBytes(presign.maxPutBytes)} must be sent in parts: set parts to their number`,
      { param: "/size_bytes" },
    );
  const { staging, url, headers } = await presign.put({
    expiresSeconds,
    ...(bytes === undefined ? {} : { bytes }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(contentType === undefined ? {} : { contentType }),
  });
  return { staging, urls: [url], headers, maxBytes: Math.min(room, presign.maxPutBytes) };
}

type NewUpload = { call: signed.Call; volume: VolumeRow; body: CreateUploadUrl; direct: Direct | undefined };

/** Inserts the upload and returns its URLs. */
export function createUpload(ctx: Ctx, { call, volume, body, direct }: NewUpload): UploadUrl {
  const now = ctx.clock.now();
  const { path, sha256 = null, content_type: contentType = null, parts: partCount = null } = body;
  return write(ctx.db, (tx) => {
    requireRoom(ctx, volume, path, "/path");
    const room = roomFor(ctx, volume, { path, sizeBytes: body.size_bytes });
    const maxBytes = Math.min(room, direct?.maxBytes ?? room);
    const expiresAt = signed.expiryAfter(ctx, body.expires_in_seconds);
    const target = { workspaceId: volume.workspaceId, purpose: "volume" as const, targetId: volume.id, path };
    const announced = { sizeBytes: body.size_bytes ?? null, sha256, contentType, partCount };
    const staging = direct?.staging ?? null;
    const row = uploads.create(tx, { ...target, ...announced, staging, maxBytes, expiresAt }, now);
    return presentUpload(volume, row, direct ?? ownAddresses(ctx, call, volume, row));
  });
}

type Addresses = Pick<Direct, "urls" | "headers">;

function ownAddresses(ctx: Ctx, call: signed.Call, volume: VolumeRow, row: UploadRow): Addresses {
  const address = signed.addressesFor(ctx, call, row.expiresAt);
  const at = (number?: number) => address(uploadUse(volume, row, number));
  if (row.partCount !== null) return { urls: Array.from({ length: row.partCount }, (_, i) => at(i + 1)), headers: {} };
  return { urls: [at()], headers: row.contentType === null ? {} : { "content-type": row.contentType } };
}

function presentUpload(volume: VolumeRow, row: UploadRow, { urls, headers }: Addresses): UploadUrl {
  const { id, path, maxBytes, expiresAt, partCount, staging } = row;
  const put = { method: "PUT" as const, max_bytes: maxBytes };
  const whole = partCount === null;
  return {
    object: "upload_url",
    id,
    volume: volume.name,
    path,
    ...put,
    headers,
    url: whole ? (urls[0] ?? null) : null,
    parts: whole ? null : urls.map((url, i) => ({ number: i + 1, ...put, headers: {}, url })),
    complete_path: whole && staging === null ? null : `/v1/volumes/${volume.name}/uploads/${id}/complete`,
    expires_at: isoTime(expiresAt),
  };
}

/** The use that the URL of an upload, or of one of its parts, is signed for. */
export function uploadUse(volume: VolumeRow, { id, sizeBytes, sha256 }: UploadRow, number?: number) {
  const path = signed.signedPath("v1", "volumes", volume.id, "uploads", id);
  return number === undefined
    ? { method: "PUT" as const, path, sizeBytes, sha256 }
    : { method: "PUT" as const, path: `${path}/parts/${number}`, sizeBytes: null, sha256: null };
}

/** The URL returns the file as it is at the time of the download. */
const downloadUse = (volumeId: string, path: string) => ({
  method: "GET" as const,
  path: signed.signedPath("v1", "volumes", volumeId, "signed", ...path.split("/")),
  sizeBytes: null,
  sha256: null,
});

export async function createDownload(
  ctx: Ctx,
  call: signed.Call,
  volume: VolumeRow,
  { path, expires_in_seconds: seconds }: CreateDownloadUrl,
): Promise<DownloadUrl> {
  const { storageKey, sizeBytes, sha256, contentType } = volumes.mustGetFile(ctx, volume, path);
  const expiresAt = signed.expiryAfter(ctx, seconds);
  const direct = await ctx.storage.presign?.get(storageKey, {
    expiresSeconds: seconds ?? ctx.config.volumes.url_seconds,
    filename: path.split("/").at(-1) ?? path,
    contentType,
  });
  return {
    object: "download_url",
    volume: volume.name,
    path,
    method: "GET",
    url: direct?.url ?? signed.addressFor(ctx, call, downloadUse(volume.id, path), expiresAt),
    headers: {},
    size_bytes: sizeBytes,
    sha256,
    expires_at: isoTime(expiresAt),
  };
}

export function admitDownload(ctx: Ctx, request: Request, volumeId: string, path: string): VolumeRow {
  const volume = volumes.findAny(ctx, volumeId);
  signed.admit(ctx, request, volume && downloadUse(volume.id, path));
  return volume as VolumeRow; // `admit` throws if there is no volume.
}
