import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { listOf, PageQuery } from "../../http/answer/pagination.ts";
import { area } from "../../http/auth.ts";
import { readBody } from "../../http/body/json.ts";
import { isMultipart } from "../../http/body/multipart.ts";
import { keepOpen } from "../../http/connection.ts";
import { creates, createsLater } from "../../http/idempotency.ts";
import { bodyLimits } from "../../http/limits/body_limits.ts";
import { describe } from "../../http/openapi.ts";
import { asks } from "../../http/query.ts";
import { Deleted, Label } from "../../lib/schema.ts";
import * as schema from "./schema.ts";
import { present, presentSnapshot } from "./schema.ts";
import * as datasets from "./service.ts";
import { append } from "./stream/append.ts";
import { readBatch } from "./stream/batch.ts";
import * as reading from "./stream/reading.ts";
import * as snapshots from "./stream/snapshots.ts";
import { upload } from "./stream/upload.ts";

const flag = z.enum(["true", "false", "1", "0", ""]).transform((text) => text !== "false" && text !== "0");
const RowsQuery = PageQuery.extend({
  after: z.string().optional().describe("row_id of the last row of the previous page"),
  snapshot: z.string().optional().describe("As of this snapshot, such as @snap-3; only live rows"),
  live: flag.default(false).describe("Only live rows, each with its newest content"),
});
const ExportQuery = z.object({ snapshot: z.string().optional(), format: z.enum(["jsonl", "csv"]).default("jsonl") });
const DiffQuery = PageQuery.extend({ after: z.string().optional().describe("row_id of the last entry seen") });
const CutSnapshot = z.object({ note: Label(1000).nullish() }).meta({ id: "CutSnapshot" });
const ROWS_BODY = "{rows, expected_head_row} as application/json, or one row a line as application/x-ndjson";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const mine = (principal: { workspaceId: string }, id: string) => datasets.mustGet(ctx, principal.workspaceId, id);
  return new Elysia({ prefix: "/v1/datasets", tags: ["Datasets"] })
    .use(authed)
    .post(
      "",
      async ({ request, principal, set }) => {
        if (isMultipart(request)) {
          keepOpen(ctx, request);
          return upload(ctx, { request, principal, set });
        }
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), schema.CreateDataset);
        return creates(ctx, { request, principal, body, set }, () =>
          present(datasets.createStream(ctx, principal.workspaceId, body), { whole: true }),
        );
      },
      {
        detail: describe(
          "Upload a file of JSON lines, or create an empty stream",
          { 200: schema.Dataset, 201: schema.Dataset },
          {
            description: "200: this workspace has a dataset of the same content already, and this is it.",
            accepts: {
              "application/json": schema.CreateDataset,
              "multipart/form-data": "name, file (JSON lines), metadata",
            },
          },
        ),
      },
    )
    .get("", ({ principal, query }) => datasets.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List datasets", { 200: listOf(schema.Dataset, "DatasetList") }),
    })
    .get("/:id", ({ principal, params }) => present(mine(principal, params.id), { whole: true }), {
      detail: describe("Get a dataset, with how its snapshots stand", { 200: schema.Dataset }),
    })
    .patch(
      "/:id",
      ({ principal, params, body }) =>
        present(datasets.update(ctx, principal.workspaceId, params.id, body), { whole: true }),
      {
        ...takes(schema.UpdateDataset),
        detail: describe("Change a dataset's name, metadata or snapshot rule", { 200: schema.Dataset }),
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
        const row = datasets.mustBeStream(mine(principal, params.id));
        const batch = await readBatch(ctx, request, row.format);
        const { sha256, expectedHead } = batch;
        const call = { request, principal, body: { sha256, expectedHead }, set };
        return createsLater(ctx, call, (once) => append(ctx, row.id, batch, once));
      },
      {
        detail: describe(
          "Append, supersede or remove rows: all of them or none",
          { 201: schema.Append },
          { accepts: { "application/json": schema.AppendRows, "application/x-ndjson": ROWS_BODY } },
        ),
      },
    )
    .get("/:id/rows", ({ principal, params, query }) => reading.rowsPage(ctx, mine(principal, params.id), query), {
      ...asks(RowsQuery),
      detail: describe("List the entries of the log, or the live rows", {
        200: listOf(schema.StreamRow, "DatasetRowList"),
      }),
    })
    .get(
      "/:id/rows/export",
      ({ request, principal, params, query }) => reading.exported(ctx, request, mine(principal, params.id), query),
      {
        ...asks(ExportQuery),
        detail: describe("Stream the live rows as JSON lines or CSV", { 200: "application/x-ndjson" }),
      },
    )
    .post(
      "/:id/snapshots",
      async ({ request, principal, params, set }) => {
        const row = datasets.mustBeStream(mine(principal, params.id));
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
          "Cut a snapshot; where nothing came since the newest, that one is the answer",
          { 200: schema.Snapshot, 201: schema.Snapshot },
          { accepts: { "application/json": CutSnapshot } },
        ),
      },
    )
    .get("/:id/snapshots", ({ principal, params, query }) => snapshots.list(ctx, mine(principal, params.id), query), {
      ...asks(PageQuery),
      detail: describe("List snapshots, newest first", { 200: listOf(schema.Snapshot, "DatasetSnapshotList") }),
    })
    .get(
      "/:id/snapshots/:snapshot",
      ({ principal, params }) =>
        presentSnapshot(snapshots.mustGet(ctx, mine(principal, params.id), params.snapshot, "snapshot")),
      { detail: describe("Get a snapshot", { 200: schema.Snapshot }) },
    )
    .get(
      "/:id/snapshots/:snapshot/diff/:other",
      ({ principal, params, query }) => {
        const row = mine(principal, params.id);
        const from = snapshots.mustGet(ctx, row, params.snapshot, "snapshot");
        const to = snapshots.mustGet(ctx, row, params.other, "other");
        return reading.diff(ctx, row, { from, to, ...query });
      },
      {
        ...asks(DiffQuery),
        detail: describe("What came between two snapshots", { 200: schema.Diff }),
      },
    );
};
