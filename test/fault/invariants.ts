import { Database } from "bun:sqlite";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { storageKeys } from "../../src/platform/backup/invariants.ts";

type Fact = { id: string; status: string; events: string };

const SWITCH = ["deployment.switched", "deployment.switch_failed"];

/** status → the event that must have been the last to touch it. */
const LAST_EVENT: Record<string, Record<string, string[]>> = {
  workspaces: {
    active: ["workspace.created", "workspace.updated", "workspace.resumed"],
    suspended: ["workspace.suspended", "workspace.updated"],
    deleted: ["workspace.deleted"],
  },
  deployments: {
    queued: [...SWITCH, "deployment.created", "deployment.updated", "deployment.stopped", "deployment.failed"],
    provisioning: [
      ...SWITCH,
      "deployment.created",
      "deployment.updated",
      "deployment.stopped",
      "deployment.failed",
      "deployment.serving",
      "deployment.scaled_to_zero",
    ],
    serving: [...SWITCH, "deployment.serving", "deployment.updated", "deployment.scaled_to_zero"],
    unhealthy: [...SWITCH, "deployment.unhealthy", "deployment.updated"],
    stopped: [...SWITCH, "deployment.stopped", "deployment.updated"],
    failed: [...SWITCH, "deployment.failed", "deployment.updated"],
  },
  sessions: {
    creating: ["session.created"],
    ready: ["session.ready"],
    stopping: ["session.created", "session.ready"],
    stopped: ["session.stopped"],
    failed: ["session.failed"],
    expired: ["session.expired"],
  },
  rollouts: {
    open: ["rollout.created"],
    ended: ["rollout.ended"],
    finished: ["rollout.finished"],
  },
  experiments: {
    queued: ["experiment.created"],
    running: ["experiment.created"],
    completed: ["experiment.completed"],
    failed: ["experiment.failed"],
    cancelled: ["experiment.cancelled"],
  },
  training_jobs: {
    queued: ["job.created", "job.requeued"],
    provisioning: ["job.provisioning"],
    running: ["job.running"],
    paused: ["job.paused"],
    cancelling: ["job.cancelling"],
    completed: ["job.completed"],
    failed: ["job.failed"],
    cancelled: ["job.cancelled"],
  },
  detection_batches: {
    queued: ["detection_batch.created"],
    processing: ["detection_batch.created"],
    completed: ["detection_batch.completed"],
    cancelled: ["detection_batch.cancelled"],
  },
  webhook_endpoints: {
    enabled: ["webhook_endpoint.created", "webhook_endpoint.updated", "webhook_endpoint.enabled", "webhook.test"],
    disabled: ["webhook_endpoint.disabled", "webhook_endpoint.updated"],
    deleted: ["webhook_endpoint.deleted"],
  },
  api_keys: { active: ["api_key.created"], revoked: ["api_key.revoked"] },
};

