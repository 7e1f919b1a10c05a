import { z } from "zod";
import { FILE_KINDS } from "../../../lib/rows/file_kind.ts";
import { FORMATS } from "../../../lib/rows/format.ts";
import { SHAPES } from "../../../lib/rows/shape.ts";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../../lib/schema.ts";
import { Credentials, DbConnection, HubConfig, Source } from "../../../lib/source.ts";
import { isoTime } from "../../../lib/time.ts";
import {
  DATASET_SOURCES,
  type DatasetRow,
  RESOLUTION_STATUSES,
  type ResolutionRow,
  type SnapshotRow,
  TRIGGERS,
} from "./table.ts";

const AutoSnapshot = later(() =>
  z
    .int()
    .min(1)
    .max(1_000_000_000)
    .nullable()
    .describe("Cut a snapshot after this many new rows; null turns automatic snapshots off"),
);

export const CreateDataset = later(() =>
  z
    .object({
      name: Label(),
      format: z.enum(FORMATS),
      auto_snapshot_rows: AutoSnapshot.default(null),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateDataset" }),
);
export type CreateDataset = z.infer<typeof CreateDataset>;

export const UpdateDataset = later(() =>
  z
    .object({ name: Label().optional(), auto_snapshot_rows: AutoSnapshot.optional(), metadata: Metadata.optional() })
    .meta({ id: "UpdateDataset" }),
);
export type UpdateDataset = z.infer<typeof UpdateDataset>;

export const ValidateSource = later(() =>
  Source.unwrap().extend({ credentials: Credentials.nullish() }).meta({ id: "ValidateSource" }),
);
export const ConnectDataset = later(() =>
  ValidateSource.unwrap()
    .extend({ name: Label(), metadata: Metadata.default({}) })
    .meta({
      id: "ConnectDataset",
    }),
);
export type ConnectDataset = z.infer<typeof ConnectDataset>;
export const ResolveDataset = later(() =>
  z
    .object({ credentials: Credentials.nullish().describe("Used for this resolution only, never stored") })
    .meta({ id: "ResolveDataset" }),
);

export const SourceValidation = later(() =>
  z
    .object({
      object: z.literal("dataset.validation"),
      valid: z.boolean().describe("The source can be read, and its first rows have the columns of a dataset format"),
      num_rows: z.int(),
      num_rows_exact: z
        .boolean()
        .describe(
          "false: there are more rows, but counting took longer than connectors.validate_timeout_ms, or failed",
        ),
      columns: z.array(z.string()),
      error: z.string().nullable(),
    })
    .meta({ id: "SourceValidation" }),
);
export type SourceValidation = z.infer<typeof SourceValidation>;

export const AppendRows = later(() =>
  z
    .object({
      rows: z
        .array(z.record(z.string(), z.unknown()))
        .min(1)
        .describe("A row may contain _op and _row_id to change an earlier row"),
      expected_head_row: z.int().min(0).nullish().describe("Rejected with 409 head_moved if head_row is different"),
    })
    .meta({ id: "AppendRows" }),
);

export const Dataset = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("dataset"),
      name: z.string(),
      created_at: DateTime,
      updated_at: DateTime,
      source_type: z.enum(DATASET_SOURCES),
      source_uri: z.string().nullable(),
      hub_dataset: z.string().nullable(),
      hub_config: HubConfig.unwrap().omit({ token: true }).nullable(),
      db_connection: DbConnection.nullable().describe("Without its secrets"),
      db_query: z.string().nullable(),
      num_rows: z.int().nullable().describe("Live rows; null for connected sources"),
      size_bytes: z.int().nullable(),
      format: z.enum(FORMATS).nullable(),
      head_row: z.int(),
      auto_snapshot_rows: z.int().nullable(),
      latest_snapshot_id: z.string().nullable().describe("Only in the answer of get-dataset; null elsewhere"),
      unsnapshotted_rows: z.int().nullable().describe("Only in the answer of get-dataset; null elsewhere"),
      snapshot_count: z.int().nullable(),
      metadata: z.record(z.string(), z.string()),
      detected: z
        .object({
          file: z.enum(FILE_KINDS),
          shape: z.enum(SHAPES),
          fields: z.array(z.string()).describe("The fields that the columns of the file became"),
          rows: z.int().describe("Rows of the file"),
          summary: z.string(),
        })
        .nullable()
        .describe("The file that was uploaded, such as Alpaca, 52,002 rows → prompt/completion; null elsewhere"),
    })
    .meta({ id: "Dataset" }),
);
export type Dataset = z.infer<typeof Dataset>;

