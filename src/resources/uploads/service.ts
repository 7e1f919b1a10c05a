/**
 * Uploads: one row for each signed address to send a file to. The row decides who may send: a request claims it before
 * it reads a byte, and gives it back when nothing came of it. What happens with the file is its purpose's affair.
 */
import { and, eq, inArray, isNotNull, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { transition } from "../../events/lifecycle.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, durable, type Tx, write } from "../../platform/db/db.ts";
import { gradually } from "../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../platform/db/row.ts";
import * as looseKeys from "../loose_keys/service.ts";
import { machine } from "./machine.ts";
import { type UploadPartRow, type UploadRow, uploadParts, uploads } from "./table.ts";

/** Word for word as the index says it: with parameters SQLite would read all that ever was sent. */
export const isLive = sql`${uploads.status} IN ('open', 'receiving')`;
const KEEP_MS = 7 * 86_400_000; // of what is over: its address may still be tried, and is told why not

/** What began in time may come so much later, where it is not this server that takes it. */
export const LATE_MS = 3_600_000;

const insert = preparedInsert(uploads);
const byId = preparedRow(uploads, eq(uploads.id, sql.placeholder("id")));

export const find = (ctx: Ctx, id: string): UploadRow | undefined => byId(ctx.db, { id });

export type NewUpload = Pick<UploadRow, "workspaceId" | "purpose" | "targetId" | "path" | "maxBytes"> &
  Partial<UploadRow> & { expiresAt: number };

export const idFor = (now: number) => newId("upl", now);

export const create = (tx: Tx, given: NewUpload, now: number): UploadRow =>
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
    ...given,
    status: machine.initial,
    createdAt: now,
    updatedAt: now,
  });

/** Being received by this process. A row that says `receiving` and is not here was left by a kill or a lost commit. */
const busyOf = oncePer((_db: Db) => new Set<string>());

/**
 * Lets `work` have the upload alone. It must use it up (`use`) in its own commit; if it throws, the upload is open
 * again. The claim is on the disk before `work` begins.
 */
export async function claimed<T>(ctx: Ctx, id: string, work: (row: UploadRow) => Promise<T>): Promise<T> {
  const busy = busyOf(ctx.db);
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    if (!busy.has(id)) transition(tx, machine, "release", { id, now });
    return transition(tx, machine, "claim", { id, now });
  });
  if (!row) throw used(find(ctx, id));
  busy.add(id);
  try {
    await durable(ctx.db);
    return await work(row);
  } catch (error) {
    write(ctx.db, (tx) => transition(tx, machine, "release", { id, now: ctx.clock.now() }));
    throw error;
  } finally {
    busy.delete(id);
  }
}

const REASONS: Record<UploadRow["status"], string> = {
  open: "This upload is open: try again",
  receiving: "The file is being sent already by another request",
  used: "The file was sent already: an address for uploads works once",
  expired: "This upload has expired: ask for another",
  aborted: "This upload was cancelled: ask for another",
};

export const used = (row: UploadRow | undefined) =>
  new AppError("upload_used", REASONS[row?.status ?? "aborted"], { param: "id" });

/** The file has its owner. Throws when the upload was cancelled meanwhile, and the commit with it. */
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

/** Of something that goes. */
export function abortAll(tx: Tx, targetId: string, now: number) {
  const rows = tx
    .select({ id: uploads.id })
    .from(uploads)
    .where(and(eq(uploads.targetId, targetId), isLive))
    .all();
  for (const { id } of rows) abort(tx, id, now);
}

export const partsOf = (db: Db, id: string): UploadPartRow[] =>
  db.select().from(uploadParts).where(eq(uploadParts.uploadId, id)).orderBy(uploadParts.number).all();

/** A part that is sent again takes the place of the first. */
export function putPart(tx: Tx, part: UploadPartRow, now: number) {
  const where = and(eq(uploadParts.uploadId, part.uploadId), eq(uploadParts.number, part.number));
  const old = tx.delete(uploadParts).where(where).returning().get();
  if (old) looseKeys.drop(tx, old.storageKey, now);
  tx.insert(uploadParts).values(part).run();
}

function dropParts(tx: Tx, id: string, now: number) {
  const gone = tx.delete(uploadParts).where(eq(uploadParts.uploadId, id)).returning().all();
  for (const { storageKey } of gone) looseKeys.drop(tx, storageKey, now);
}

/** Sent past this server, if they were sent at all. */
export const staged = (ctx: Ctx): UploadRow[] =>
  ctx.db
    .select()
    .from(uploads)
    .where(and(isLive, eq(uploads.status, "open"), isNotNull(uploads.staging)))
    .all();

/** Opens again what a kill left claimed. */
export function free(ctx: Ctx) {
  const now = ctx.clock.now();
  const claimed = and(isLive, eq(uploads.status, "receiving"));
  const left = ctx.db.select({ id: uploads.id }).from(uploads).where(claimed).all();
  const stale = left.filter(({ id }) => !busyOf(ctx.db).has(id));
  if (stale.length > 0)
    write(ctx.db, (tx) => {
      for (const { id } of stale) transition(tx, machine, "release", { id, now });
    });
}

/** Closes what is past its time, forgets what is long over. */
export async function sweep(ctx: Ctx) {
  const now = ctx.clock.now();
  const due = ctx.db
    .select()
    .from(uploads)
    .where(and(isLive, eq(uploads.status, "open")))
    .all()
    .filter(({ staging, expiresAt }) => expiresAt + (staging === null ? 0 : LATE_MS) <= now);
  if (due.length > 0)
    write(ctx.db, (tx) => {
      for (const { id } of due) if (transition(tx, machine, "expire", { id, now })) dropParts(tx, id, now);
    });
  await gradually(ctx.db, (tx, rows) => {
    const over = and(lt(uploads.expiresAt, now - KEEP_MS), inArray(uploads.status, [...machine.terminal]));
    const old = tx.select({ id: uploads.id }).from(uploads).where(over).limit(rows);
    return tx.delete(uploads).where(inArray(uploads.id, old)).returning({ id: uploads.id }).all().length;
  });
}
