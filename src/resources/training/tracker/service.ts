/** The experiment tracker of a workspace, and the jobs that are reported to it. `send.ts` reports. */
import { and, count, desc, eq, isNotNull, isNull, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { AppError } from "../../../lib/errors.ts";
import { isoTime } from "../../../lib/time.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { judgeUrl, networkPolicy } from "../../../platform/network/address.ts";
import * as secrets from "../../access/secrets/service.ts";
import { ID, type PutTracker, present, type TrackerIntegration } from "./schema.ts";
import { type IntegrationRow, trackerIntegrations, trackerRuns } from "./table.ts";

const byWorkspace = preparedRow(
  trackerIntegrations,
  eq(trackerIntegrations.workspaceId, sql.placeholder("workspaceId")),
);
const insertRun = preparedInsert(trackerRuns);

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string): IntegrationRow {
  const row = byWorkspace(ctx.db, { workspaceId });
  if (!row)
    throw new AppError(
      "resource_not_found",
      "No tracker is set up. Set one up with PUT /v1/settings/integrations/tracker",
    );
  return row;
}

export function show(ctx: Ctx, row: IntegrationRow): TrackerIntegration {
  const { workspaceId, lastError, nextAt, jobId, updatedAt } = trackerRuns;
  const isOfWorkspace = eq(workspaceId, row.workspaceId);
  const many = (where: ReturnType<typeof and>) =>
    ctx.db.select({ n: count() }).from(trackerRuns).where(and(isOfWorkspace, where)).get()?.n ?? 0;
  const last = ctx.db
    .select({ jobId, lastError, updatedAt })
    .from(trackerRuns)
    .where(and(isOfWorkspace, isNotNull(lastError)))
    .orderBy(desc(updatedAt))
    .limit(1)
    .get();
  return present(row, {
    runs: {
      pending: many(isNotNull(nextAt)),
      failing: many(and(isNotNull(nextAt), isNotNull(lastError))),
      given_up: many(and(isNull(nextAt), isNotNull(lastError))),
    },
    last_error: last ? { message: last.lastError ?? "", job_id: last.jobId, at: isoTime(last.updatedAt) } : null,
  });
}

/** Creates or replaces the integration. Jobs without a run move to the new tracker; the others stay where they are. */
export function put(ctx: Ctx, workspaceId: string, input: PutTracker): { row: IntegrationRow; created: boolean } {
  requireUsable(ctx, workspaceId, input);
  const now = ctx.clock.now();
  const { type, base_url: baseUrl, project, secret_name: secretName, metadata } = input;
  const set = { type, baseUrl, project, secretName, metadata, updatedAt: now };
  const saved = write(ctx.db, (tx) => {
    const old = byWorkspace(tx, { workspaceId });
    const row = tx
      .insert(trackerIntegrations)
      .values({ workspaceId, ...set, createdAt: now })
      .onConflictDoUpdate({ target: trackerIntegrations.workspaceId, set })
      .returning()
      .get();
    redirect(tx, row, now);
    const report = { object: "tracker_integration" as const, id: ID, type, base_url: baseUrl };
    const event = old ? "tracker_integration.updated" : "tracker_integration.created";
    emit(tx, event, { workspaceId, now }, report);
    return { row, created: old === undefined };
  });
  ctx.wake("tracker.send");
  return saved;
}

function requireUsable(ctx: Ctx, workspaceId: string, input: PutTracker) {
  const refuse = (param: string, message: string) =>
    new AppError("schema", `${param}: ${message}`, { param: `/${param}` });
  if (input.type === "wandb" && !/^[^/]+(\/[^/]+)?$/.test(input.project))
    throw refuse("project", "must be project or entity/project");
  const verdict = judgeUrl(input.base_url, networkPolicy(ctx.config.network), { allowHttp: true });
  if (!verdict.allowed)
    throw new AppError(
      "url_not_allowed",
      `base_url: ${verdict.reason}. Use a public address, or ask the operator to allow this one with network.allow or network.allow_private`,
      { param: "/base_url" },
    );
  if (input.secret_name === null) return;
  try {
    secrets.reveal(ctx, workspaceId, input.secret_name, verdict.host);
  } catch (error) {
    if (error instanceof AppError) throw refuse("secret_name", error.message);
    throw error;
  }
}

/** Runs that have not ended, and runs that were given up, are reported again at once. */
function redirect(tx: Tx, row: IntegrationRow, now: number) {
  const { type, baseUrl, project, secretName, workspaceId } = row;
  const unfinished = and(
    eq(trackerRuns.workspaceId, workspaceId),
    or(isNotNull(trackerRuns.nextAt), isNotNull(trackerRuns.lastError)),
  );
  const anew = { failures: 0, refusals: 0, failingSince: null, nextAt: now, updatedAt: now };
  const update = (set: object, where: ReturnType<typeof and>) =>
    tx.update(trackerRuns).set(set).where(and(unfinished, where)).run();
  update({ type, baseUrl, project, secretName }, isNull(trackerRuns.remote));
  update({ secretName }, and(eq(trackerRuns.type, type), eq(trackerRuns.baseUrl, baseUrl)));
  update(anew, undefined);
}

/** Future jobs are not reported. A job that has a run is reported to its end, with the secret of that name. */
export function remove(ctx: Ctx, workspaceId: string): IntegrationRow {
  return write(ctx.db, (tx) => {
    const row = mustGet({ db: tx }, workspaceId);
    tx.delete(trackerIntegrations).where(eq(trackerIntegrations.workspaceId, workspaceId)).run();
    tx.delete(trackerRuns)
      .where(and(eq(trackerRuns.workspaceId, workspaceId), isNull(trackerRuns.remote)))
      .run();
    const report = { object: "tracker_integration" as const, id: ID, type: row.type, base_url: row.baseUrl };
    emit(tx, "tracker_integration.deleted", { workspaceId, now: ctx.clock.now() }, report);
    return row;
  });
}

/** For a workspace that is being deleted. Rows of its runs are deleted with the jobs. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  if (byWorkspace(ctx.db, { workspaceId })) remove(ctx, workspaceId);
}

/** Runs in the commit that creates a job, which decides whether the job is reported to a tracker. */
export function follow(tx: Tx, job: { id: string; workspaceId: string }, now: number) {
  const row = byWorkspace(tx, { workspaceId: job.workspaceId });
  if (!row) return;
  const { type, baseUrl, project, secretName, workspaceId } = row;
  insertRun(tx, {
    jobId: job.id,
    workspaceId,
    type,
    baseUrl,
    project,
    secretName,
    remote: null,
    paramsSent: false,
    lastStepSent: -1,
    pointsSent: 0,
    stateSent: null,
    sentAt: null,
    failures: 0,
    refusals: 0,
    failingSince: null,
    lastError: null,
    nextAt: now,
    createdAt: now,
    updatedAt: now,
  });
}
