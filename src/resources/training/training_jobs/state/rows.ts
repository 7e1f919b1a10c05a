/** Reads job rows. The lowest layer of this resource above the tables: every wing may import it. */
import { and, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { MOST_IDS, named } from "../../../../http/query.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { Db, Tx } from "../../../../platform/db/db.ts";
import { preparedRow } from "../../../../platform/db/row.ts";
import { machine } from "../machine.ts";
import { type JobRow, trainingJobs } from "../table.ts";

const byId = preparedRow(trainingJobs, eq(trainingJobs.id, sql.placeholder("id")));

export const isFinished = ({ status }: Pick<JobRow, "status">) => machine.terminal.includes(status);

/** Not scoped to a workspace: for background work, which has no caller. */
export const currentJob = (db: Db | Tx, id: string): JobRow | undefined => byId(db, { id });

/** The same, if the job has not ended. */
export function unfinishedJob(db: Db | Tx, id: string): JobRow | undefined {
  const job = currentJob(db, id);
  return job && !isFinished(job) ? job : undefined;
}

export function find(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): JobRow | undefined {
  const row = currentJob(ctx.db, id);
  return row?.workspaceId === workspaceId ? row : undefined;
}

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string, param = "id"): JobRow {
  const row = find(ctx, workspaceId, id);
  if (!row) throw new AppError("resource_not_found", `No training job ${id.slice(0, 80)}`, { param });
  return row;
}

/** Training jobs by output name, in the paths of routes. */
export const byName = ({ db }: Pick<Ctx, "db">) =>
  named("job", "training jobs", (workspaceId, name) =>
    db
      .select({ id: trainingJobs.id })
      .from(trainingJobs)
      .where(and(eq(trainingJobs.workspaceId, workspaceId), eq(trainingJobs.outputName, name)))
      .limit(MOST_IDS)
      .all(),
  );

/** The columns of a job that has never run. */
export const blankJob = () => ({
  status: machine.initial,
  reading: null,
  startModelId: null,
  teacher: null,
  resolver: null,
  resources: null,
  network: null,
  envNames: [],
  envSealed: "",
  warnings: [],
  gpu: null,
  step: 0,
  etaMs: null,
  latestMetrics: {},
  bestCheckpointId: null,
  memoryRetries: 0,
  crashes: 0,
  crashStep: 0,
  notBefore: 0,
  region: "local",
  placement: null,
  pauseReason: null,
  queueReason: null,
  error: null,
  stoppedEarly: null,
  tags: [],
  notes: "",
  group: null,
  publishedAt: null,
  likeCount: 0,
  trackerRunUrl: null,
  hubRepo: null,
  hubVariant: null,
  hubPrivate: true,
  hubAskedAt: null,
  hubRepoUrl: null,
  costMicros: 0,
  costRemainder: 0,
  energyJoules: null,
  energyWatts: null,
  energyAt: null,
  runMs: 0,
  runSince: null,
  runUntil: null,
  logKey: null,
  logBytes: null,
  logStdoutBytes: null,
  startedAt: null,
  completedAt: null,
  detailsRemovedAt: null,
});
