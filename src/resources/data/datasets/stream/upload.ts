/**
 * Uploads. The rows are checked and written to a temporary row file (intake.ts). The file gets its final name, and the
 * dataset its row, after the last row was valid. A bad row, an aborted request or a crash leaves nothing behind.
 */

import { rm } from "node:fs/promises";
import { and, eq } from "drizzle-orm";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { type FilePart, readMultipart } from "../../../../http/body/multipart.ts";
import { formFieldCheck } from "../../../../http/body/unknown_fields.ts";
import { type Creation, creates } from "../../../../http/idempotency.ts";
import { warn } from "../../../../http/warnings.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { MAP_RULE, parseMap } from "../../../../lib/rows/columns.ts";
import { FORMATS, type Row } from "../../../../lib/rows/format.ts";
import { SHAPES } from "../../../../lib/rows/shape.ts";
import { flagText, Label, later, Metadata } from "../../../../lib/schema.ts";
import { issueText } from "../../../../lib/text/issue.ts";
import { write } from "../../../../platform/db/db.ts";
import { renameDurably } from "../../../../platform/files.ts";
import { openRows } from "../../../../platform/rows/file.ts";
import { logEntries } from "../../../../platform/rows/live.ts";
import type { OpenMeter } from "../../../../platform/storage/meter.ts";
import { meterOf } from "../../storage_usage/service.ts";
import { mustFitRows } from "../row_quota.ts";
import { Dataset, present } from "../schema.ts";
import * as datasets from "../service.ts";
import { type DatasetRow, datasets as table } from "../table.ts";
import { discardPart, pathOf } from "./files.ts";
import { type Options, type RowsUpload, readUpload } from "./intake.ts";

/** The fields of an upload, besides its file. */
const MAX_COLUMNS = 256; // of a map
const MapOfColumns = later(() =>
  z
    .record(z.string().min(1).max(200), z.string().min(1).max(200))
    .refine((map) => Object.keys(map).length <= MAX_COLUMNS, `must have at most ${MAX_COLUMNS} columns`),
);
const UploadFields = later(() =>
  z.object({
    name: Label(),
    metadata: Metadata.default({}),
    map: MapOfColumns.default({}),
    shape: z.enum(SHAPES).optional(),
    format: z.enum(FORMATS).optional(),
    dry_run: flagText.default(false),
  }),
);

const PREVIEW_ROWS = 5;
export const FilePreview = later(() =>
  z
    .object({
      object: z.literal("dataset.file_preview"),
      format: z.enum(FORMATS),
      detected: Dataset.unwrap().shape.detected.unwrap(),
      rows: z.array(z.record(z.string(), z.unknown())).describe("The first rows, as they would be stored"),
    })
    .meta({ id: "DatasetFilePreview" }),
);
export type FilePreview = z.infer<typeof FilePreview>;
type UploadFields = z.infer<typeof UploadFields>;

type Call = Omit<Creation, "body">;

export async function upload(ctx: Ctx, call: Call) {
  let built: RowsUpload | undefined;
  let options: Options | undefined;
  const id = newId("ds", ctx.clock.now());
  const { making } = ctx.state.datasets;
  const { workspaceId } = call.principal;
  using meter = rowsMeter(ctx, workspaceId);
  making.add(id);
  try {
    const fields = await readMultipart(call.request, {
      minBytesPerSecond: ctx.config.http.min_upload_bytes_per_second,
      onField: formFieldCheck(call.request, UploadFields.unwrap()),
      maxFileBytes: ctx.config.datasets.max_upload_bytes,
      silenceMs: ctx.config.http.idle_timeout_seconds * 1000,
      async onFile(part, before) {
        if (part.name !== "file" || built)
          throw new AppError("schema", "file: send exactly one file, in the field `file`", { param: "file" });
        // Reject bad fields before a large file arrives.
        options = optionsOf(fieldsOf(before["name"] === undefined ? { ...before, name: "unknown yet" } : before));
        built = await readUpload(ctx, part, { id, workspaceId, signal: call.request.signal, options, meter });
      },
    });
    if (!built) throw new AppError("schema", "file: is required: send the rows in the field `file`", { param: "file" });
    const uploadFields = fieldsOf(fields);
    if (JSON.stringify(optionsOf(uploadFields)) !== JSON.stringify(options))
      throw new AppError("schema", "file: send map, shape and format before the file", { param: "file" });
    if (uploadFields.dry_run) return previewOf(call, built);
    return await keep(ctx, call, uploadFields, { ...built, id, meter });
  } finally {
    making.delete(id);
    await discardPart(ctx, id);
    if (!datasets.current(ctx, id)) await rm(pathOf(ctx, id), { force: true });
  }
}

