/**
 * Uploads: one row for each signed upload URL, and for each file that is sent in parts with an API key. A request claims
 * the row before it reads a byte, and releases it if the upload fails. Volumes, models and files decide what happens with
 * the content.
 */
import { and, eq, inArray, isNotNull, lt, max, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { type Db, durable, type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { LostKeyError } from "../../../platform/storage/storage.ts";
import * as looseKeys from "../loose_keys/service.ts";
import { machine } from "./machine.ts";
import { type UploadPartRow, type UploadRow, uploadParts, uploads } from "./table.ts";

/** The exact condition of the index uploads_live. With parameters SQLite would not use the index. */
export const isLive = sql`${uploads.status} IN ('open', 'receiving')`;
const KEEP_MS = 7 * DAY_MS; // Ended uploads stay this long, so that their URLs answer with the reason.

/** A file that is sent directly to the storage may arrive this long after the expiry. */
export const LATE_MS = HOUR_MS;

const insert = preparedInsert(uploads);
const byId = preparedRow(uploads, eq(uploads.id, sql.placeholder("id")));

export const find = (ctx: Ctx, id: string): UploadRow | undefined => byId(ctx.db, { id });

export type NewUpload = Pick<UploadRow, "workspaceId" | "purpose" | "targetId" | "path" | "maxBytes"> &
  Partial<UploadRow> & { expiresAt: number };

export const idFor = (now: number) => newId("upl", now);

export const create = (tx: Tx, upload: NewUpload, now: number): UploadRow =>
  insert(tx, {
    id: idFor(now),
    groupId: null,
    sizeBytes: null,
    sha256: null,
    contentType: null,
    partCount: null,
    staging: null,
    receivedBytes: null,
    receivedSha256: null,
    filePurpose: null,
    fileLifetimeMs: null,
    ...upload,
    status: machine.initial,
    createdAt: now,
    updatedAt: now,
  });

/**
 * Gives `work` exclusive use of the upload. `work` must call `use` in its own commit. If it throws, the upload is open
 * again. The claim is on the disk before `work` begins.
 */
export async function claimed<T>(ctx: Ctx, id: string, work: (row: UploadRow) => Promise<T>): Promise<T> {
  const { receiving } = ctx.state.uploads;
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    if (!receiving.has(id)) transition(tx, machine, "release", { id, now });
    return transition(tx, machine, "claim", { id, now });
  });
  if (!row) throw used(find(ctx, id));
  receiving.add(id);
  try {
    await durable(ctx.db);
    return await work(row);
  } catch (error) {
    write(ctx.db, (tx) => transition(tx, machine, "release", { id, now: ctx.clock.now() }));
    throw error;
  } finally {
    receiving.delete(id);
  }
}

const REASONS: Record<UploadRow["status"], string> = {
  open: "This upload is open: try again",
  receiving: "Another request is sending this file",
  used: "The file was sent already: an upload URL works once",
  expired: "This upload has expired: create another upload URL",
  aborted: "This upload was cancelled: create another upload URL",
};

export const used = (row: UploadRow | undefined) =>
  new AppError("upload_used", REASONS[row?.status ?? "aborted"], { param: "id" });

/** Marks the upload as used. If it was cancelled meanwhile, throws and undoes the caller's transaction. */
export function use(tx: Tx, id: string, received: { bytes: number; sha256: string }, now: number): UploadRow {
  const patch = { receivedBytes: received.bytes, receivedSha256: received.sha256 };
  const row = transition(tx, machine, "use", { id, now }, patch);
  if (!row) throw used(undefined);
  dropParts(tx, id, now);
  return row;
}

export function abort(tx: Tx, id: string, now: number): UploadRow | undefined {
  const row = transition(tx, machine, "abort", { id, now });
  if (row) dropParts(tx, id, now);
  return row;
}

/** Aborts all uploads of a deleted volume or model. */
export function abortAll(tx: Tx, targetId: string, now: number) {
  const rows = tx
    .select({ id: uploads.id })
    .from(uploads)
    .where(and(eq(uploads.targetId, targetId), isLive))
    .all();
  for (const { id } of rows) abort(tx, id, now);
}

