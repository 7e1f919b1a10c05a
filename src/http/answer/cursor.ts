/**
 * Positions in lists. An id sorts by time, so a well-formed id is a position whether or not its item still exists or
 * still passes the filter: a caller may delete every item of a page and then ask for the next one.
 */
import { desc, getTableName, lte, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { AppError } from "../../lib/errors.ts";
import { isId, type Prefix, timeOf } from "../../lib/ids.ts";
import type { Db } from "../../platform/db/db.ts";

export type Pageable = SQLiteTable & { id: SQLiteColumn; createdAt: SQLiteColumn };

/** The prefix of the ids of each table that has a list. `test/http/cursors.test.ts` fails for a list without one. */
const PREFIXES: Readonly<Record<string, Prefix>> = {
  agents: "agt",
  annotation_items: "anqi",
  annotation_queues: "anq",
  api_keys: "key",
  audit_log: "aud",
  browser_sessions: "brs",
  client_conversations: "conv",
  client_files: "file",
  client_vector_files: "vsf",
  client_vector_stores: "vs",
  code_artifacts: "art",
  dataset_resolutions: "dsr",
  datasets: "ds",
  deployment_requests: "req",
  deployments: "dep",
  eval_runs: "exp",
  evals: "eval",
  evaluators: "evl",
  events: "evt",
  experiment_items: "expi",
  experiments: "exp",
  fine_tuning_jobs: "job",
  hub_pushes: "psh",
  inference_batches: "batch",
  invitations: "inv",
  ledger_entries: "txn",
  machines: "mch",
  models: "mdl",
  monitor_changes: "evt",
  monitors: "mon",
  regions: "reg",
  reward_functions: "rf",
  rollouts: "rol",
  secrets: "sec",
  sessions: "ses",
  ssh_keys: "ssh",
  traces: "trc",
  training_checkpoints: "ckpt",
  training_events: "evt",
  training_jobs: "job",
  users: "usr",
  volumes: "vol",
  webhook_deliveries: "dlv",
  webhook_endpoints: "whk",
  workspaces: "ws",
};

export const invalidCursor = (after: string, form: string) =>
  new AppError("invalid_cursor", `after: ${JSON.stringify(after.slice(0, 80))} is not ${form}`, { param: "after" });

/** Throws `invalid_cursor` unless `after` has the form of an id of this table. */
export function requireId(table: SQLiteTable, after: string) {
  const prefix = PREFIXES[getTableName(table)];
  if (prefix === undefined) throw new Error(`${getTableName(table)}: add the prefix of its ids to cursor.ts`);
  if (!isId(after, prefix))
    throw invalidCursor(after, `an id of this list, such as ${prefix}_ with 26 letters and digits`);
}

/** The condition for the items behind `after`, in a list that is newest first by (created_at, id). */
export function behind(db: Db, table: Pageable, after: string): SQL {
  requireId(table, after);
  // A row value, and not `a < ? OR (a = ? AND b < ?)`: SQLite seeks in the index only for this form.
  return sql`(${table.createdAt}, ${table.id}) < (${createdAtOf(db, table, after)}, ${after})`;
}

/**
 * The item knows its time best. If it is gone, the item that was made before it tells the place: after a clock that was
 * ahead, ids are ahead of the time for a while.
 */
function createdAtOf(db: Db, table: Pageable, id: string): number {
  const nearest = db
    .select({ createdAt: table.createdAt })
    .from(table as SQLiteTable)
    .where(lte(table.id, id))
    .orderBy(desc(table.id))
    .limit(1)
    .get() as { createdAt: number } | undefined;
  return nearest?.createdAt ?? timeOf(id);
}
