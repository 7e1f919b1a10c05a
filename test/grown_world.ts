/**
 * A database with 10 or 100 times the rows: each table gets copies of its own rows, made by SQL from what the schema says.
 * A copy has new values where the schema wants unique ones, and belongs to the same parents. So a job gets many points,
 * and a workspace many jobs.
 */
import type { Database } from "bun:sqlite";

/** Rows that are one for each workspace or for the server, that are sealed by their id, or whose parent cannot be copied. */
const NOT_COPIED = new Set([
  ...["counters", "credit_accounts", "detection_accounts", "event_cursors", "gpu_leases", "gpu_waits", "ledger_merge"],
  ...["power_readings", "settings", "storage_usage", "tracker_integrations", "tracker_runs", "training_remote_runs"],
  ...["fine_tuning_jobs", "prefix_stores", "webhook_endpoints"],
]);

/** Times as many rows as the usual; or fewer, where something else has a limit. */
const SHARE: Record<string, number> = {
  events: 10,
  audit_log: 10,
  traces: 5,
  deployments: 0.1,
  inference_batches: 0.1,
  detection_batches: 0.1,
  people: 0.1,
  users: 0.1,
  experiments: 0.1,
  workspaces: 0.1,
  monitors: 0.02,
  regions: 0.005,
  training_metrics: 4,
};

export const shareOf = (table: string): number => SHARE[table] ?? 1;

/** The column of a unique index that changes, where the last one is not right. */
const CHANGED: Record<string, string[]> = {
  annotation_item_sources: ["item_id"],
  annotation_reservations: ["item_id"],
  annotations: ["item_id"],
  api_key_spending: ["key_id"],
  client_vector_chunks: ["id"],
  deployment_traffic: ["minute"],
  experiment_scores: ["row_id"],
  training_exports: ["id", "checkpoint_id"],
  training_samples: ["step"],
  usage_days: ["day"],
  usage_hours: ["hour"],
  users: ["id", "person_id"],
  webhook_deliveries: ["id", "event_id"],
};

/** Work that is not over: a copy of it would be started. */
const UNFINISHED = [
  ...[
    "queued",
    "pending",
    "running",
    "starting",
    "provisioning",
    "in_progress",
    "validating",
    "finalizing",
    "cancelling",
  ],
  ...[
    "downloading",
    "uploading",
    "serving",
    "unhealthy",
    "resuming",
    "pausing",
    "loading",
    "creating",
    "ready_to_start",
  ],
];

type Column = { name: string; type: string; pk: number };

