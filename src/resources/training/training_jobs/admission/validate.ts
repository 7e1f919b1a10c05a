/** A dry run: every check of a creation, then the real model and the real reward on a few prompts. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { usdOf } from "../../../../lib/money.ts";
import { isRolled } from "../../../../lib/training/fields.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import * as datasets from "../../../data/datasets/service.ts";
import { removeResolved } from "../../../data/datasets/stream/resolved.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import * as billing from "../../../money/billing/service.ts";
import { abortCause } from "../../reward_functions/check.ts";
import type { JobRow, Warning } from "../table.ts";
import type { JobRequest } from "./clone.ts";
import { rowOf } from "./create.ts";
import type { CreateTrainingJob } from "./create_schema.ts";
import { type Caller, type Draft, draft, type Sizable } from "./draft.ts";
import { Faults } from "./faults.ts";
import { type Preview, preview } from "./preview.ts";
import { resolvePart } from "./resolver.ts";
import type { JobRows } from "./rows.ts";
import { mustAffordEstimate, type Rows, type Size, sizeOf, UNKNOWN_SIZE } from "./sizing.ts";
import type { JobValidation } from "./validation_schema.ts";

export async function validate(ctx: Ctx, caller: Caller, body: CreateTrainingJob): Promise<JobValidation> {
  const drafted = await draft(ctx, caller, body, { dry: true });
  const [job, rejected] = "ok" in drafted ? [drafted.ok, undefined] : [undefined, drafted];
  const { request, warnings } = job ?? rejected;
  const sizable = job ?? rejected.sizable;
  const faults = new Faults();
  faults.errors.push(...(rejected?.errors ?? []));
  const current = currentRows(ctx, caller.workspaceId, request, faults);
  const tried = job && (await tryResolver(ctx, job, current, caller, faults));
  const rows = tried ? tried.rows : current;
  const size = sizable && sizeFrom(sizable, rows, faults);
  if (job && size) faults.attempt(() => mustAffordEstimate(ctx, job, size));
  const all = [...warnings, ...faults.warnings];
  const checks: Checks = { sizable, size, errors: faults.errors, warnings: all, resolved: tried?.preview ?? null };
  if (!job || !size || !job.training || faults.errors.length > 0) {
    if (tried) await removeResolved(ctx, tried.row.id);
    return answerOf(checks, undefined);
  }
  const { model, start } = job.training.base;
  const { teacher } = job.training;
  const sha256 = {
    model: model?.sha256 ?? null,
    start: start?.sha256 ?? null,
    teacher: teacher?.sha256 ?? null,
  };
  const row = rowOf(ctx, job, { rows, unread: false, size, model, sha256 });
  // The held-out rows are not part of a dry run.
  const mapped = tried ? { ...row, resolver: tried.row.resolver, evalDatasetId: null } : row;
  const result = await tryOut(ctx, caller, mapped).finally(() => tried && removeResolved(ctx, row.id));
  return "error" in result ? answerOf({ ...checks, errors: [result.error] }, undefined) : answerOf(checks, result);
}

/** The rows as they are now: a dry run cuts no snapshot, reads no source and pins nothing. */
function currentRows(ctx: Ctx, workspaceId: string, request: JobRequest, faults: Faults): JobRows {
  const read = (reference: string | null | undefined, param: string): Rows | undefined => {
    const [id = "", name = "latest"] = (reference ?? "").split("@");
    const dataset = datasets.find(ctx, workspaceId, id);
    if (!dataset) return undefined; // draft() has reported it
    const exact = name === "latest" ? snapshots.newest(ctx, id) : snapshots.named(ctx, dataset, name);
    if (name !== "latest" && !exact) return void faults.refuse(param, `${id} has no snapshot @${name}`);
    if (dataset.source && !exact)
      return void faults.warn(param, `${id} has not been read yet, so its rows could not be checked`);
    const rows = { datasetId: id, format: dataset.format };
    const isWhole = name !== "latest" || dataset.source !== null || exact?.headRow === dataset.headRow;
    return exact && isWhole
      ? { ...rows, snapshotNumber: exact.number, sha256: exact.sha256, rows: exact.rowCount }
      : { ...rows, snapshotNumber: null, sha256: null, rows: dataset.liveRows };
  };
  return { train: read(request.dataset, "/dataset"), evaluation: read(request.eval_dataset, "/eval_dataset") };
}

