/** Detections. A file is scored once; the result is stored and found again by its hash. */
import { and, desc, eq, inArray, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { sniff } from "../../lib/detection/sniff.ts";
import { ensembleOf } from "../../lib/detection/tiers.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { DAY_MS } from "../../lib/units.ts";
import { prepared, type Tx, write } from "../../platform/db/db.ts";
import { gradually } from "../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../platform/db/row.ts";
import { sha256Bytes } from "../../platform/files.ts";
import type { ModelName, Scored } from "../../workers/protocol_detector.ts";
import { workspaces } from "../access/workspaces/table.ts";
import { accountOf, charge, hold } from "./accounts.ts";
import { cancelAll } from "./batches/batches.ts";
import { countMade } from "./metrics.ts";
import { divide, failedResults, modelsFor, publicResults, READ_HERE } from "./policy.ts";
import { type Detection, type GiveFeedback, present } from "./schema.ts";
import { type DetectionRow, detectionAccounts, detectionBatches, detectionItems, detections } from "./table.ts";
import { score, type Versions, versionsOf } from "./worker.ts";

const insert = preparedInsert(detections);
const byId = preparedRow(detections, eq(detections.id, sql.placeholder("id")));
const cachedRow = prepared((db) =>
  db
    .select()
    .from(detections)
    .where(
      and(
        eq(detections.workspaceId, sql.placeholder("workspaceId")),
        eq(detections.cacheKey, sql.placeholder("cacheKey")),
      ),
    )
    .orderBy(desc(detections.createdAt))
    .limit(1)
    .prepare(),
);

/** A file to score, and the models that the request names. */
export type Subject = {
  bytes: Uint8Array<ArrayBuffer>;
  named: readonly ModelName[];
  robustness: boolean;
  heatmap: boolean;
  /** On the scale of `performance.now()`. */
  begunAt: number;
  signal: AbortSignal;
};
/** `threshold`: the account's at the time of the request. */
export type Finding = { row: DetectionRow; cached: boolean; threshold: number };

export async function detect(ctx: Ctx, workspaceId: string, subject: Subject): Promise<Detection> {
  const release: (() => void)[] = [];
  const pay = (credits: number) => release.push(hold(ctx, workspaceId, { requests: 1, credits }));
  try {
    const finding = await examine(ctx, workspaceId, subject, pay);
    write(ctx.db, (tx) => keep(ctx, tx, finding));
    const { row, cached, threshold } = finding;
    if (!cached) return present(row);
    return present(row, { cached, threshold, processingMs: elapsed(subject) });
  } finally {
    for (const each of release) each();
  }
}

/** Stores the detection and charges for it in one commit. */
export function keep(ctx: Ctx, tx: Tx, { row, cached }: Omit<Finding, "threshold">) {
  if (!cached) insert(tx, row);
  charge(ctx, tx, row.workspaceId, { requests: 1, credits: cached ? 0 : 1 });
  countMade(tx, row, cached);
}

/** Calls `pay` before it does anything that costs credits. Writes nothing. */
export async function examine(
  ctx: Ctx,
  workspaceId: string,
  subject: Subject,
  pay: (credits: number) => void,
): Promise<Finding> {
  const { bytes, robustness, heatmap, signal } = subject;
  const media = sniff(bytes);
  if (!media) throw new AppError("unsupported_format", `The format of the file is not supported. ${READ_HERE}`);
  const account = accountOf(ctx, workspaceId);
  const models = modelsFor(media.kind, subject.named, account.defaultModels);
  const hash = sha256Bytes(bytes);
  const keyOf = (versions: Versions) => cacheKeyOf({ hash, models, versions, robustness, heatmap });
  const cached = account.cacheEnabled && findCached(ctx, workspaceId, keyOf(await versionsOf(ctx)));
  pay(cached ? 0 : 1);
  const { defaultThreshold: threshold, prior } = account;
  if (cached) return { row: { ...cached, prior }, cached: true, threshold };
  const { fitting, unfit } = divide(media.kind, models);
  const begun = performance.now();
  const answer = await score(ctx, { workspaceId, bytes, hash, models: fitting, robustness, heatmap, signal }).catch(
    (error: unknown) => {
      if (!(error instanceof AppError) || error.code !== "all_models_failed") throw error;
      throw allFailed(error.message, { ...failedResults(fitting, error.message), ...unfit });
    },
  );
  const scored: Scored = { ...answer, models: { ...answer.models, ...unfit } };
  const ensemble = ensembleOf(scored);
  if (!ensemble) throw allFailed(noScore(scored), scored.models);
  const isWhole = ensemble.succeeded === models.length;
  const now = ctx.clock.now();
  const row: DetectionRow = {
    id: newId("det", now),
    workspaceId,
    imageHash: hash,
    cacheKey: (account.cacheEnabled && isWhole && keyOf(scored.versions)) || null,
    threshold,
    prior,
    sizeBytes: bytes.length,
    scored,
    detectionMs: rounded(performance.now() - begun),
    processingMs: elapsed(subject),
    feedback: null,
    createdAt: now,
  };
  return { row, cached: false, threshold };
}

const rounded = (ms: number) => Math.round(ms * 1000) / 1000;
const elapsed = ({ begunAt }: Subject) => rounded(performance.now() - begunAt);

type CacheKeyParts = Pick<Subject, "robustness" | "heatmap"> & {
  hash: string;
  models: readonly ModelName[];
  versions: Versions;
};

/** Undefined: a model has no version, because it is not installed. */
function cacheKeyOf({ hash, models, versions, robustness, heatmap }: CacheKeyParts): string | undefined {
  const parts = [...models].sort().map((model) => versions[model] && `${model}@${versions[model]}`);
  return parts.includes(undefined)
    ? undefined
    : [hash, ...parts, robustness ? "robust" : "plain", ...(heatmap ? ["heatmap"] : [])].join(" ");
}

const findCached = (ctx: Ctx, workspaceId: string, cacheKey: string | undefined): DetectionRow | undefined =>
  cacheKey === undefined ? undefined : cachedRow(ctx.db).get({ workspaceId, cacheKey });

function noScore({ models }: Scored): string {
  const errors = Object.entries(models).map(([model, result]) => `${model}: ${result.error ?? "no score"}`);
  return `No model gave a score. ${errors.join("; ")}`;
}

const allFailed = (message: string, models: Scored["models"]) =>
  new AppError("all_models_failed", message, { more: { model_results: publicResults(models) } });

export function mustGet(ctx: Ctx, workspaceId: string, id: string): DetectionRow {
  const row = byId(ctx.db, { id });
  if (row?.workspaceId !== workspaceId)
    throw new AppError("resource_not_found", `There is no detection ${id.slice(0, 80)}`);
  return row;
}

/** Later feedback replaces earlier feedback. */
export function giveFeedback(ctx: Ctx, workspaceId: string, id: string, input: GiveFeedback): DetectionRow {
  return write(ctx.db, (tx) => {
    const feedback = { ...input, atMs: ctx.clock.now() };
    const row = mustGet(ctx, workspaceId, id);
    tx.update(detections).set({ feedback }).where(eq(detections.id, id)).run();
    return { ...row, feedback };
  });
}

/** For a workspace that is being deleted. The loop removes its detections: there may be very many. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  write(ctx.db, (tx) => {
    cancelAll(ctx, tx, workspaceId);
    tx.delete(detectionAccounts).where(eq(detectionAccounts.workspaceId, workspaceId)).run();
  });
  ctx.wake("detection.prune");
}

/** Removes old detections and those of deleted workspaces. Batches lose their items and keep their row. */
export async function prune(ctx: Ctx): Promise<void> {
  const before = ctx.clock.now() - ctx.config.detect.retention_days * DAY_MS;
  const deletedWorkspaces = () =>
    ctx.db.select({ id: workspaces.id }).from(workspaces).where(eq(workspaces.status, "deleted"));
  const removeWhere = async (where: () => ReturnType<typeof and>) =>
    gradually(ctx.db, (tx, rows) => {
      const some = tx.select({ id: detections.id }).from(detections).where(where()).limit(rows);
      return tx.delete(detections).where(inArray(detections.id, some)).returning({ id: detections.id }).all().length;
    });
  await removeWhere(() => lt(detections.createdAt, before));
  await removeWhere(() => inArray(detections.workspaceId, deletedWorkspaces()));
  const { id, finishedAt, workspaceId } = detectionBatches;
  const over = sql`(${finishedAt} < ${before} OR (${finishedAt} IS NOT NULL AND ${workspaceId} IN ${deletedWorkspaces()}))`;
  const batches = ctx.db
    .select({ id })
    .from(detectionBatches)
    .where(and(over, sql`EXISTS (SELECT 1 FROM detection_items i WHERE i.batch_id = ${id})`))
    .all();
  for (const batch of batches)
    write(ctx.db, (tx) => tx.delete(detectionItems).where(eq(detectionItems.batchId, batch.id)).run());
}
