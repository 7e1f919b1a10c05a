/** The rows of runs on other machines. A job has one open run at most. */
import { and, desc, eq, inArray, ne } from "drizzle-orm";
import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { type Db, prepared, type Tx } from "../../../platform/db/db.ts";
import { type RunEnd, UNREPORTED_END } from "./policy.ts";
import { trainingJobs } from "./table.ts";

/**
 * `sending`: the node may not have the plan yet. `ended`: the job is over, and the files on the node are still to be
 * removed. `closed`: nothing is left to do.
 */
const REMOTE_STATES = ["sending", "running", "ended", "closed"] as const;

export const trainingRemoteRuns = sqliteTable(
  "training_remote_runs",
  {
    jobId: text("job_id")
      .notNull()
      .references(() => trainingJobs.id, { onDelete: "cascade" }),
    attempt: integer("attempt").notNull(),
    region: text("region").notNull(),
    state: text("state", { enum: REMOTE_STATES }).notNull(),
    /** Bytes of the records that are taken. */
    offset: integer("offset").notNull(),
    /** The length of the log after those records. */
    logBytes: integer("log_bytes").notNull(),
    /** The end as those records tell it. */
    runEnd: text("run_end", { mode: "json" }).$type<RunEnd>().notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.jobId, table.attempt] })],
);
export type RemoteRunRow = typeof trainingRemoteRuns.$inferSelect;

const { jobId, attempt, region, state } = trainingRemoteRuns;

const open = prepared((db) =>
  db.select().from(trainingRemoteRuns).where(ne(state, "closed")).orderBy(trainingRemoteRuns.createdAt).prepare(),
);
/** Oldest first. */
export const openRuns = (db: Db | Tx): RemoteRunRow[] => open(db).all();

export const openRunOf = (db: Db | Tx, id: string): RemoteRunRow | undefined =>
  db
    .select()
    .from(trainingRemoteRuns)
    .where(and(eq(jobId, id), ne(state, "closed")))
    .get();

/** The jobs that keep the region busy. */
export const busyWith = (db: Db | Tx, id: string): string[] =>
  db
    .select({ jobId })
    .from(trainingRemoteRuns)
    .where(and(eq(region, id), inArray(state, ["sending", "running"])))
    .all()
    .map((row) => row.jobId);

type NewRun = { jobId: string; region: string; logBytes: number; now: number };

/** Call it in the commit that provisions the job. */
export function addRun(tx: Tx, { jobId: id, region: place, logBytes, now }: NewRun) {
  const last = tx
    .select({ attempt })
    .from(trainingRemoteRuns)
    .where(eq(jobId, id))
    .orderBy(desc(attempt))
    .limit(1)
    .get();
  const fresh = { state: "sending" as const, offset: 0, runEnd: { ...UNREPORTED_END } };
  tx.insert(trainingRemoteRuns)
    .values({ jobId: id, attempt: (last?.attempt ?? 0) + 1, region: place, logBytes, createdAt: now, ...fresh })
    .run();
}

type Change = Partial<Pick<RemoteRunRow, "state" | "offset" | "logBytes" | "runEnd">>;

export function changeRun(tx: Tx, run: Pick<RemoteRunRow, "jobId" | "attempt">, change: Change) {
  tx.update(trainingRemoteRuns)
    .set(change)
    .where(and(eq(jobId, run.jobId), eq(attempt, run.attempt)))
    .run();
}
