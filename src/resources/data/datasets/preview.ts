/** The first rows of a dataset as a model reads them, and statistics of all rows, before a job is created. */
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Format } from "../../../lib/rows/format.ts";
import { Label, later } from "../../../lib/schema.ts";
import { METHODS, type Method } from "../../../lib/training/fields.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import type { FromTrainer, InspectTask } from "../../../workers/protocol_trainer.ts";
import * as models from "../../serving/models/service.ts";
import { runWithVocabulary, withTemplate } from "../../serving/models/template.ts";
import { mustHold, pathFor } from "./stream/files.ts";
import * as snapshots from "./stream/snapshots.ts";
import type { DatasetRow } from "./table.ts";

const LONGEST_MS = 5 * MINUTE_MS;
/** Most rows whose tokens are counted. */
const SAMPLE = 5_000;

export const PreviewDataset = z
  .object({
    model: Label(300).describe("A model by id or name, whose chat template and tokens count"),
    method: z.enum(METHODS).optional().describe("Default: grpo for prompts, dpo for preferences, sft for the others"),
    limit: z.int().min(0).max(50).default(5).describe("Rows to show"),
    snapshot: Label(40).optional().describe("Such as @snap-3. Default: the current rows"),
    max_length: z.int().min(1).max(10_000_000).default(1024).describe("Rows with more tokens are counted"),
    assistant_only_loss: z.boolean().default(false).describe("As the hyperparameter of sft"),
  })
  .meta({ id: "PreviewDataset" });
export type PreviewDataset = z.output<typeof PreviewDataset>;

export const DatasetPreview = later(() =>
  z
    .object({
      object: z.literal("dataset.preview"),
      dataset_id: z.string(),
      model: z.string(),
      method: z.string(),
      rows: z.array(
        z.object({
          row: z.int().describe("Counted from 1"),
          sequences: z
            .array(
              z.object({
                name: z.string().describe("text for sft, prompt for grpo, chosen and rejected for dpo"),
                tokens: z.int(),
                parts: z.array(
                  z.object({
                    text: z.string(),
                    tokens: z.int(),
                    trained: z.boolean().describe("The loss counts these tokens"),
                  }),
                ),
              }),
            )
            .describe("The text that the model reads, in parts"),
          error: z.string().nullable().describe("Why the row cannot be used, else null"),
        }),
      ),
      statistics: z.object({
        rows: z.int(),
        measured_rows: z.int().describe(`Rows whose tokens were counted: at even distances, about ${SAMPLE} at most`),
        unreadable_rows: z.int().describe("Measured rows that the template rejects"),
        tokens: z.object({ p50: z.int(), p95: z.int(), max: z.int(), total: z.int() }),
        max_length: z.int(),
        over_max_length: z.int(),
        unlearned_rows: z
          .int()
          .describe("Measured rows without a token to learn within max_length; a training leaves them out"),
        duplicates: z.object({
          exact: z.int().describe("Rows that are equal to an earlier row"),
          prompt: z
            .int()
            .describe("Rows whose prompt differs from an earlier one in case, blanks or punctuation alone"),
        }),
      }),
    })
    .meta({ id: "DatasetPreview" }),
);
export type DatasetPreview = z.infer<typeof DatasetPreview>;

const USUAL: Record<Format, Method> = { prompt: "grpo", preference: "dpo", completion: "sft", chat: "sft" };
/** Methods that read rows in the same way. */
const READ_AS: Record<Method, InspectTask["method"]> = {
  grpo: "grpo",
  rloo: "grpo",
  distill: "grpo",
  sft: "sft",
  kto: "sft",
  dpo: "dpo",
  orpo: "dpo",
};

type Caller = { workspaceId: string; signal: AbortSignal };

export async function previewDataset(
  ctx: Ctx,
  caller: Caller,
  dataset: DatasetRow,
  body: PreviewDataset,
): Promise<DatasetPreview> {
  const { path, headRow, format } = rowsFor(ctx, dataset, body.snapshot);
  const model = withTemplate(ctx, caller.workspaceId, body.model, "/model");
  const method = body.method ?? USUAL[format];
  if (READ_AS[method] === "dpo" && format !== "preference")
    throw new AppError("schema", `method: ${method} needs rows of the format preference; these are ${format}`, {
      param: "/method",
    });
  const task: InspectTask = {
    type: "inspect_rows",
    data_dir: ctx.config.data_dir,
    model_path: models.pathOf(ctx, model),
    rows: { path, head_row: headRow, format },
    method: READ_AS[method],
    assistant_only: body.assistant_only_loss,
    limit: body.limit,
    max_length: body.max_length,
    sample: SAMPLE,
  };
  const held = mustHold(ctx, path); // while it is open, the side files of SQLite exist
  try {
    // A reader of SQLite marks in the second side file how far it reads.
    const grants = { reads: [path, `${path}-wal`], updates: [`${path}-shm`] };
    const inspection = await runWithVocabulary(ctx, caller, { task, grants, longestMs: LONGEST_MS }, inspectedOf);
    const statistics = { ...inspection.statistics, max_length: body.max_length };
    return {
      object: "dataset.preview",
      dataset_id: dataset.id,
      model: model.name,
      method,
      rows: inspection.rows,
      statistics,
    };
  } finally {
    held.release();
  }
}

const inspectedOf = (message: FromTrainer) => (message.type === "inspected" ? message : undefined);

function rowsFor(ctx: Ctx, dataset: DatasetRow, name: string | undefined) {
  const newest = dataset.source ? snapshots.newest(ctx, dataset.id) : undefined;
  const snapshot = name === undefined ? newest : snapshots.mustGet(ctx, dataset, name, "/snapshot");
  const { format } = dataset;
  const headRow = snapshot?.headRow ?? (dataset.source ? 0 : dataset.headRow);
  if (format === null || headRow === 0)
    throw new AppError("unsupported_state", `Dataset ${dataset.id} has no rows yet`, { param: "id" });
  return { path: pathFor(ctx, dataset, snapshot?.number ?? 0), headRow, format };
}
