/**
 * Uploads. Each line is checked as it arrives and written to a temporary row file. The file gets its final name, and
 * the dataset its row, after the last line was valid. A bad line, an aborted request or a crash leaves nothing behind.
 */
import { rm } from "node:fs/promises";
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type FilePart, readMultipart } from "../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../http/body/unknown_fields.ts";
import { type Creation, creates } from "../../../http/idempotency.ts";
import { warn } from "../../../http/warnings.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import type { Format } from "../../../lib/rows/format.ts";
import { createLineReader, type Piece, RowError } from "../../../lib/rows/lines.ts";
import { MIB } from "../../../lib/units.ts";
import { renameDurably, tempPath } from "../../../platform/files.ts";
import { openRows, type RowsFile } from "../../../platform/rows/file.ts";
import { mustHaveRoom, withinQuota } from "../../storage_usage/service.ts";
import { present, UploadFields } from "../schema.ts";
import * as datasets from "../service.ts";
import { type DatasetRow, datasets as table } from "../table.ts";
import { folderOf, pathOf } from "./files.ts";

type RowsUpload = { path: string; rows: number; bytes: number; format: Format; sha256: string };
type Call = Omit<Creation, "body">;

const COMMIT_BYTES = MIB;

export async function upload(ctx: Ctx, call: Call) {
  let built: RowsUpload | undefined;
  const temp = tempPath(folderOf(ctx));
  try {
    const fields = await readMultipart(call.request, {
      onField: formFieldCheck(call.request, UploadFields),
      maxFileBytes: ctx.config.datasets.max_upload_bytes,
      silenceMs: ctx.config.http.idle_timeout_seconds * 1000,
      async onFile(part, before) {
        if (part.name !== "file" || built)
          throw new AppError("schema", "file: send exactly one file, in the field `file`", { param: "file" });
        if (before["name"] !== undefined) fieldsOf(before); // Reject bad fields before a large file arrives.
        built = await build(ctx, part, temp, call.principal.workspaceId);
      },
    });
    if (!built)
      throw new AppError("schema", "file: is required: send the JSON lines in the field `file`", { param: "file" });
    return await keep(ctx, call, fieldsOf(fields), built);
  } finally {
    await rm(temp, { force: true }); // There is nothing to remove after a rename.
  }
}

function fieldsOf(fields: Readonly<Record<string, string>>): UploadFields {
  if (fields["name"] === undefined)
    throw new AppError("schema", "name: is required: send the name of the dataset in the field `name`", {
      param: "name",
    });
  const given = { ...fields, ...(fields["metadata"] === undefined ? {} : { metadata: parsed(fields["metadata"]) }) };
  const result = UploadFields.safeParse(given);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const field = String(issue?.path[0] ?? "name");
  throw new AppError("schema", `${field}: ${issue?.message ?? "is required"}`, { param: field });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AppError("schema", "metadata: must be a JSON object of strings", { param: "metadata" });
  }
}

/** Writes rows into a new row file, in commits of about `COMMIT_BYTES`. */
class RowsWriter {
  readonly #file: RowsFile;
  readonly #now: number;
  #next = 1;
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  /** All rows so far. */
  bytes = 0;

  constructor(path: string, now: number) {
    this.#file = openRows(path, "build");
    this.#now = now;
  }

  add(pieces: readonly Piece[]) {
    for (const { body } of pieces) {
      this.#pending.push(body);
      this.#pendingBytes += body.byteLength;
      this.bytes += body.byteLength;
      if (this.#pendingBytes >= COMMIT_BYTES) this.#commit();
    }
  }

  #commit() {
    this.#file.transact(() => {
      this.#next = this.#file.append(this.#next, this.#pending, [], this.#now) + 1;
    });
    this.#pending = [];
    this.#pendingBytes = 0;
  }

  async flush() {
    this.#commit();
    await this.#file.flush();
  }

  close() {
    this.#file.close();
  }
}

async function build(ctx: Ctx, part: FilePart, temp: string, workspaceId: string): Promise<RowsUpload> {
  const reader = createLineReader({
    maxRowBytes: ctx.config.datasets.max_row_bytes,
    format: undefined,
    visit(row, _text, line) {
      if (row["_op"] !== undefined || row["_row_id"] !== undefined)
        throw new RowError(line, "_op and _row_id are for appended rows only: use POST /v1/datasets/{id}/rows");
      return undefined;
    },
  });
  const hasher = new Bun.CryptoHasher("sha256");
  const writer = new RowsWriter(temp, ctx.clock.now());
  try {
    for await (const chunk of withinQuota(ctx, { workspaceId, kind: "datasets" }, part.stream, "file")) {
      hasher.update(chunk);
      writer.add(reader.push(chunk));
    }
    writer.add(reader.end());
    if (reader.rows === 0 || !reader.format)
      throw new AppError("schema", "file: has no rows: write one JSON object per line", { param: "file" });
    await writer.flush();
    const { bytes } = writer;
    return { path: temp, rows: reader.rows, bytes, format: reader.format, sha256: hasher.digest("hex") };
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    throw new AppError("schema", error.message, { param: "file" });
  } finally {
    writer.close();
  }
}

/**
 * Creates the dataset, or returns the one that has this content. Only the commit can decide: meanwhile an equal upload
 * may have finished, or rows were appended to the equal dataset. So the row file gets its final name in any case.
 */
async function keep(ctx: Ctx, call: Call, fields: UploadFields, built: RowsUpload) {
  const { workspaceId } = call.principal;
  const now = ctx.clock.now();
  const id = newId("ds", now);
  const { making } = ctx.state.datasets;
  making.add(id);
  try {
    await renameDurably(built.path, pathOf(ctx, id));
    return creates(ctx, { ...call, body: { ...fields, sha256: built.sha256 } }, () => {
      const existing = sameContent(ctx, workspaceId, built.sha256);
      if (existing) return answerExisting(call, fields, existing);
      mustHaveRoom(ctx, { workspaceId, kind: "datasets" }, { bytes: built.bytes, param: "file" });
      return present(record(ctx, { id, workspaceId, ...fields }, built, now));
    });
  } finally {
    making.delete(id);
    if (!datasets.current(ctx, id)) await rm(pathOf(ctx, id), { force: true });
  }
}

function answerExisting({ request, set }: Call, { name }: UploadFields, existing: DatasetRow) {
  set.status = 200;
  if (name !== existing.name)
    warn(request, `name, because dataset ${existing.id} already has this content and keeps its name`);
  return present(existing);
}

function record(
  ctx: Ctx,
  given: { id: string; workspaceId: string } & UploadFields,
  { rows, bytes, format, sha256 }: RowsUpload,
  now: number,
): DatasetRow {
  const { id, ...rest } = given;
  const counts = { headRow: rows, liveRows: rows, bytes };
  return datasets.addNow(ctx, { ...rest, ...counts, sourceType: "upload", format, contentSha256: sha256 }, now, id);
}

const sameContent = (ctx: Ctx, workspaceId: string, sha256: string): DatasetRow | undefined =>
  ctx.db
    .select()
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), eq(table.contentSha256, sha256)))
    .get();