/** Checks the invariants that hold after any fault, from the files alone. Returns the violated ones. */
export function violations(dir: string): string[] {
  const db = new Database(join(dir, "verk.db"), { readonly: true });
  const all = <T>(sql: string) => db.query(sql).all() as T[];
  const bad: string[] = [];
  for (const { integrity_check: line } of all<{ integrity_check: string }>("PRAGMA integrity_check"))
    if (line !== "ok") bad.push(`integrity: ${line}`);
  bad.push(...all<{ table: string }>("PRAGMA foreign_key_check").map(({ table }) => `foreign key: ${table}`));
  for (const [table, states] of Object.entries(LAST_EVENT)) {
    const facts = all<Fact>(
      `SELECT t.id, t.status, (SELECT group_concat(type) FROM (SELECT type FROM events e WHERE e.subject_id = t.id ORDER BY seq)) AS events FROM ${table} t`,
    );
    for (const { id, status, events } of facts) {
      const types = (events ?? "").split(",");
      if (!states[status]?.includes(types.at(-1) ?? "")) bad.push(`${table} ${id} is ${status} after ${events}`);
      if (types.filter((type) => type.endsWith(".created")).length !== 1)
        bad.push(`${table} ${id} was created by ${events}`);
    }
  }
  const tables = {
    workspace: "workspaces",
    api_key: "api_keys",
    ssh_key: "ssh_keys",
    secret: "secrets",
    model: "models",
    deployment: "deployments",
    dataset: "datasets",
    dataset_resolution: "dataset_resolutions",
    volume: "volumes",
    annotation_queue: "annotation_queues",
    code_artifact: "code_artifacts",
    session: "sessions",
    job: "training_jobs",
    reward_function: "reward_functions",
    detection_batch: "detection_batches",
    webhook_endpoint: "webhook_endpoints",
    monitor: "monitors",
    agent: "agents",
    rollout: "rollouts",
    experiment: "experiments",
  };
  for (const [object, table] of Object.entries(tables)) {
    const orphans = all<{ id: string }>(
      `SELECT subject_id AS id FROM events WHERE type = '${object}.created' AND subject_id NOT IN (SELECT id FROM ${table})
       AND subject_id NOT IN (SELECT subject_id FROM events WHERE type = '${object}.deleted')`,
    );
    bad.push(...orphans.map(({ id }) => `an event says ${object} ${id} was created, but it is not there`));
    const silent = all<{ id: string }>(
      `SELECT id FROM ${table} WHERE id NOT IN (SELECT subject_id FROM events WHERE type = '${object}.created')`,
    );
    bad.push(...silent.map(({ id }) => `${object} ${id} is there, but no event says so`));
  }
  bad.push(
    ...ownersOfKeys(dir, db, all),
    ...filesOfSessions(dir, all),
    ...deliveriesOf(all),
    ...moneyOf(all),
    ...monitorsOf(all),
    ...annotationsOf(all),
  );
  db.close();
  return bad;
}

/** A delivery is due until it has settled, has what is sent, and knows of each of its attempts. */
function deliveriesOf(all: <T>(sql: string) => T[]): string[] {
  const wrong = {
    "is neither due nor settled, or both": "(status = 'pending') <> (due_at IS NOT NULL)",
    "has no body": "event_id NOT IN (SELECT event_id FROM webhook_bodies)",
    "counts its attempts wrong":
      "attempt_count <> (SELECT count(*) FROM webhook_attempts WHERE delivery_id = webhook_deliveries.id)",
    "was attempted after it had succeeded at the schedule's time":
      "(SELECT count(*) FROM webhook_attempts WHERE delivery_id = webhook_deliveries.id AND trigger <> 'manual' AND response_code BETWEEN 200 AND 299) > 1",
  };
  return Object.entries(wrong).flatMap(([what, where]) =>
    all<{ id: string }>(`SELECT id FROM webhook_deliveries WHERE ${where}`).map(({ id }) => `delivery ${id} ${what}`),
  );
}

/** A monitor knows the severity of its last event, and its history has each event once. */
function monitorsOf(all: <T>(sql: string) => T[]): string[] {
  const severe = "type IN ('monitor.triggered', 'monitor.recovered') AND subject_id = monitors.id";
  const last = `coalesce((SELECT type FROM events WHERE ${severe} ORDER BY seq DESC LIMIT 1), 'monitor.recovered')`;
  const wrong = {
    "has another severity than its last event": `(json_extract(state, '$.notified') = 'ok') <> (${last} = 'monitor.recovered')`,
    "has an event that is not in its history": `EXISTS (SELECT 1 FROM events WHERE ${severe} AND id NOT IN (SELECT id FROM monitor_changes))`,
  };
  return Object.entries(wrong).flatMap(([what, where]) =>
    all<{ id: string }>(`SELECT id FROM monitors WHERE ${where}`).map(({ id }) => `monitor ${id} ${what}`),
  );
}