/** Undefined if the rows are unknown, or if they lead to errors, which are collected. */
function sizeFrom({ training, custom, hardware }: Sizable, { train }: JobRows, faults: Faults): Size | undefined {
  if (custom) return { ...UNKNOWN_SIZE, memoryBytes: custom.leaseBytes };
  if (!training) return UNKNOWN_SIZE;
  const { base, ...rest } = training;
  if (!base.model?.shape) {
    const why = base.model ? "is not ready yet" : base.why;
    return void faults.warn(
      "/base_model",
      `the model ${why}, so this dry run could not check its size and its rewards`,
    );
  }
  if (!train) return undefined;
  const size = sizeOf({ ...rest, shape: base.model.shape }, hardware, train);
  if ("ok" in size) return size.ok;
  faults.errors.push(...size.errors);
  return undefined;
}

const WAIT_MS = 2 * MINUTE_MS;

async function tryOut(ctx: Ctx, caller: Caller, row: JobRow) {
  const { previews } = ctx.state.trainingJobs;
  const release = await previews.acquire(caller, { timeout: { clock: ctx.clock, ms: WAIT_MS } });
  if (!release)
    throw new AppError("no_capacity", "Too many dry runs are in progress: try again", { retryAfterSeconds: 10 });
  try {
    return await ctx.state.trainingJobs.admitting(row.id, () => preview(ctx, row, caller.signal));
  } catch (error) {
    throw abortCause(ctx, caller.signal, error);
  } finally {
    release();
  }
}

const TRIED_ROWS = 200;

/** Runs the data resolver of the job on the first rows. Undefined without one, without rows, and after an error. */
async function tryResolver(ctx: Ctx, job: Draft, { train }: JobRows, caller: Caller, faults: Faults) {
  if (!job.resolver || !train || faults.errors.length > 0) return undefined;
  const { id, method, seed, resolver } = job;
  const blank = { id, method, seed, resolver, workspaceId: caller.workspaceId } as JobRow;
  return await ctx.state.trainingJobs.admitting(id, async () => {
    const resolution = await faults.attemptLater(() =>
      resolvePart(ctx, blank, "train", train, { signal: caller.signal, limit: TRIED_ROWS }),
    );
    if (!resolution) return void (await removeResolved(ctx, id));
    const { samples, ...resolvedRows } = resolution;
    const share = resolvedRows.rows / resolvedRows.rows_in;
    const estimated = { ...train, rows: Math.max(1, Math.round(train.rows * share)), format: resolvedRows.format };
    return {
      rows: { train: estimated, evaluation: undefined },
      row: { id, resolver: { ...resolver, train: resolvedRows } },
      preview: { rows_in: resolvedRows.rows_in, rows_out: resolvedRows.rows, total_rows: train.rows, samples },
    };
  });
}

type Checks = {
  resolved: JobValidation["data_resolver_preview"];
  sizable: Sizable | undefined;
  size: Size | undefined;
  errors: readonly { code: string; message: string; param: string | null }[];
  warnings: Warning[];
};

function answerOf({ sizable, size, errors, warnings, resolved }: Checks, measured: Preview | undefined): JobValidation {
  const stepMs = measured?.stepMs ?? size?.stepMs ?? null;
  const totalSteps = size?.totalSteps ?? null;
  const ms = stepMs === null || totalSteps === null ? null : stepMs * totalSteps;
  const rate = sizable?.hardware.rateMicros ?? null;
  return {
    object: "training_job.validation",
    valid: errors.length === 0,
    errors: errors.map(({ code, message, param }) => ({ code, message, param })),
    warnings,
    resolved_hyperparameters: size?.values ? { ...size.values } : null,
    estimate: {
      vram_bytes_peak: measured ? Math.max(measured.memoryBytes, 0) : (size?.memoryBytes ?? null),
      total_steps: totalSteps,
      duration_seconds: ms === null ? null : Math.round(ms) / 1000,
      cost_usd: ms === null ? null : usdOf(billing.costOf(rate, ms)),
    },
    data_resolver_preview: resolved,
    rows_preview: measured?.rows ?? null,
    reward_preview: measured && isRolled(sizable?.request.method) ? rewardPreview(measured, groupOf(size)) : null,
  };
}

const groupOf = (size: Size | undefined) =>
  Math.max(1, (size?.values as { num_generations?: number } | null | undefined)?.num_generations ?? 1);

type Scores = Pick<Preview, "samples" | "latenciesMs">;

/** `group`: completions for each prompt. The completions of one prompt follow each other. */
export function rewardPreview({ samples, latenciesMs }: Scores, group: number): JobValidation["reward_preview"] {
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