/** Copies rows until each table has `rows` of them, or its share. Returns how many each table has then. */
export function grow(db: Database, rows: number): Record<string, number> {
  db.run("PRAGMA foreign_keys = OFF");
  const triggers = db
    .query<{ name: string; sql: string }, []>("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    .all();
  for (const { name } of triggers) db.run(`DROP TRIGGER ${name}`); // they would count the copies as stored bytes
  db.run("BEGIN");
  const counts = Object.fromEntries(
    tablesOf(db).map((table) => [table, copyRows(db, table, Math.ceil(rows * shareOf(table)))]),
  );
  for (const { sql } of triggers) db.run(sql);
  db.run("COMMIT");
  db.run("PRAGMA foreign_keys = ON");
  db.run("ANALYZE");
  return counts;
}

/** One row for each table that no call of the journey leaves a row in. The traces that are left become one conversation. */
export function addMissing(db: Database, conversation: string) {
  const add = (table: string, values: string, from: string) =>
    db.run(`INSERT INTO ${table} SELECT ${values} FROM ${from} LIMIT 1`);
  db.run("UPDATE traces SET conversation_id = ?", [conversation]);
  add("conversations", `workspace_id, '${conversation}', created_at, created_at, 1, 1, 1`, "traces");
  add("annotation_item_sources", "traces.id, annotation_items.id", "annotation_items, traces");
  add("api_key_spending", "id, '2020-01', workspace_id, 1, created_at", "api_keys");
  add("client_vector_chunks", "1, workspace_id, store_id, id, zeroblob(16), 'words'", "client_vector_files");
  add("deployment_traffic", "id, 1, 29000000, 5, 0, 10, 0, 10, 1, 1, 0, '{}', '{}'", "deployments");
  add("idempotency_keys", "id, 'first', 'of the body', 201, 'sealed', created_at", "workspaces");
  add("inference_batch_items", "id, 1, 'first', 0, 10, NULL, 1, created_at", "inference_batches");
  add("person_identities", "'https://issuer.example.com', 'first', id, created_at", "people");
  add(
    "training_checkpoints",
    "'ckpt_' || substr(id, 5), id, workspace_id, 1, 'none', 10, '{}', 1, created_at, NULL",
    "training_jobs",
  );
  add(
    "rollout_turns",
    `id, workspace_id, 1, NULL, 0, 0, 'history', 'completed', 'a', 'b', 1, 'stop', 'model', 'trc_1', 5, 1, 1, created_at,
     '{}', '[]', '[]', '{}', zeroblob(8), zeroblob(4), zeroblob(4)`,
    "rollouts",
  );
  add("webhook_attempts", "id, 1, created_at, trigger, 5, 500, 'no', NULL, NULL", "webhook_deliveries");
}

const tablesOf = (db: Database): string[] =>
  db
    .query<{ name: string }, []>(
      "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name",
    )
    .all()
    .map(({ name }) => name)
    .filter((name) => !name.startsWith("sqlite_") && !NOT_COPIED.has(name));

function copyRows(db: Database, table: string, target: number): number {
  const columns = db.query<Column, []>(`SELECT name, type, pk FROM pragma_table_info('${table}')`).all();
  const isEnded = columns.some(({ name, type }) => name === "status" && type === "TEXT")
    ? `WHERE status NOT IN (${UNFINISHED.map((status) => `'${status}'`).join(", ")})`
    : "";
  const count = (where: string) =>
    db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table} ${where}`).get()?.n ?? 0;
  const source = count(isEnded);
  const copies = source === 0 ? 0 : Math.ceil((target - count("")) / source);
  if (copies > 0) {
    const changed = changedColumns(db, table, columns);
    const isRowId = ({ name, type, pk }: Column) => pk === 1 && type === "INTEGER" && name === "seq";
    const written = columns.filter((column) => !isRowId(column));
    const values = written.map((column) =>
      changed.has(column.name) ? copiedValue(table, column) : `"${column.name}"`,
    );
    db.run(
      `INSERT OR IGNORE INTO ${table} (${written.map(({ name }) => `"${name}"`).join(", ")})
       WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < ${copies})
       SELECT ${values.join(", ")} FROM n CROSS JOIN (SELECT * FROM ${table} ${isEnded}) ORDER BY k`,
    );
  }
  return count("");
}

/** One column of each unique index. */
function changedColumns(db: Database, table: string, columns: readonly Column[]): Set<string> {
  const own = CHANGED[table];
  if (own !== undefined) return new Set(own);
  const parents = new Set(
    db
      .query<{ from: string }, []>(`SELECT "from" FROM pragma_foreign_key_list('${table}')`)
      .all()
      .map(({ from }) => from),
  );
  const indexes = db.query<{ name: string }, []>(`SELECT name FROM pragma_index_list('${table}') WHERE "unique"`).all();
  const members = indexes.map(({ name }) =>
    db
      .query<{ name: string }, []>(`SELECT name FROM pragma_index_info('${name}') WHERE name IS NOT NULL`)
      .all()
      .map((c) => c.name),
  );
  return new Set(members.map((names) => choose(names, parents, columns)).filter((name) => name !== undefined));
}

function choose(
  names: readonly string[],
  parents: ReadonlySet<string>,
  columns: readonly Column[],
): string | undefined {
  if (names.includes("id")) return "id";
  const free = names.filter((name) => name !== "workspace_id" && !parents.has(name)).toReversed();
  const isText = (name: string) => columns.find((column) => column.name === name)?.type === "TEXT";
  return free.find((name) => isText(name)) ?? free[0] ?? names.find((name) => name !== "workspace_id");
}

/** An id keeps its length, and is the same in each table that names it. A time goes back, a number goes up. */
function copiedValue(table: string, { name, type }: Column): string {
  if (name === "minute" || name === "hour") return `${name} - k`;
  if (type === "INTEGER") return `${name} + k * (SELECT max(${name}) + 1 FROM ${table})`;
  const isId = `${name} GLOB '[a-z]*_??????????????????????????'`;
  const id = `substr(${name}, 1, length(${name}) - 9) || printf('%05d', k) || substr(${name}, -4)`;
  return `CASE WHEN ${isId} THEN ${id} ELSE ${name} || '~' || k END`;
}
