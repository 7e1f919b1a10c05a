/**
 * Uploads in parts, in the format of OpenAI. Parts come in any order, and several at a time. `complete` says their order
 * and makes a file of them. The parts count as files until then.
 */
import type { Ctx } from "../../../context.ts";
import { type Creation, creates } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { HOUR_MS, SECOND_MS } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import type { Meter, Written } from "../../../platform/files.ts";
import { mustLeaveSpace } from "../../../platform/machine/disk.ts";
import * as looseKeys from "../../data/loose_keys/service.ts";
import { meterOf, mustHaveRoom, spaceMeter } from "../../data/storage_usage/service.ts";
import * as uploads from "../../data/uploads/service.ts";
import type { UploadPartRow, UploadRow } from "../../data/uploads/table.ts";
import {
  type CompleteUpload,
  type CreateUpload,
  type FileUpload,
  MAX_PARTS,
  partId,
  presentPart,
  statusOf,
} from "./part_schema.ts";
import { present as presentFile, seconds } from "./schema.ts";
import * as files from "./service.ts";
import type { ClientFileRow } from "./table.ts";
import { storeForm } from "./upload.ts";

const LIFETIME_MS = HOUR_MS;

type FileUploadRow = UploadRow & { sizeBytes: number; filePurpose: CreateUpload["purpose"] };

function mustGet(ctx: Ctx, workspaceId: string, id: string): FileUploadRow {
  const row = uploads.find(ctx, id);
  if (row?.workspaceId === workspaceId && row.purpose === "file") return row as FileUploadRow;
  throw new AppError("resource_not_found", `No upload ${id.slice(0, 80)}`, { param: "id" });
}

function mustBeOpen(ctx: Ctx, workspaceId: string, id: string): FileUploadRow {
  const row = mustGet(ctx, workspaceId, id);
  const status = statusOf(row, ctx.clock.now());
  if (status !== "pending") throw over(id, status);
  if (row.status === "receiving" && ctx.state.uploads.receiving.has(id)) throw uploads.used(row);
  return row;
}

const over = (id: string, status: FileUpload["status"]) =>
  new AppError("unsupported_state", `Upload ${id} is ${status}: create another upload`, { param: "id" });

export function present(ctx: Ctx, row: FileUploadRow): FileUpload {
  const file = row.status === "used" ? files.find(ctx, row.workspaceId, row.targetId) : undefined;
  return {
    id: row.id,
    object: "upload",
    bytes: row.sizeBytes,
    created_at: seconds(row.createdAt),
    expires_at: seconds(row.expiresAt),
    filename: row.path,
    purpose: row.filePurpose,
    status: statusOf(row, ctx.clock.now()),
    file: file ? presentFile(file) : null,
  };
}

export function create(ctx: Ctx, workspaceId: string, body: CreateUpload): FileUpload {
  const { bytes, filename, purpose, expires_after: lifetime } = body;
  const most = ctx.config.datasets.max_upload_bytes;
  if (bytes > most)
    throw new AppError(
      "payload_too_large",
      `bytes: a file may have at most ${most} bytes (datasets.max_upload_bytes)`,
      {
        param: "/bytes",
      },
    );
  mustHaveRoom(ctx, { workspaceId, kind: "files" }, { bytes, param: "/bytes" });
  mustLeaveSpace(ctx, bytes);
  const now = ctx.clock.now();
  const upload = {
    workspaceId,
    purpose: "file" as const,
    targetId: files.idFor(now),
    path: filename,
    maxBytes: bytes,
    sizeBytes: bytes,
    contentType: body.mime_type,
    filePurpose: purpose,
    fileLifetimeMs: lifetime ? lifetime.seconds * SECOND_MS : null,
    expiresAt: now + LIFETIME_MS,
  };
  return present(ctx, write<UploadRow>(ctx.db, (tx) => uploads.create(tx, upload, now)) as FileUploadRow);
}

/** A request that is repeated with its Idempotency-Key adds one part. */
export async function add(ctx: Ctx, call: Omit<Creation, "body">, id: string): Promise<object> {
  const { workspaceId } = call.principal;
  const { maxBytes } = mustBeOpen(ctx, workspaceId, id);
  using meter = meterOf(ctx, { workspaceId, kind: "files" }, { param: "data" });
  const key = files.keyFor(ctx.clock.now());
  return await looseKeys.store(ctx, {
    key,
    put: async () => (await storeForm(ctx, call.request, { field: "data", key, meter, maxBytes })).written,
    own(tx, { bytes: sizeBytes, sha256 }) {
      const now = ctx.clock.now();
      let isNew = false;
      const answer = creates(ctx, { ...call, body: { sha256 } }, () => {
        mustBeOpen(ctx, workspaceId, id);
        const number = nextNumber(tx, id);
        meter.keep(sizeBytes);
        const part = { uploadId: id, number, sizeBytes, sha256, storageKey: key, createdAt: now };
        uploads.putPart(tx, part, now);
        call.set.status = 200; // as OpenAI answers
        isNew = true;
        return presentPart(part);
      });
      if (!isNew) looseKeys.drop(tx, key, now); // the request was answered before
      return answer;
    },
  });
}

