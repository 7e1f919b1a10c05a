/** Volumes: named sets of files of a workspace. */
import { and, asc, eq, gt, gte, isNull, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId, newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { withUniqueName } from "../../../platform/db/errors.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as looseKeys from "../loose_keys/service.ts";
import * as uploads from "../uploads/service.ts";
import { type CreateVolume, type FilesQuery, fileId, pathFault, present, presentFile } from "./schema.ts";
import { type VolumeFileRow, type VolumeRow, volumeFiles, volumes } from "./table.ts";

const insert = preparedInsert(volumes);
const mine = and(eq(volumes.workspaceId, sql.placeholder("workspaceId")), isNull(volumes.deletedAt));
const byName = preparedRow(volumes, and(eq(volumes.name, sql.placeholder("name")), mine));
const byId = preparedRow(volumes, and(eq(volumes.id, sql.placeholder("id")), mine));
const anyById = preparedRow(volumes, and(eq(volumes.id, sql.placeholder("id")), isNull(volumes.deletedAt)));
const fileAt = preparedRow(
  volumeFiles,
  and(eq(volumeFiles.volumeId, sql.placeholder("volumeId")), eq(volumeFiles.path, sql.placeholder("path"))),
);

/** Finds a volume by name or by id. No name can look like an id. */
export const find = (ctx: Ctx, workspaceId: string, name: string): VolumeRow | undefined =>
  isId(name, "vol") ? byId(ctx.db, { id: name, workspaceId }) : byName(ctx.db, { name, workspaceId });

export function mustGet(ctx: Ctx, workspaceId: string, name: string): VolumeRow {
  const row = find(ctx, workspaceId, name);
  if (!row) throw new AppError("resource_not_found", `No volume ${name.slice(0, 80)}`, { param: "name" });
  return row;
}

/** Finds a volume of any workspace. For callers that have checked the workspace, for example by a signature. */
export const findAny = (ctx: Pick<Ctx, "db">, id: string): VolumeRow | undefined => anyById(ctx.db, { id });

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, volumes, and(eq(volumes.workspaceId, workspaceId), isNull(volumes.deletedAt)), query, present);

export function create(ctx: Ctx, workspaceId: string, { name, metadata }: CreateVolume): VolumeRow {
  const now = ctx.clock.now();
  const blank = { totalBytes: 0, fileCount: 0, deletedAt: null, createdAt: now, updatedAt: now };
  return withUniqueName(`A volume named ${name} exists: choose another name`, () =>
    write(ctx.db, (tx) => {
      const row = insert(tx, { id: newId("vol", now), workspaceId, name, metadata, ...blank });
      emit(tx, "volume.created", { workspaceId, now }, present(row));
      return row;
    }),
  );
}

/** The volume is not found from now on. The loop removes its files, which may be a million. */
export function remove(ctx: Ctx, workspaceId: string, name: string): VolumeRow {
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    const volume = mustGet(ctx, workspaceId, name);
    tx.update(volumes).set({ deletedAt: now, updatedAt: now }).where(eq(volumes.id, volume.id)).run();
    uploads.abortAll(tx, volume.id, now);
    emit(tx, "volume.deleted", { workspaceId, now }, present(volume));
    return volume;
  });
  ctx.wake("volumes.sweep");
  return row;
}

/** For a workspace that is deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const rows = ctx.db
    .select({ id: volumes.id })
    .from(volumes)
    .where(and(eq(volumes.workspaceId, workspaceId), isNull(volumes.deletedAt)))
    .all();
  for (const { id } of rows) remove(ctx, workspaceId, id);
}

export const findFile = (ctx: Pick<Ctx, "db">, volume: VolumeRow, path: string): VolumeFileRow | undefined =>
  fileAt(ctx.db, { volumeId: volume.id, path });

export const noFile = (volume: VolumeRow, path: string) =>
  new AppError("resource_not_found", `No file ${path.slice(0, 200)} in volume ${volume.name}`, { param: "path" });

export function mustGetFile(ctx: Ctx, volume: VolumeRow, path: string): VolumeFileRow {
  const row = findFile(ctx, volume, path);
  if (!row) throw noFile(volume, path);
  return row;
}

/** Lists files by path, in byte order. `after` is an id or a path, and need not be a file that still exists. */
export function files(ctx: Ctx, volume: VolumeRow, { prefix, limit, after: cursor }: FilesQuery) {
  const idStart = fileId(volume, "");
  const after = cursor?.startsWith(idStart) ? cursor.slice(idStart.length) : cursor;
  if (after !== undefined && pathFault(after) !== undefined)
    throw new AppError("invalid_cursor", `after: ${after.slice(0, 80)} is not an id or a path of this list`, {
      param: "after",
    });
  const rows = ctx.db
    .select()
    .from(volumeFiles)
    .where(
      and(
        eq(volumeFiles.volumeId, volume.id),
        prefix === "" ? undefined : within(prefix),
        after === undefined ? undefined : gt(volumeFiles.path, after),
      ),
    )
    .orderBy(asc(volumeFiles.path))
    .limit(limit + 1)
    .all();
  const data = rows.slice(0, limit).map((row) => presentFile(volume, row));
  return { object: "list" as const, data, has_more: rows.length > limit };
}

/** A range of the index: every path with this prefix sorts before the prefix followed by the last code point. */
const within = (prefix: string) => and(gte(volumeFiles.path, prefix), lt(volumeFiles.path, `${prefix}\u{10ffff}`));

export function removeFile(ctx: Ctx, workspaceId: string, name: string, path: string): VolumeFileRow {
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    const volume = mustGet(ctx, workspaceId, name);
    const file = mustGetFile(ctx, volume, path);
    tx.delete(volumeFiles).where(eq(volumeFiles.storageKey, file.storageKey)).run();
    looseKeys.drop(tx, file.storageKey, now);
    count(tx, volume.id, { files: -1, bytes: -file.sizeBytes }, now);
    emit(tx, "volume_file.deleted", { workspaceId, now }, presentFile(volume, file));
    return file;
  });
  ctx.wake("volumes.sweep");
  return row;
}

export function count(tx: Tx, id: string, { files, bytes }: { files: number; bytes: number }, now: number) {
  tx.update(volumes)
    .set({
      totalBytes: sql`${volumes.totalBytes} + ${bytes}`,
      fileCount: sql`${volumes.fileCount} + ${files}`,
      updatedAt: now,
    })
    .where(eq(volumes.id, id))
    .run();
}
