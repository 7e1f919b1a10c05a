/** Receives files of signed uploads: in one request, in parts, or sent by the client directly to the storage. */
import type { Ctx } from "../../../context.ts";
import { receive, take } from "../../../http/body/receive.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import type { Meter, Written } from "../../../platform/files.ts";
import type { OpenMeter } from "../../../platform/storage/meter.ts";
import * as looseKeys from "../loose_keys/service.ts";
import * as signed from "../signed_urls/service.ts";
import { spaceMeter } from "../storage_usage/service.ts";
import * as uploads from "../uploads/service.ts";
import type { UploadPartRow, UploadRow } from "../uploads/table.ts";
import { uploadUse } from "./address.ts";
import { into, keep, keyFor, type StoredFile, typeOf } from "./content.ts";
import { meterFor, roomFor } from "./quota.ts";
import * as volumes from "./service.ts";
import type { VolumeRow } from "./table.ts";

export type Arrival = { request: Request; volumeId: string; uploadId: string };

/** Returns the upload that this URL was signed for. Throws the same 403 for every fault. */
function admit(ctx: Ctx, { request, volumeId, uploadId }: Arrival, number?: number) {
  const volume = volumes.findAny(ctx, volumeId);
  const row = uploads.find(ctx, uploadId);
  const fits =
    volume &&
    row?.targetId === volume.id &&
    (row.partCount === null) === (number === undefined) &&
    row.staging === null;
  signed.admit(ctx, request, fits ? uploadUse(volume, row, number) : undefined);
  return { volume: volume as VolumeRow, row: row as UploadRow };
}

/** Receives a file in one request. The URL works once. */
export async function receiveFile(ctx: Ctx, arrival: Arrival): Promise<{ volume: VolumeRow; stored: StoredFile }> {
  const { volume, row } = admit(ctx, arrival);
  const stored = await uploads.claimed(ctx, row.id, async (claim) => {
    const key = keyFor(volume, ctx.clock.now());
    const contentType = claim.contentType ?? typeOf(arrival.request);
    using meter = meterFor(ctx, volume, { path: claim.path, upload: claim });
    return await looseKeys.store(ctx, {
      key,
      put: () => receive(ctx, arrival.request, claim, into(ctx, key, meter)),
      own: (tx, written) => finish(ctx, tx, { volume, row: { ...claim, contentType }, key, meter, written }),
    });
  });
  return { volume, stored };
}

type Finished = { volume: VolumeRow; row: UploadRow; key: string; meter: OpenMeter; written: Written };

/** One commit inserts the file and marks the upload as used. */
function finish(ctx: Ctx, tx: Tx, { volume, row, key, meter, written }: Finished): StoredFile {
  const stored = keep(ctx, tx, volume, {
    ...written,
    path: row.path,
    contentType: row.contentType,
    key,
    meter,
    uploadId: row.id,
  });
  uploads.use(tx, row.id, written, ctx.clock.now());
  return stored;
}

/** Parts may come in any order and more than once, until the upload is completed. */
export async function receivePart(ctx: Ctx, arrival: Arrival, number: number) {
  const { volume, row } = admit(ctx, arrival, number);
  if (row.status !== "open") throw uploads.used(row);
  const key = keyFor(volume, ctx.clock.now());
  const replacedPart = uploads.partsOf(ctx.db, row.id).find((part) => part.number === number)?.sizeBytes ?? 0;
  using meter = meterFor(ctx, volume, { path: row.path, upload: row, replacedPart });
  return await looseKeys.store(ctx, {
    key,
    put: () => receive(ctx, arrival.request, { maxBytes: row.maxBytes }, into(ctx, key, meter)),
    own(tx, { bytes, sha256 }) {
      const now = ctx.clock.now();
      const current = uploads.find(ctx, row.id);
      if (current?.status !== "open") throw uploads.used(current);
      requirePartsFit(ctx, volume, row, { number, bytes });
      meter.keep(bytes);
      uploads.putPart(tx, { uploadId: row.id, number, sizeBytes: bytes, sha256, storageKey: key, createdAt: now }, now);
      return { object: "upload.part" as const, number, size_bytes: bytes, sha256 };
    },
  });
}

function requirePartsFit(ctx: Ctx, volume: VolumeRow, row: UploadRow, part: { number: number; bytes: number }) {
  const others = uploads.partsOf(ctx.db, row.id).filter(({ number }) => number !== part.number);
  const total = part.bytes + others.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  if (total > row.maxBytes)
    throw new AppError(
      "payload_too_large",
      `The parts have ${total} bytes together, but the upload takes at most ${row.maxBytes}`,
    );
  roomFor(ctx, volume, { path: row.path, sizeBytes: total, uploadId: row.id, param: "content-length" });
}