/** In the commit of the part. A client that lost an answer sends the part again, so the parts may have more than `bytes`. */
function nextNumber(tx: Tx, id: string): number {
  const number = 1 + uploads.lastNumber(tx, id);
  if (number <= MAX_PARTS) return number;
  throw new AppError("schema", `data: an upload takes at most ${MAX_PARTS} parts`, { param: "data" });
}

/** A second call returns the same file, because the client may have lost the answer. */
export async function complete(ctx: Ctx, workspaceId: string, id: string, body: CompleteUpload): Promise<FileUpload> {
  const before = mustGet(ctx, workspaceId, id);
  if (before.status === "used") return present(ctx, before);
  mustBeOpen(ctx, workspaceId, id);
  await uploads.claimed(ctx, id, async (claim) => {
    const upload = claim as FileUploadRow;
    const parts = inOrder(ctx, upload, body.part_ids);
    const key = files.keyFor(ctx.clock.now());
    using meter = spaceMeter(ctx); // the parts count for the quota
    return await looseKeys.store(ctx, {
      key,
      put: () => join(ctx, parts, { key, meter, md5: body.md5 }),
      own: (tx, written) => finish(ctx, tx, upload, { written, key }),
    });
  });
  return present(ctx, mustGet(ctx, workspaceId, id));
}

function inOrder(ctx: Ctx, { id, sizeBytes }: FileUploadRow, ids: readonly string[]): UploadPartRow[] {
  const left = new Map(uploads.partsOf(ctx.db, id).map((part) => [partId(part), part]));
  const parts = ids.map((name, i) => {
    const part = left.get(name);
    if (!part) {
      const why = ids.indexOf(name) < i ? "is there twice" : "is no part of this upload";
      throw new AppError("schema", `part_ids.${i}: ${name.slice(0, 80)} ${why}`, { param: `/part_ids/${i}` });
    }
    left.delete(name);
    return part;
  });
  const total = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  if (total === sizeBytes) return parts;
  const message = `part_ids: these parts have ${total} bytes together, but bytes of the upload is ${sizeBytes}`;
  throw new AppError("upload_incomplete", message, { param: "/part_ids" });
}

type Joined = { key: string; meter: Meter; md5: string | null | undefined };

async function join(ctx: Ctx, parts: readonly UploadPartRow[], { key, meter, md5 }: Joined): Promise<Written> {
  const hash = new Bun.CryptoHasher("md5");
  async function* hashed() {
    for await (const chunk of uploads.joined(ctx, parts)) {
      hash.update(chunk);
      yield chunk;
    }
  }
  const written = await ctx.storage.put(key, md5 ? hashed() : uploads.joined(ctx, parts), { meter });
  const actual = hash.digest("hex");
  if (md5 && md5.toLowerCase() !== actual)
    throw new AppError("schema", `md5: the content of the parts has ${actual}, not ${md5}`, { param: "/md5" });
  return written;
}

/** One commit adds the file, removes the parts and marks the upload as used. */
function finish(ctx: Ctx, tx: Tx, upload: FileUploadRow, { written, key }: { written: Written; key: string }) {
  const now = ctx.clock.now();
  uploads.use(tx, upload.id, written, now);
  const file: Omit<ClientFileRow, "createdAt"> = {
    id: upload.targetId,
    workspaceId: upload.workspaceId,
    filename: upload.path,
    purpose: upload.filePurpose,
    sizeBytes: written.bytes,
    sha256: written.sha256,
    storageKey: key,
    expiresAt: upload.fileLifetimeMs === null ? null : now + upload.fileLifetimeMs,
  };
  return files.add(tx, file, now);
}

export function cancel(ctx: Ctx, workspaceId: string, id: string): FileUpload {
  const { status } = mustGet(ctx, workspaceId, id);
  if (status === "used" || status === "expired") throw over(id, status === "used" ? "completed" : "expired");
  write(ctx.db, (tx) => uploads.abort(tx, id, ctx.clock.now()));
  ctx.wake("volumes.sweep");
  return present(ctx, mustGet(ctx, workspaceId, id));
}
