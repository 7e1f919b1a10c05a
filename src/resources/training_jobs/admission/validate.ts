/** A dry run: everything that creation would check, then the real model and the real reward on a few prompts. */

import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { usdOf } from "../../../lib/money.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";
import { Semaphore } from "../../../platform/semaphore.ts";
import type { TrainSample } from "../../../workers/protocol_trainer.ts";
import * as billing from "../../billing/service.ts";
import * as datasets from "../../datasets/service.ts";
import * as snapshots from "../../datasets/stream/snapshots.ts";
import * as codeCheck from "../../reward_functions/check.ts";
import type { JobRow } from "../table.ts";
import { admittingOf, type JobRows, rowOf } from "./create.ts";
import type { CreateTrainingJob } from "./create_schema.ts";
import { type Asker, type Draft, draft, type Rows, type Sized, sized } from "./draft.ts";
import { preview } from "./preview.ts";
import type { JobValidation } from "./validation_schema.ts";

export async function validate(ctx: Ctx, asker: Asker, body: CreateTrainingJob): Promise<JobValidation> {
  const made = await draft(ctx, asker, body);
  const rows = seenRows(ctx, asker, made);
  const fit = sized(ctx, made, rows.train);
  const { errors, warnings } = made.faults;
  if (errors.length > 0 || !fit) return answerOf(made, fit, undefined);
  const tried = made.wanted.method === "custom" ? undefined : await triedOut(ctx, asker, rowOf(ctx, made, rows, fit));
  if (tried && "error" in tried) {
    const { code, message, param } = tried.error;
    const failed = { code, message, param };
    return { ...answerOf(made, fit, undefined), valid: false, errors: [failed], warnings: [...warnings] };
  }
  return answerOf(made, fit, tried);
}

/** The rows as they are now: a dry run cuts no snapshot, reads no source, and holds nothing. */
function seenRows(ctx: Ctx, { workspaceId }: Asker, { wanted, faults }: Draft): JobRows {
  const look = (reference: string | null | undefined, param: string): Rows | undefined => {
    const [id = "", name = "latest"] = (reference ?? "").split("@");
    const dataset = datasets.find(ctx, workspaceId, id);
    if (!dataset) return undefined; // told already
    const latest = snapshots.newest(ctx, id);
    const exact = name === "latest" ? latest : snapshots.named(ctx, dataset, name);
    if (name !== "latest" && !exact) return void faults.refuse(param, `${id} has no snapshot @${name}`);
    if (dataset.source && !exact)
      return void faults.warn(param, `${id} has not been read yet: what depends on its rows is not known`);
    const seen = { datasetId: id, format: dataset.format };
    const isWhole = name !== "latest" || dataset.source !== null || exact?.headRow === dataset.headRow;
    return exact && isWhole
      ? { ...seen, snapshotNumber: exact.number, sha256: exact.sha256, rows: exact.rowCount }
      : { ...seen, snapshotNumber: null, sha256: null, rows: dataset.liveRows };
  };
  return { train: look(wanted.dataset, "/dataset"), held: look(wanted.eval_dataset, "/eval_dataset") };
}

const PREVIEWS = 2; // at the same time: each loads a model
const MAX_WAITING = 64;
const PATIENCE_MS = 120_000;
const previewsOf = oncePer((_db: Db) => new Semaphore({ permits: PREVIEWS, maxWaiting: MAX_WAITING }));

async function triedOut(ctx: Ctx, asker: Asker, row: JobRow) {
  const release = await previewsOf(ctx.db).acquire(asker, { timeout: { clock: ctx.clock, ms: PATIENCE_MS } });
  if (!release) throw new AppError("no_capacity", "Other dry runs are under way: try again", { retryAfterSeconds: 10 });
  const admitting = admittingOf(ctx.db);
  admitting.add(row.id);
  try {
    return await preview(ctx, row, asker.signal);
  } catch (error) {
    throw codeCheck.gone(ctx, asker.signal, error);
  } finally {
    admitting.delete(row.id);
    release();
  }
}

type Tried = { memoryBytes: number; stepMs: number | null; samples: TrainSample[]; latenciesMs: number[] };

function answerOf({ faults, place, wanted }: Draft, fit: Sized | undefined, tried: Tried | undefined): JobValidation {
  const stepMs = tried?.stepMs ?? fit?.stepMs ?? null;
  const ms = stepMs === null || fit?.totalSteps === undefined ? null : stepMs * fit.totalSteps;
  return {
    object: "training_job.validation",
    valid: faults.errors.length === 0,
    errors: faults.errors.map(({ code, message, param }: AppError) => ({ code, message, param })),
    warnings: faults.warnings,
    resolved_hyperparameters: fit?.values ? { ...fit.values } : null,
    estimate: {
      vram_bytes_peak: tried ? Math.max(tried.memoryBytes, 0) : (fit?.memoryBytes ?? null),
      duration_seconds: ms === null ? null : Math.round(ms) / 1000,
      cost_usd: ms === null ? null : usdOf(billing.costOf(place.rateMicros, ms)),
    },
    reward_preview: tried && wanted.method === "grpo" ? rewardPreview(tried, groupOf(fit)) : null,
  };
}

const groupOf = (fit: Sized | undefined) =>
  Math.max(1, (fit?.values as { num_generations?: number } | undefined)?.num_generations ?? 1);

/** `group`: completions of one prompt, which follow each other. */
export function rewardPreview({ samples, latenciesMs }: Tried, group: number): JobValidation["reward_preview"] {
  const scored = samples.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const groups = Array.from({ length: Math.floor(samples.length / group) }, (_, i) =>
    samples.slice(i * group, (i + 1) * group).flatMap(({ reward }) => (reward === null ? [] : [reward])),
  ).filter((rewards) => rewards.length > 0);
  const flat = groups.filter((rewards) => rewards.every((reward) => reward === rewards[0]));
  const sorted = latenciesMs.toSorted((a, b) => a - b);
  const mean = scored.length === 0 ? null : scored.reduce((a, b) => a + b) / scored.length;
  return {
    mean,
    std: mean === null ? null : Math.sqrt(scored.reduce((sum, each) => sum + (each - mean) ** 2, 0) / scored.length),
    frac_zero_std: groups.length === 0 ? null : flat.length / groups.length,
    latency_ms_p50: sorted[Math.floor((sorted.length - 1) / 2)] ?? null,
    samples: samples.map(({ advantage: _, ...sample }) => sample),
  };
}