/**
 * Makes a file of the uploaded parts, or of the file that was sent to the storage. A second call returns the same file,
 * because the loop may have been first, or the client may have lost the answer.
 */
export async function complete(ctx: Ctx, volume: VolumeRow, id: string): Promise<StoredFile> {
  const { completing } = ctx.state.volumes;
  for (let other = completing.get(id); other; other = completing.get(id)) await other.catch(() => {}); // It has a caller.
  const row = mustGetUpload(ctx, volume, id);
  if (row.partCount === null && row.staging === null)
    throw new AppError(
      "unsupported_state",
      "This upload has no parts and needs no completion: it is complete when its file has arrived",
      {
        param: "id",
      },
    );
  const file = row.status === "used" ? volumes.findFile(ctx, volume, row.path) : undefined;
  if (file && file.sha256 === row.receivedSha256) return { row: file, replaced: true };
  const work = assemble(ctx, volume, id).finally(() => completing.delete(id));
  completing.set(id, work);
  return work;
}

const assemble = (ctx: Ctx, volume: VolumeRow, id: string): Promise<StoredFile> =>
  uploads.claimed(ctx, id, async (claim) => {
    // The key of an adopted file follows from the upload, so that it is found again after a crash.
    const key = claim.staging === null ? keyFor(volume, ctx.clock.now()) : adoptionKey(volume, id);
    using meter = spaceMeter(ctx); // the parts count for the quota
    return await looseKeys.store(ctx, {
      key,
      put: () => (claim.staging === null ? join(ctx, claim, key, meter) : adopt(ctx, claim, key, claim.staging)),
      own: (tx, written) => finish(ctx, tx, { volume, row: claim, key, meter, written }),
    });
  });

const adoptionKey = (volume: VolumeRow, id: string) => `volumes/${volume.id}/${id}`;

/** True if the key may hold a file that was adopted before a crash. It is the only copy then. */
export function mayBeCompleted(ctx: Ctx, key: string): boolean {
  const upload = uploads.find(ctx, key.split("/").at(-1) ?? "");
  return upload !== undefined && upload.staging !== null && (upload.status === "open" || upload.status === "receiving");
}

/** Reads the parts once more for the hash of the whole file. */
async function join(ctx: Ctx, row: UploadRow, key: string, meter: Meter): Promise<Written> {
  const parts = wholeOf(ctx, row);
  return take(row, (options) => ctx.storage.put(key, uploads.joined(ctx, parts), { ...options, meter }));
}

async function adopt(ctx: Ctx, row: UploadRow, key: string, staging: string): Promise<Written> {
  return take(row, async (options) => {
    const written = await ctx.storage.presign?.adopt(staging, key, options);
    if (!written)
      throw new AppError("upload_incomplete", `${row.path} has not arrived: send it to the upload URL first`);
    return written;
  });
}

/** Returns all parts in order. Throws with the numbers of missing parts. */
function wholeOf(ctx: Ctx, row: UploadRow): UploadPartRow[] {
  const parts = uploads.partsOf(ctx.db, row.id);
  const numbers = new Set(parts.map((part) => part.number));
  const missing = Array.from({ length: row.partCount ?? 0 }, (_, i) => i + 1).filter((number) => !numbers.has(number));
  if (missing.length > 0) {
    const named = missing.slice(0, 10).join(", ") + (missing.length > 10 ? ", …" : "");
    throw new AppError("upload_incomplete", `${missing.length} of ${row.partCount} parts have not arrived: ${named}`);
  }
  const total = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  if (row.sizeBytes !== null && total !== row.sizeBytes)
    throw new AppError(
      "upload_incomplete",
      `size_bytes is ${row.sizeBytes}, but the parts have ${total} bytes together`,
    );
  return parts;
}

function mustGetUpload(ctx: Ctx, volume: VolumeRow, id: string): UploadRow {
  const row = uploads.find(ctx, id);
  if (row?.targetId !== volume.id)
    throw new AppError("resource_not_found", `No upload ${id.slice(0, 80)} of volume ${volume.name}`, { param: "id" });
  return row;
}

export function abort(ctx: Ctx, volume: VolumeRow, id: string): UploadRow {
  const row = mustGetUpload(ctx, volume, id);
  const aborted = write(ctx.db, (tx) => uploads.abort(tx, id, ctx.clock.now()));
  if (!aborted && row.status !== "aborted") throw uploads.used(row);
  ctx.wake("volumes.sweep");
  return row;
}