/** `whole` adds the fields that only get-dataset has. */
export function present(row: DatasetRow, { whole = false } = {}): Dataset {
  const { source } = row;
  return {
    id: row.id,
    object: "dataset",
    name: row.name,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    source_type: row.sourceType,
    source_uri: source?.source_uri ?? null,
    hub_dataset: source?.hub_dataset ?? null,
    hub_config: source?.hub_config ?? null,
    db_connection: source?.db_connection ?? null,
    db_query: source?.db_query ?? null,
    num_rows: source ? null : row.liveRows,
    size_bytes: source ? null : row.bytes,
    format: row.format,
    head_row: row.headRow,
    auto_snapshot_rows: row.autoSnapshotRows,
    latest_snapshot_id: whole && row.snapshotCount > 0 ? snapshotId(row.snapshotCount) : null,
    unsnapshotted_rows: whole && !source ? row.headRow - row.snapshotHeadRow : null,
    snapshot_count: row.snapshotCount,
    metadata: row.metadata,
    detected: row.detected,
  };
}

export const snapshotId = (number: number) => `@snap-${number}`;
export const snapshotNumber = (id: string): number | undefined => {
  const digits = /^@?snap-([1-9]\d{0,14})$/.exec(id)?.[1];
  return digits === undefined ? undefined : Number(digits);
};

export const Snapshot = later(() =>
  z
    .object({
      object: z.literal("dataset_snapshot"),
      id: z.string(),
      dataset_id: z.string(),
      number: z.int(),
      head_row: z.int(),
      row_count: z.int(),
      size_bytes: z.int(),
      sha256: z.string().describe("Hash of the snapshot exported as JSON lines"),
      trigger: z.enum(TRIGGERS),
      job_id: z.string().nullable(),
      note: z.string().nullable(),
      created_at: DateTime,
    })
    .meta({ id: "DatasetSnapshot" }),
);
export type Snapshot = z.infer<typeof Snapshot>;

export const presentSnapshot = (row: SnapshotRow): Snapshot => ({
  object: "dataset_snapshot",
  id: snapshotId(row.number),
  dataset_id: row.datasetId,
  number: row.number,
  head_row: row.headRow,
  row_count: row.rowCount,
  size_bytes: row.bytes,
  sha256: row.sha256,
  trigger: row.trigger,
  job_id: row.jobId,
  note: row.note,
  created_at: isoTime(row.createdAt),
});

export const Append = later(() =>
  z
    .object({
      object: z.literal("dataset.append"),
      dataset_id: z.string(),
      batch_id: z.string(),
      first_row_id: z.int(),
      last_row_id: z.int(),
      appended: z.int(),
      superseded: z.int(),
      tombstoned: z.int(),
      head_row: z.int(),
      unsnapshotted_rows: z.int(),
    })
    .meta({ id: "DatasetAppend" }),
);
export type Append = z.infer<typeof Append>;

export const StreamRow = later(() =>
  z
    .object({
      object: z.literal("dataset_row"),
      row_id: z.int(),
      op: z.enum(["append", "supersede", "tombstone"]),
      target_row_id: z.int().nullable(),
      data: z.record(z.string(), z.unknown()).nullable(),
      created_at: DateTime,
    })
    .meta({ id: "DatasetRow" }),
);

export const RowList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(StreamRow),
      has_more: z.boolean(),
      scanned_to: z
        .int()
        .optional()
        .describe(
          "Only with contains: the last row_id that was compared. A request compares a part of a large dataset",
        ),
    })
    .meta({ id: "DatasetRowList" }),
);
export type RowList = z.infer<typeof RowList>;
export type StreamRow = z.infer<typeof StreamRow>;

export const Diff = later(() =>
  z
    .object({
      object: z.literal("dataset.diff"),
      dataset_id: z.string(),
      from: z.string(),
      to: z.string(),
      added: z.int(),
      superseded: z.int(),
      tombstoned: z.int(),
      data: z.array(
        z.object({
          object: z.literal("dataset_change"),
          change: z.enum(["added", "superseded", "tombstoned"]),
          row_id: z.int().describe("The log entry that made the change"),
          target_row_id: z.int().nullable(),
          data: z.record(z.string(), z.unknown()).nullable(),
        }),
      ),
      has_more: z.boolean(),
    })
    .meta({ id: "DatasetDiff" }),
);

export type Diff = z.infer<typeof Diff>;

export const Resolution = later(() =>
  z
    .object({
      object: z.literal("dataset_resolution"),
      id: z.string(),
      dataset_id: z.string(),
      status: z.enum(RESOLUTION_STATUSES),
      job_id: z.string().nullable(),
      rows: z.int(),
      bytes: z.int(),
      total_rows: z.int().nullable(),
      snapshot_id: z.string().nullable(),
      error: z.object({ code: z.string(), message: z.string(), param: z.string().nullable() }).nullable(),
      created_at: DateTime,
      updated_at: DateTime,
      finished_at: DateTime.nullable(),
    })
    .meta({ id: "DatasetResolution" }),
);
export type Resolution = z.infer<typeof Resolution>;

export const presentResolution = (row: ResolutionRow): Resolution => ({
  object: "dataset_resolution",
  id: row.id,
  dataset_id: row.datasetId,
  status: row.status,
  job_id: row.jobId,
  rows: row.rows,
  bytes: row.bytes,
  total_rows: row.totalRows,
  snapshot_id: row.snapshotNumber === null ? null : snapshotId(row.snapshotNumber),
  error: row.error,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
  finished_at: isoOrNull(row.finishedAt),
});