/** A row of a dataset comes from one item at most, and an item counts its annotations. */
function annotationsOf(all: <T>(sql: string) => T[]): string[] {
  const wrong = {
    "shares its row with another item":
      "SELECT min(id) AS id FROM annotation_items WHERE dataset_row_id IS NOT NULL GROUP BY dataset_id, dataset_row_id HAVING count(*) > 1",
    "counts its annotations wrong":
      "SELECT id FROM annotation_items i WHERE annotation_count <> (SELECT count(*) FROM annotations WHERE item_id = i.id AND NOT skipped)",
    "is complete after another number of events":
      "SELECT id FROM annotation_items i WHERE (status = 'completed') <> (SELECT count(*) FROM events WHERE subject_id = i.id AND type = 'annotation_item.completed')",
  };
  return Object.entries(wrong).flatMap(([what, sql]) =>
    all<{ id: string }>(sql).map(({ id }) => `annotation item ${id} ${what}`),
  );
}

/** A balance is the sum of its entries; what a thing has cost is what was charged for it. */
function moneyOf(all: <T>(sql: string) => T[]): string[] {
  const wrong = {
    "the balance is not the sum of the ledger":
      "SELECT workspace_id AS id FROM credit_accounts a WHERE balance_micros <> (SELECT coalesce(sum(amount_micros), 0) FROM ledger_entries e WHERE e.workspace_id = a.workspace_id)",
    "it has entries and no account":
      "SELECT workspace_id AS id FROM ledger_entries WHERE workspace_id IN (SELECT id FROM workspaces) AND workspace_id NOT IN (SELECT workspace_id FROM credit_accounts)",
    "it was charged another sum than it cost": `SELECT id FROM (SELECT id, cost_micros AS cost FROM training_jobs UNION ALL SELECT id, total_cost_micros FROM deployments) t
       WHERE cost <> (SELECT -coalesce(sum(amount_micros), 0) FROM ledger_entries e WHERE e.subject_id = t.id)`,
  };
  return Object.entries(wrong).flatMap(([what, sql]) => all<{ id: string }>(sql).map(({ id }) => `${id}: ${what}`));
}

/** Every key of the local storage is owned by one row or written down as loose; every owner's key is there. */
/** Each table with a column for a storage key owns content: a new table is in it without a line here. */
function ownersOfKeys(dir: string, db: Database, all: <T>(sql: string) => T[]): string[] {
  const refs = join(dir, "storage/refs");
  const names = existsSync(refs) ? (readdirSync(refs, { recursive: true }) as string[]) : [];
  const stored = new Set(names.filter((name) => name.endsWith("=")).map((name) => name.slice(0, -1)));
  const keysOf = (sql: string) => all<{ key: string }>(sql).map(({ key }) => key);
  const owned = storageKeys(db).map(({ key }) => key);
  const known = new Set([...owned, ...keysOf("SELECT key FROM loose_keys")]);
  return [
    ...owned.filter((key) => !stored.has(key)).map((key) => `a row owns ${key}, but the storage does not have it`),
    ...[...stored].filter((key) => !known.has(key)).map((key) => `the storage has ${key}, but no row knows it`),
    ...owned.filter((key, i) => owned.indexOf(key) !== i).map((key) => `two rows own ${key}`),
  ];
}

/** A ready session has its directory; a directory has a session whose files are not yet gone. */
function filesOfSessions(dir: string, all: <T>(sql: string) => T[]): string[] {
  const rows = all<{ id: string; status: string; removed_at: number | null }>(
    "SELECT id, status, removed_at FROM sessions",
  );
  const there = existsSync(join(dir, "sessions")) ? readdirSync(join(dir, "sessions")) : [];
  const kept = new Set(rows.filter(({ removed_at }) => removed_at === null).map(({ id }) => id));
  return [
    ...rows
      .filter(({ id, status }) => status === "ready" && !existsSync(join(dir, "sessions", id, "root/workspace")))
      .map(({ id }) => `session ${id} is ready without its directory`),
    ...there.filter((id) => !kept.has(id)).map((id) => `the directory of session ${id} is nobody's`),
  ];
}
