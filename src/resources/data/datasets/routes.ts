import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { readBody } from "../../../http/body/json.ts";
import { isMultipart } from "../../../http/body/multipart.ts";
import { keepOpen } from "../../../http/connection.ts";
import { creates, createsLater } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted, flagText, Label, numberText } from "../../../lib/schema.ts";
import { byName } from "./names.ts";
import { DatasetPreview, PreviewDataset, previewDataset } from "./preview.ts";
import * as schema from "./schema.ts";
import { present, presentSnapshot } from "./schema.ts";
import * as datasets from "./service.ts";
import { append } from "./stream/append.ts";
import { readBatch } from "./stream/batch.ts";
import * as reading from "./stream/reading.ts";
import * as snapshots from "./stream/snapshots.ts";
import { DatasetStatistics, statisticsOf } from "./stream/statistics.ts";
import { FilePreview, upload } from "./stream/upload.ts";

const RowsQuery = PageQuery.extend({
  after: z.string().optional().describe("row_id of the last row of the previous page"),
  snapshot: z.string().optional().describe("The live rows of this snapshot, such as @snap-3"),
  live: flagText.default(false).describe("Only live rows, each with its newest content"),
  from_row: numberText(z.int().min(1).max(1e15))
    .optional()
    .describe("Begin at this row_id instead of after a row. A live row stands where it was first appended"),
  contains: z
    .string()
    .min(1)
    .max(1000)
    .optional()
    .describe("Only live rows with this text in their JSON. Continue with from_row = scanned_to + 1"),
  ignore_case: flagText.default(false).describe("For contains: upper and lower case are the same"),
});
const StatisticsQuery = z.object({
  snapshot: z.string().optional().describe("Such as @snap-3. Default: the current rows"),
});
const ExportQuery = z.object({
  snapshot: z.string().optional(),
  format: z
    .enum(["jsonl", "csv", "spreadsheet"])
    .default("jsonl")
    .describe("csv has the exact values, for programs. spreadsheet is CSV in which no cell is a formula."),
});
const DiffQuery = PageQuery.extend({
  after: z.string().optional().describe("row_id of the last entry of the previous page"),
});
const CutSnapshot = z.object({ note: Label(1000).nullish() }).meta({ id: "CutSnapshot" });
const ROWS_BODY = "{rows, expected_head_row} as application/json, or one row per line as application/x-ndjson";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const datasetOf = (principal: { workspaceId: string }, id: string) =>
    datasets.mustGet(ctx, principal.workspaceId, id);
  return new Elysia({ prefix: "/v1/datasets", tags: ["Datasets"] })
    .use(authed)
    .use(byName(ctx))
    .post(
      "",
      async ({ request, principal, set }) => {
        if (isMultipart(request)) {
          keepOpen(ctx, request);
          return upload(ctx, { request, principal, set });
        }
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), schema.CreateDataset);
        return creates(ctx, { request, principal, body, set }, () =>
          present(datasets.createStream(ctx, principal.workspaceId, body)),
        );
      },
      {
        detail: describe(
          "Upload a file of rows, or create an empty stream",
          { 200: z.union([schema.Dataset, FilePreview]), 201: schema.Dataset },
          {
            description:
              "With dry_run nothing is stored: the file is read whole, and the answer has its first rows as they would be stored. Otherwise 200: a dataset of the workspace still has exactly this content, and the answer is that dataset. If it has another name, the header `warning` says so. The first rows tell the shape of the file, which `detected` names: OpenAI chat, ShareGPT, Alpaca, or the columns prompt, completion, chosen and rejected. `map` names the columns of other files.",
            accepts: {
              "application/json": schema.CreateDataset,
              "multipart/form-data":
                "name, metadata, map (question=prompt,answer=completion, or a JSON object), shape, format, dry_run, and last the file: JSON lines, a JSON array, CSV, TSV or Parquet, also packed with gzip or zstd",
            },
          },
        ),
      },
    )
    .get("", ({ principal, query }) => datasets.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List datasets", { 200: listOf(schema.Dataset, "DatasetList") }),
    })
    .get("/:id", ({ principal, params }) => present(datasetOf(principal, params.id), { whole: true }), {
      detail: describe("Get a dataset, with its newest snapshot and number of rows since", { 200: schema.Dataset }),
    })
    .patch(
      "/:id",
      ({ principal, params, body }) => present(datasets.update(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(schema.UpdateDataset),
        detail: describe("Change a dataset's name, metadata or automatic snapshots", { 200: schema.Dataset }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = datasets.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "dataset", deleted: true };
      },
      { detail: describe("Delete a dataset and its rows", { 200: Deleted("dataset") }) },
    )
    .post(
      "/:id/rows",
      async ({ request, principal, params, set }) => {
        const row = datasets.mustBeStream(datasetOf(principal, params.id));
        const batch = await readBatch(ctx, request, row.format);
        const { sha256, expectedHead } = batch;
        const call = { request, principal, body: { sha256, expectedHead }, set };
        return createsLater(ctx, call, (once) => append(ctx, row.id, batch, once));
      },
      {
        detail: describe(
          "Append, supersede or remove rows; a request applies completely or not at all",
          { 201: schema.Append },
          { accepts: { "application/json": schema.AppendRows, "application/x-ndjson": ROWS_BODY } },
        ),
      },
    )
    .get("/:id/rows", ({ principal, params, query }) => reading.rowsPage(ctx, datasetOf(principal, params.id), query), {
      ...asks(RowsQuery),
      detail: describe("List the log entries, or the live rows", {
        200: schema.RowList,
      }),
    })
    .get(
      "/:id/rows/export",
      ({ request, principal, params, query }) => reading.exported(ctx, request, datasetOf(principal, params.id), query),
      {
        ...asks(ExportQuery),
        detail: describe("Stream the live rows as JSON lines or CSV", { 200: "application/x-ndjson" }),
      },
    )
    .get(
      "/:id/statistics",
      ({ request, principal, params, query }) => {
        keepOpen(ctx, request);
        return statisticsOf(ctx, datasetOf(principal, params.id), query.snapshot);
      },
      {
        ...asks(StatisticsQuery),
        detail: describe(
          "Describe the columns of a dataset: types, lengths, frequent values, and equal rows",
          { 200: DatasetStatistics },
          { description: "Of at most 200,000 rows and 256 MiB from the beginning: measured_rows says how many." },
        ),
      },
    )
    .post(
      "/:id/preview",
      ({ request, principal, params, body }) => {
        keepOpen(ctx, request);
        const caller = { workspaceId: principal.workspaceId, signal: AbortSignal.any([request.signal, ctx.closing]) };
        return previewDataset(ctx, caller, datasetOf(principal, params.id), body);
      },
      {
        ...takes(PreviewDataset),
        detail: describe(
          "Show the first rows as a model reads them, with token counts and statistics",
          { 200: DatasetPreview },
          { description: "The trained part of each row is marked. Nothing is generated or stored." },
        ),
      },
    )
    .post(
      "/:id/snapshots",
      async ({ request, principal, params, set }) => {
        const row = datasets.mustBeStream(datasetOf(principal, params.id));
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), CutSnapshot, {});
        return createsLater(ctx, { request, principal, body, set }, async (once) => {
          const how = { trigger: "manual" as const, note: body.note ?? null, once };
          const { snapshot, isNew } = await snapshots.cut(ctx, row.id, how);
          if (!isNew) set.status = 200;
          return snapshot;
        });
      },
      {
        detail: describe(
          "Cut a snapshot, or return the newest one (200) if no row came since",
          { 200: schema.Snapshot, 201: schema.Snapshot },
          { accepts: { "application/json": CutSnapshot } },
        ),
      },
    )
    .get(
      "/:id/snapshots",
      ({ principal, params, query }) => snapshots.list(ctx, datasetOf(principal, params.id), query),
      {
        ...asks(PageQuery),
        detail: describe("List snapshots, newest first", { 200: listOf(schema.Snapshot, "DatasetSnapshotList") }),
      },
    )
    .get(
      "/:id/snapshots/:snapshot",
      ({ principal, params }) =>
        presentSnapshot(snapshots.mustGet(ctx, datasetOf(principal, params.id), params.snapshot, "snapshot")),
      { detail: describe("Get a snapshot", { 200: schema.Snapshot }) },
    )
    .get(
      "/:id/snapshots/:snapshot/diff/:other",
      ({ principal, params, query }) => {
        const row = datasetOf(principal, params.id);
        const from = snapshots.mustGet(ctx, row, params.snapshot, "snapshot");
        const to = snapshots.mustGet(ctx, row, params.other, "other");
        return reading.diff(ctx, row, { from, to, ...query });
      },
      {
        ...asks(DiffQuery),
        detail: describe("List the changes between two snapshots", { 200: schema.Diff }),
      },
    );
};
