/** Signed addresses: what they are asked for with, and what happens when a file comes to one. */
import type { Ctx } from "../../context.ts";
import { receive, take } from "../../http/receive.ts";
import { AppError } from "../../lib/errors.ts";
import { isoTime } from "../../lib/time.ts";
import { type Tx, write } from "../../platform/db.ts";
import type { Written } from "../../platform/files.ts";
import * as looseKeys from "../loose_keys/service.ts";
import * as signed from "../signed_urls/service.ts";
import * as uploads from "../uploads/service.ts";
import type { UploadPartRow, UploadRow } from "../uploads/table.ts";
import { into, type Kept, keep, keyFor, requireRoom, typeOf } from "./content.ts";
import { roomFor } from "./quota.ts";
import type { CreateDownloadUrl, CreateUploadUrl, DownloadUrl, UploadUrl } from "./schema.ts";
import * as volumes from "./service.ts";
import type { VolumeRow } from "./table.ts";

/** The row and, for the one who asked, the addresses. */
export function createUpload(ctx: Ctx, asker: signed.Asker, volume: VolumeRow, body: CreateUploadUrl): UploadUrl {
  const now = ctx.clock.now();
  const { path, sha256 = null, content_type: contentType = null, parts: partCount = null } = body;
  requireRoom(ctx, volume, path, "/path");
  return write(ctx.db, (tx) => {
    const maxBytes = roomFor(ctx, volume, { path, sizeBytes: body.size_bytes });
    const expiresAt = signed.expiryAfter(ctx, body.expires_in_seconds);
    const row = uploads.create(
      tx,
      {
        ...{ workspaceId: volume.workspaceId, purpose: "volume", targetId: volume.id, path, maxBytes, expiresAt },
        ...{ sizeBytes: body.size_bytes ?? null, sha256, contentType, partCount },
      },
      now,
    );
    return presentUpload(ctx, asker, volume, row);
  });
}

function presentUpload(ctx: Ctx, asker: signed.Asker, volume: VolumeRow, row: UploadRow): UploadUrl {
  const { id, path, maxBytes, expiresAt, partCount, contentType } = row;
  const headers: Record<string, string> = contentType === null ? {} : { "content-type": contentType };
  const at = (number?: number) => signed.addressFor(ctx, asker, useOf(volume, row, number), expiresAt);
  const put = { method: "PUT" as const, max_bytes: maxBytes };
  return {
    object: "upload_url",
    id,
    volume: volume.name,
    path,
    ...put,
    headers,
    url: partCount === null ? at() : null,
    parts:
      partCount === null
        ? null
        : Array.from({ length: partCount }, (_, i) => ({ number: i + 1, ...put, headers: {}, url: at(i + 1) })),
    complete_path: partCount === null ? null : `/v1/volumes/${volume.name}/uploads/${id}/complete`,
    expires_at: isoTime(expiresAt),
  };
}

function useOf(volume: VolumeRow, { id, sizeBytes, sha256 }: UploadRow, number?: number) {
  const path = signed.signedPath("v1", "volumes", volume.id, "uploads", id);
  return number === undefined
    ? { method: "PUT" as const, path, sizeBytes, sha256 }
    : { method: "PUT" as const, path: `${path}/parts/${number}`, sizeBytes: null, sha256: null };
}

export type Arrival = { request: Request; volumeId: string; uploadId: string };

/** The upload that this address was signed for; else 403, whatever is wrong with it. */
function admit(ctx: Ctx, { request, volumeId, uploadId }: Arrival, number?: number) {
  const volume = volumes.findAny(ctx, volumeId);
  const row = uploads.find(ctx, uploadId);
  const fits = volume && row?.targetId === volume.id && (row.partCount === null) === (number === undefined);
  signed.admit(ctx, request, fits ? useOf(volume, row, number) : undefined);
  return { volume: volume as VolumeRow, row: row as UploadRow };
}

/** A file in one piece, once. */
export async function receiveFile(ctx: Ctx, arrival: Arrival): Promise<{ volume: VolumeRow; kept: Kept }> {
  const { volume, row } = admit(ctx, arrival);
  const kept = await uploads.claimed(ctx, row.id, (claim) => {
    const key = keyFor(volume, ctx.clock.now());
    const contentType = claim.contentType ?? typeOf(arrival.request);
    return looseKeys.store(ctx, {
      key,
      put: () => receive(ctx, arrival.request, claim, into(ctx, key)),
      own: (tx, written) => finish(ctx, tx, { volume, row: { ...claim, contentType }, key, written }),
    });
  });
  return { volume, kept };
}

type Finished = { volume: VolumeRow; row: UploadRow; key: string; written: Written };

/** The commit in which an upload is used up and its file is there. */
function finish(ctx: Ctx, tx: Tx, { volume, row, key, written }: Finished): Kept {
  const kept = keep(ctx, tx, volume, {
    ...written,
    path: row.path,
    contentType: row.contentType,
    key,
    uploadId: row.id,
  });
  uploads.use(tx, row.id, written, ctx.clock.now());
  return kept;
}