/** The temporary file is removed by the caller. */
function previewOf({ set }: Call, { path, format, detected }: RowsUpload): FilePreview {
  const file = openRows(path, "read");
  try {
    const { entries } = logEntries(file, 0, PREVIEW_ROWS, detected.rows);
    set.status = 200;
    const rows = entries.map(({ text }) => JSON.parse(text ?? "{}") as Row);
    return { object: "dataset.file_preview", format, detected, rows };
  } finally {
    file.close();
  }
}

/** The workspace may have the same rows already. */
const rowsMeter = (ctx: Ctx, workspaceId: string) =>
  meterOf(ctx, { workspaceId, kind: "datasets" }, { param: "file", onItsWay: "rows" });

type Importer = { workspaceId: string; signal: AbortSignal };

/** Rows that this server made of another format, as a dataset. The same rows are the same dataset. */
export async function importRows(
  ctx: Ctx,
  { workspaceId, signal }: Importer,
  part: FilePart,
  fields: Omit<UploadFields, "dry_run">,
): Promise<DatasetRow> {
  const id = newId("ds", ctx.clock.now());
  const { making } = ctx.state.datasets;
  using meter = rowsMeter(ctx, workspaceId);
  making.add(id);
  try {
    const built = await readUpload(ctx, part, { id, workspaceId, signal, options: optionsOf(fields), meter });
    await renameDurably(built.path, pathOf(ctx, id));
    return write(ctx.db, () => {
      const existing = sameContent(ctx, workspaceId, built.sha256);
      if (existing) return existing;
      meter.keep(built.bytes);
      mustFitRows(ctx, { workspaceId, rows: built.rows, param: "file" });
      return record(ctx, workspaceId, fields, { ...built, id });
    });
  } finally {
    making.delete(id);
    await discardPart(ctx, id);
    if (!datasets.current(ctx, id)) await rm(pathOf(ctx, id), { force: true });
  }
}

const optionsOf = ({ map, shape, format }: Omit<UploadFields, "dry_run">): Options => ({
  map,
  ...(shape === undefined ? {} : { shape }),
  ...(format === undefined ? {} : { format }),
});

function fieldsOf(fields: Readonly<Record<string, string>>): UploadFields {
  if (fields["name"] === undefined)
    throw new AppError("schema", "name: is required: send the name of the dataset in the field `name`", {
      param: "name",
    });
  const values: Record<string, unknown> = { ...fields };
  if (fields["metadata"] !== undefined)
    values["metadata"] = read("metadata", () => JSON.parse(fields["metadata"] ?? ""));
  if (fields["map"] !== undefined) values["map"] = read("map", () => parseMap(fields["map"] ?? ""));
  const result = UploadFields.safeParse(values);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const field = String(issue?.path[0] ?? "name");
  throw new AppError("schema", `${field}: ${issueText(issue)}`, { param: field });
}

function read(name: "metadata" | "map", parse: () => unknown): unknown {
  try {
    return parse();
  } catch {
    throw new AppError("schema", `${name}: ${name === "map" ? MAP_RULE : "must be a JSON object of strings"}`, {
      param: name,
    });
  }
}

/**
 * Creates the dataset, or returns the one that has this content. Only the commit can decide: meanwhile an equal upload
 * may have finished, or rows were appended to the equal dataset. So the row file gets its final name in any case.
 */
type NewRows = RowsUpload & { id: string; meter: OpenMeter };

async function keep(ctx: Ctx, call: Call, fields: UploadFields, built: NewRows) {
  const { workspaceId } = call.principal;
  await renameDurably(built.path, pathOf(ctx, built.id));
  return creates(ctx, { ...call, body: { ...fields, sha256: built.sha256 } }, () => {
    const existing = sameContent(ctx, workspaceId, built.sha256);
    if (existing) return answerExisting(call, fields, existing);
    built.meter.keep(built.bytes);
    mustFitRows(ctx, { workspaceId, rows: built.rows, param: "file" });
    return present(record(ctx, workspaceId, fields, built));
  });
}

function answerExisting({ request, set }: Call, { name }: UploadFields, existing: DatasetRow) {
  set.status = 200;
  if (name !== existing.name)
    warn(request, `name, because dataset ${existing.id} already has this content and keeps its name`);
  return present(existing);
}

function record(
  ctx: Ctx,
  workspaceId: string,
  { name, metadata }: Pick<UploadFields, "name" | "metadata">,
  { id, rows, bytes, format, sha256, detected }: RowsUpload & { id: string },
): DatasetRow {
  const counts = { headRow: rows, liveRows: rows, bytes };
  const dataset = { workspaceId, name, metadata, ...counts, sourceType: "upload" as const, format, detected };
  return datasets.addNow(ctx, { ...dataset, contentSha256: sha256 }, ctx.clock.now(), id);
}

const sameContent = (ctx: Ctx, workspaceId: string, sha256: string): DatasetRow | undefined =>
  ctx.db
    .select()
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), eq(table.contentSha256, sha256)))
    .get();
