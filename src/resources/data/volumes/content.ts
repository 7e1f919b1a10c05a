/** Writes the content of files to the storage, and serves it. */
import { and, eq, gte, inArray, lt } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { fileResponse } from "../../../http/answer/file_response.ts";
import { contentLength, receive } from "../../../http/body/receive.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import type { Tx } from "../../../platform/db/db.ts";
import type { Chunks, Meter, StreamOptions, Written } from "../../../platform/files.ts";
import type { OpenMeter } from "../../../platform/storage/meter.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as looseKeys from "../loose_keys/service.ts";
import { meterFor, roomFor } from "./quota.ts";
import { ContentType, pathFault, presentFile } from "./schema.ts";
import * as volumes from "./service.ts";
import { type VolumeFileRow, type VolumeRow, volumeFiles } from "./table.ts";

const DEFAULT_TYPE = "application/octet-stream";

export type StoredFile = { row: VolumeFileRow; replaced: boolean };

/** Each version has a key of its own, so readers of the previous version can finish. */
export const keyFor = (volume: VolumeRow, now: number) => `volumes/${volume.id}/${newId("upl", now)}`;

/** Reads the path from a URL. */
export function pathFrom(encoded: string): string {
  const path = decodeURIComponent(encoded); // The server has rejected URLs that do not decode.
  const fault = pathFault(path);
  if (fault !== undefined) throw new AppError("schema", `path: ${fault}`, { param: "path" });
  return path;
}

/** `PUT` with an API key, without an upload URL. */
export async function put(ctx: Ctx, volume: VolumeRow, path: string, request: Request): Promise<StoredFile> {
  const contentType = typeOf(request);
  requireRoom(ctx, volume, path);
  const maxBytes = roomFor(ctx, volume, { path, sizeBytes: contentLength(request), param: "content-length" });
  const key = keyFor(volume, ctx.clock.now());
  using meter = meterFor(ctx, volume, { path });
  return await looseKeys.store(ctx, {
    key,
    put: () => receive(ctx, request, { maxBytes }, into(ctx, key, meter)),
    own: (tx, written) => keep(ctx, tx, volume, { path, contentType, key, meter, ...written }),
  });
}

/** Writes content under a key of the storage. */
export const into = (ctx: Ctx, key: string, meter: Meter) => (body: Chunks, options: Omit<StreamOptions, "meter">) =>
  ctx.storage.put(key, body, { ...options, meter });

/** Returns null for a request without a content type. */
export function typeOf(request: Request): string | null {
  const header = request.headers.get("content-type");
  const read = ContentType.nullable().safeParse(header);
  if (read.success) return read.data;
  throw new AppError("schema", "content-type: must be a media type such as text/plain", { param: "content-type" });
}

export type Content = Written & { path: string; contentType: string | null; key: string; meter: OpenMeter };

/** One commit inserts the file, updates the sums of its volume, drops the replaced content and emits the event. */
export function keep(ctx: Ctx, tx: Tx, volume: VolumeRow, content: Content & { uploadId?: string }): StoredFile {
  const now = ctx.clock.now();
  const { path, key, bytes, sha256, uploadId, meter } = content;
  if (!volumes.findAny(ctx, volume.id))
    throw new AppError("resource_not_found", `Volume ${volume.name} was deleted meanwhile`, { param: "name" });
  requireRoom(ctx, volume, path);
  roomFor(ctx, volume, { path, sizeBytes: bytes, param: "path", ...(uploadId === undefined ? {} : { uploadId }) });
  meter.keep(bytes);
  const old = volumes.findFile(ctx, volume, path);
  if (old) looseKeys.drop(tx, old.storageKey, now);
  const version = { sizeBytes: bytes, sha256, contentType: content.contentType ?? DEFAULT_TYPE, storageKey: key };
  const row = tx
    .insert(volumeFiles)
    .values({ volumeId: volume.id, path, ...version, createdAt: now, updatedAt: now })
    .onConflictDoUpdate({ target: [volumeFiles.volumeId, volumeFiles.path], set: { ...version, updatedAt: now } })
    .returning()
    .get();
  volumes.count(tx, volume.id, { files: old ? 0 : 1, bytes: bytes - (old?.sizeBytes ?? 0) }, now);
  emit(tx, "volume_file.written", { workspaceId: volume.workspaceId, now }, presentFile(volume, row));
  return { row, replaced: old !== undefined };
}

/** A volume must be mountable, so no path may be a file and a folder at once. */
export function requireRoom(ctx: Pick<Ctx, "db">, volume: VolumeRow, path: string, param = "path") {
  const segments = path.split("/");
  const above = segments.slice(1).map((_, i) => segments.slice(0, i + 1).join("/"));
  const inVolume = eq(volumeFiles.volumeId, volume.id);
  const first = (where: ReturnType<typeof and>) =>
    ctx.db.select({ path: volumeFiles.path }).from(volumeFiles).where(and(inVolume, where)).limit(1).get()?.path;
  const file = above.length === 0 ? undefined : first(inArray(volumeFiles.path, above));
  const below = first(and(gte(volumeFiles.path, `${path}/`), lt(volumeFiles.path, `${path}0`))); // "0" is the character after "/".
  if (file === undefined && below === undefined) return;
  const why =
    file === undefined ? `is a folder in this volume: it contains ${below}` : `is below ${file}, which is a file`;
  throw new AppError("schema", `path: ${path.slice(0, 200)} ${why}`, { param });
}

/** Answers GET and HEAD. */
export async function send(ctx: Ctx, volume: VolumeRow, path: string, request: Request): Promise<Response> {
  for (let missing: string | undefined; ; ) {
    const row = volumes.mustGetFile(ctx, volume, path);
    if (row.storageKey === missing) throw new LostKeyError(missing);
    const answer = await fileResponse(request, {
      ...row,
      name: path.split("/").at(-1) ?? path,
      open: (range) => ctx.storage.get(row.storageKey, range),
    });
    if (answer) return answer;
    missing = row.storageKey; // The file was replaced or deleted meanwhile; the next round reads the new row.
  }
}
