/**
 * Models that a caller uploads. The caller creates a row, gets a signed address, sends the file there and calls
 * `complete`, which inspects the file, or converts several to one. A file that is no model is removed, and the row keeps
 * the reason.
 */
import { and, desc, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { receive } from "../../../../http/body/receive.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { isoTime } from "../../../../lib/time.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import type { Meter, Written } from "../../../../platform/files.ts";
import { mustLeaveSpace } from "../../../../platform/machine/disk.ts";
import * as signed from "../../../data/signed_urls/service.ts";
import { meterOf, mustHaveRoom, roomOf } from "../../../data/storage_usage/service.ts";
import * as uploads from "../../../data/uploads/service.ts";
import { type UploadRow, uploads as uploadTable } from "../../../data/uploads/table.ts";
import { machine } from "../machine.ts";
import { withName } from "../registry/names.ts";
import * as models from "../service.ts";
import type { ModelRow } from "../table.ts";
import * as files from "./files.ts";
import { finishFile, finishFiles, type SentFile, unusable } from "./finish.ts";
import { requireModel } from "./kind.ts";
import type { CreateModel, CreatePresignedUpload, PresignedUpload, ReceivedFile } from "./schema.ts";

export function create(
  ctx: Ctx,
  workspaceId: string,
  { name, base_model: baseModel, metadata }: CreateModel,
): ModelRow {
  const model = { workspaceId, name, source: "upload" as const, baseModel, metadata };
  return withName(ctx, workspaceId, name, () => write(ctx.db, (tx) => models.add(tx, model, ctx.clock.now())));
}

/** A model that this workspace created for an upload and that has no file yet. */
function mustTakeFiles(ctx: Ctx, workspaceId: string, id: string): ModelRow {
  const row = models.mustGet(ctx, workspaceId, id);
  if (row.source === "upload" && row.status !== "ready") return row;
  const why = row.source === "upload" ? "it already has its file" : `its source is ${row.source}`;
  throw new AppError(
    "unsupported_state",
    `Model ${row.name} takes no files: ${why}. Create another with POST /v1/models`,
    {
      param: "id",
    },
  );
}

/** For each file: true if the workspace already has its content. */
export async function findHere(ctx: Ctx, workspaceId: string, { files: wanted }: CreatePresignedUpload) {
  const locations = wanted.map(({ sha256 }) =>
    sha256 === undefined ? undefined : files.locate(ctx, workspaceId, sha256),
  );
  return (await Promise.all(locations)).map((each) => each !== undefined);
}

type PresignRequest = { asker: signed.Call; id: string; body: CreatePresignedUpload; here: boolean[] };

/** Aborts earlier uploads of the model. */
export function presign(ctx: Ctx, { asker, id, body, here }: PresignRequest): PresignedUpload {
  const { workspaceId } = asker.principal;
  const now = ctx.clock.now();
  const expiresAt = signed.expiryAfter(ctx, body.expires_in_seconds);
  const groupId = newId("ups", now);
  requireModel(body.files.map(({ path }) => path));
  const addresses = write(ctx.db, (tx) => {
    const model = mustTakeFiles(ctx, workspaceId, id);
    const storage = { workspaceId, kind: "models" as const };
    uploads.abortAll(tx, model.id, now);
    transition(tx, machine, "recheck", { id: model.id, now }, { error: null, path: null });
    let bytes = 0;
    return body.files.map(({ path, size_bytes: sizeBytes = null, sha256 = null }, i) => {
      bytes += sizeBytes ?? 1;
      mustHaveRoom(ctx, storage, { bytes, param: `/files/${i}/size_bytes` });
      mustLeaveSpace(ctx, sizeBytes === null ? 0 : bytes);
      const maxBytes = sizeBytes ?? Math.min(ctx.config.volumes.max_file_bytes, roomOf(ctx, storage));
      const target = { workspaceId, purpose: "model" as const, targetId: model.id, groupId };
      const row = uploads.create(tx, { ...target, path, sizeBytes, sha256, maxBytes, expiresAt }, now);
      const url = signed.addressFor(ctx, asker, useOf(row), expiresAt);
      return { path, method: "PUT" as const, url, headers: {}, exists: here[i] ?? false };
    });
  });
  return {
    object: "presigned_upload",
    id: groupId,
    model_id: models.mustGet(ctx, workspaceId, id).id,
    status: addresses.every(({ exists }) => exists) ? "received" : "open",
    files: addresses,
    expires_at: isoTime(expiresAt),
  };
}

const useOf = ({ id, targetId, sizeBytes, sha256 }: UploadRow) => ({
  method: "PUT" as const,
  path: signed.signedPath("v1", "models", targetId, "uploads", id),
  sizeBytes,
  sha256,
});

/** Writes the bytes to the disk as they come. */
export async function receiveFile(ctx: Ctx, request: Request, modelId: string, id: string): Promise<ReceivedFile> {
  const row = uploads.find(ctx, id);
  signed.admit(ctx, request, row?.purpose === "model" && row.targetId === modelId ? useOf(row) : undefined);
  const { bytes, sha256 } = await settled(ctx, id, (claim, meter) =>
    receive(ctx, request, claim, files.into(ctx, id, meter)),
  );
  return { object: "upload", id, model_id: modelId, path: row?.path ?? "", size_bytes: bytes, sha256 };
}

/** The file is written before the row. After the commit only the rows decide whether the file stays. */
const settled = (ctx: Ctx, id: string, put: (claim: UploadRow, meter: Meter) => Promise<Written>): Promise<Written> =>
  uploads.claimed(ctx, id, async (claim) => {
    using meter = meterOf(ctx, { workspaceId: claim.workspaceId, kind: "models" });
    const written = await keepOrRemove(ctx, id, async () => {
      const done = await put(claim, meter);
      write(ctx.db, (tx) => {
        meter.keep(done.bytes);
        uploads.use(tx, id, done, ctx.clock.now());
        models.addBytes(tx, claim.targetId, done.bytes);
      });
      return done;
    });
    await durable(ctx.db);
    return written;
  });

async function keepOrRemove<T>(ctx: Ctx, id: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await files.remove(ctx, id);
    throw error;
  }
}