/** Parts may come in any order and more than once, until the upload is completed. */
export async function receivePart(ctx: Ctx, arrival: Arrival, number: number) {
  const { volume, row } = admit(ctx, arrival, number);
  if (row.status !== "open") throw uploads.used(row);
  const key = keyFor(volume, ctx.clock.now());
  return looseKeys.store(ctx, {
    key,
    put: () => receive(ctx, arrival.request, { maxBytes: row.maxBytes }, into(ctx, key)),
    own(tx, { bytes, sha256 }) {
      const now = ctx.clock.now();
      const current = uploads.find(ctx, row.id);
      if (current?.status !== "open") throw uploads.used(current);
      requirePartsFit(ctx, row, number, bytes);
      uploads.putPart(tx, { uploadId: row.id, number, sizeBytes: bytes, sha256, storageKey: key, createdAt: now }, now);
      return { object: "upload.part" as const, number, size_bytes: bytes, sha256 };
    },
  });
}

function requirePartsFit(ctx: Ctx, row: UploadRow, number: number, bytes: number) {
  const others = uploads.partsOf(ctx.db, row.id).filter((part) => part.number !== number);
  const total = bytes + others.reduce((sum, part) => sum + part.sizeBytes, 0);
  if (total > row.maxBytes)
    throw new AppError(
      "payload_too_large",
      `The parts have ${total} bytes together: at most ${row.maxBytes} are taken`,
    );
}

/** Puts the parts together. They are read once more, for the hash of the whole. */
export async function complete(ctx: Ctx, volume: VolumeRow, id: string): Promise<Kept> {
  const row = mustGetUpload(ctx, volume, id);
  if (row.partCount === null)
    throw new AppError("unsupported_state", "This upload has no parts: it is complete when its file has arrived", {
      param: "id",
    });
  return uploads.claimed(ctx, id, (claim) => {
    const parts = wholeOf(ctx, claim);
    const key = keyFor(volume, ctx.clock.now());
    return looseKeys.store(ctx, {
      key,
      put: () => take(joined(ctx, parts), claim, into(ctx, key)),
      own: (tx, written) => finish(ctx, tx, { volume, row: claim, key, written }),
    });
  });
}

/** All parts, in order; else it says which are missing. */
function wholeOf(ctx: Ctx, row: UploadRow): UploadPartRow[] {
  const parts = uploads.partsOf(ctx.db, row.id);
  const here = new Set(parts.map((part) => part.number));
  const missing = Array.from({ length: row.partCount ?? 0 }, (_, i) => i + 1).filter((number) => !here.has(number));
  if (missing.length > 0) {
    const named = missing.slice(0, 10).join(", ") + (missing.length > 10 ? ", …" : "");
    throw new AppError("upload_incomplete", `${missing.length} of ${row.partCount} parts have not arrived: ${named}`);
  }
  const total = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  if (row.sizeBytes !== null && total !== row.sizeBytes)
    throw new AppError(
      "upload_incomplete",
      `The file was announced with ${row.sizeBytes} bytes; its parts have ${total}`,
    );
  return parts;
}

async function* joined(ctx: Ctx, parts: UploadPartRow[]): AsyncGenerator<Uint8Array> {
  for (const { storageKey } of parts) {
    const opened = await ctx.storage.get(storageKey);
    if (!opened) throw new Error(`The storage has lost ${storageKey}`);
    for await (const chunk of opened.stream) yield chunk;
  }
}

export function mustGetUpload(ctx: Ctx, volume: VolumeRow, id: string): UploadRow {
  const row = uploads.find(ctx, id);
  if (row?.targetId !== volume.id)
    throw new AppError("resource_not_found", `No upload ${id.slice(0, 80)} of volume ${volume.name}`, { param: "id" });
  return row;
}

export function abort(ctx: Ctx, volume: VolumeRow, id: string): UploadRow {
  const row = mustGetUpload(ctx, volume, id);
  const gone = write(ctx.db, (tx) => uploads.abort(tx, id, ctx.clock.now()));
  if (!gone && row.status !== "aborted") throw uploads.used(row);
  ctx.wake("volumes.sweep");
  return row;
}

export function createDownload(
  ctx: Ctx,
  asker: signed.Asker,
  volume: VolumeRow,
  { path, expires_in_seconds }: CreateDownloadUrl,
): DownloadUrl {
  const file = volumes.mustGetFile(ctx, volume, path);
  const expiresAt = signed.expiryAfter(ctx, expires_in_seconds);
  return {
    object: "download_url",
    volume: volume.name,
    path,
    method: "GET",
    url: signed.addressFor(ctx, asker, downloadOf(volume.id, path), expiresAt),
    headers: {},
    size_bytes: file.sizeBytes,
    sha256: file.sha256,
    expires_at: isoTime(expiresAt),
  };
}

/** Of the file, whatever its content is by then. */
const downloadOf = (volumeId: string, path: string) => ({
  method: "GET" as const,
  path: signed.signedPath("v1", "volumes", volumeId, "signed", ...path.split("/")),
  sizeBytes: null,
  sha256: null,
});

export function admitDownload(ctx: Ctx, request: Request, volumeId: string, path: string): VolumeRow {
  const volume = volumes.findAny(ctx, volumeId);
  signed.admit(ctx, request, volume && downloadOf(volume.id, path));
  return volume as VolumeRow; // nothing is signed for a volume that is not there
}