/** Aborts all uploads of this purpose in a workspace that is deleted. */
export function abortOf(tx: Tx, { workspaceId, purpose }: Pick<UploadRow, "workspaceId" | "purpose">, now: number) {
  const rows = tx
    .select({ id: uploads.id })
    .from(uploads)
    .where(and(eq(uploads.workspaceId, workspaceId), isLive, eq(uploads.purpose, purpose)))
    .all();
  for (const { id } of rows) abort(tx, id, now);
}

/** The content of the parts, one after the other. */
export async function* joined(ctx: Ctx, parts: readonly UploadPartRow[]): AsyncGenerator<Uint8Array> {
  for (const { storageKey } of parts) {
    const opened = await ctx.storage.get(storageKey);
    if (!opened) throw new LostKeyError(storageKey);
    for await (const chunk of opened.stream) yield chunk;
  }
}

export const partsOf = (db: Db, id: string): UploadPartRow[] =>
  db.select().from(uploadParts).where(eq(uploadParts.uploadId, id)).orderBy(uploadParts.number).all();

/** 0 without parts. */
export const lastNumber = (db: Db, id: string): number =>
  db
    .select({ number: max(uploadParts.number) })
    .from(uploadParts)
    .where(eq(uploadParts.uploadId, id))
    .get()?.number ?? 0;

/** A part that is sent again replaces the first one. */
export function putPart(tx: Tx, part: UploadPartRow, now: number) {
  const where = and(eq(uploadParts.uploadId, part.uploadId), eq(uploadParts.number, part.number));
  const old = tx.delete(uploadParts).where(where).returning().get();
  if (old) looseKeys.drop(tx, old.storageKey, now);
  tx.insert(uploadParts).values(part).run();
}

function dropParts(tx: Tx, id: string, now: number) {
  const parts = tx.delete(uploadParts).where(eq(uploadParts.uploadId, id)).returning().all();
  looseKeys.dropAll(
    tx,
    parts.map(({ storageKey }) => storageKey),
    now,
  );
}

/** Open uploads whose file goes directly to the storage. */
export const staged = (ctx: Ctx): UploadRow[] =>
  ctx.db
    .select()
    .from(uploads)
    .where(and(isLive, eq(uploads.status, "open"), isNotNull(uploads.staging)))
    .all();

/** Releases uploads that a kill left claimed. */
export function free(ctx: Ctx) {
  const now = ctx.clock.now();
  const claimed = and(isLive, eq(uploads.status, "receiving"));
  const left = ctx.db.select({ id: uploads.id }).from(uploads).where(claimed).all();
  const stale = left.filter(({ id }) => !ctx.state.uploads.receiving.has(id));
  if (stale.length > 0)
    write(ctx.db, (tx) => {
      for (const { id } of stale) transition(tx, machine, "release", { id, now });
    });
}

/** Expires uploads that are due, and deletes rows that ended long ago. */
export async function sweep(ctx: Ctx) {
  const now = ctx.clock.now();
  const due = ctx.db
    .select()
    .from(uploads)
    .where(and(isLive, eq(uploads.status, "open")))
    .all()
    .filter(({ staging, expiresAt }) => expiresAt + (staging === null ? 0 : LATE_MS) <= now);
  const turn = takingTurns();
  for (const { id } of due) {
    await turn();
    write(ctx.db, (tx) => transition(tx, machine, "expire", { id, now }) && dropParts(tx, id, now));
  }
  await gradually(ctx.db, (tx, rows) => {
    const over = and(lt(uploads.expiresAt, now - KEEP_MS), inArray(uploads.status, [...machine.terminal]));
    const old = tx.select({ id: uploads.id }).from(uploads).where(over).limit(rows);
    return tx.delete(uploads).where(inArray(uploads.id, old)).returning({ id: uploads.id }).all().length;
  });
}