/** Makes the model ready, or failed with the reason and without a file. */
export async function complete(ctx: Ctx, workspaceId: string, name: string, groupId?: string): Promise<ModelRow> {
  const model = mustTakeFiles(ctx, workspaceId, name);
  const group = mustFindUploads(ctx, model, groupId);
  if (model.status === "failed" && model.error !== null && group.every(({ status }) => status === "used"))
    throw unusable(model.error);
  const sent: SentFile[] = [];
  for (const upload of group) sent.push({ upload, ...(await arrived(ctx, upload)) });
  const [first, ...others] = sent;
  if (!first) throw new Error(`${model.id}: the group of uploads is empty`);
  return others.length === 0
    ? finishFile(ctx, model, first)
    : finishFiles(ctx, model, first.upload.groupId ?? first.upload.id, sent);
}

/** The uploads that were announced together, at least one. */
function mustFindUploads(ctx: Ctx, model: ModelRow, groupId: string | undefined): UploadRow[] {
  const row = ctx.db
    .select()
    .from(uploadTable)
    .where(
      and(eq(uploadTable.targetId, model.id), groupId === undefined ? undefined : eq(uploadTable.groupId, groupId)),
    )
    .orderBy(desc(uploadTable.createdAt), desc(uploadTable.id))
    .limit(1)
    .get();
  if (row?.groupId === null) return [row];
  if (row)
    return ctx.db
      .select()
      .from(uploadTable)
      .where(and(eq(uploadTable.targetId, model.id), eq(uploadTable.groupId, row.groupId)))
      .orderBy(uploadTable.id)
      .all();
  if (groupId !== undefined)
    throw new AppError("resource_not_found", `No upload ${groupId.slice(0, 80)} of model ${model.name}`, {
      param: "/upload_id",
    });
  throw new AppError("upload_incomplete", "No file was uploaded: get an address with POST …/presigned-upload first");
}

/** The uploaded file, or a link to content that the workspace already has. */
async function arrived(ctx: Ctx, row: UploadRow): Promise<Written> {
  if (row.status === "used") return { bytes: row.receivedBytes ?? 0, sha256: row.receivedSha256 ?? "" };
  const { sha256 } = row;
  const location = sha256 === null ? undefined : await files.locate(ctx, row.workspaceId, sha256);
  if (!location || sha256 === null)
    throw new AppError("upload_incomplete", `${row.path} was not uploaded: send it to its signed address first`, {
      param: "/files/0/path",
    });
  return settled(ctx, row.id, (_, meter) => files.place(ctx, row.id, location, { sha256, meter }));
}
