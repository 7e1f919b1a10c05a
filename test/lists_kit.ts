/** Every list of the API, with rows that are written to its table as they are. */
import { newId, type Prefix } from "../src/lib/ids.ts";
import { sealSecrets } from "../src/resources/watching/webhooks/sealing.ts";
import type { TestApp } from "./harness.ts";
import { insert } from "./insert_row.ts";
import { clientLists } from "./lists_clients.ts";
import { evalLists } from "./lists_evals.ts";
import { PEOPLE_LISTS } from "./lists_people.ts";

export type ListCase = {
  /** The path in docs/openapi.json. */
  route: string;
  table: string;
  prefix: Prefix;
  /** Path parameters by name. */
  at?: (app: TestApp) => Record<string, string>;
  query?: (app: TestApp) => string;
  /** Column values that differ from zero and the empty text. */
  row?: (app: TestApp, i: number, id: string) => Record<string, string | number | null>;
  /** Filters that the list takes, with a value that the rows have, and the column that an index must search. */
  filters?: Record<string, { value: string; column: string | null }>;
  admin?: boolean;
};

const JOB = newId("job");
const SOURCE = JSON.stringify({
  type: "given",
  trace_ids: [],
  dataset_id: null,
  row_id: null,
  experiment_item_ids: [],
});
const QUEUE = newId("anq");
const QUEUE_COLUMNS = { mode: "single", labels: "[]", metadata: "{}" };
const DATASET = newId("ds");
const DEPLOYMENT = newId("dep");
const ENDPOINT = newId("whk");
const ENDPOINT_COLUMNS = { event_types: "[]", metadata: "{}", status: "enabled", scheme: "standard", deleted_at: null };
const MONITOR = newId("mon");
const MONITOR_COLUMNS = {
  metric: "balance",
  comparison: "below",
  no_data: "ok",
  severity: "ok",
  state: "{}",
  metadata: "{}",
};
const EXPERIMENT = newId("exp");
const EVALUATOR = newId("evl");

const TARGET = { name: "t", type: "outputs", field: "a" };
const EXPERIMENT_COLUMNS = {
  status: "completed",
  evaluators: "[]",
  params: "{}",
  metadata: "{}",
  finished_at: 1,
  targets: JSON.stringify([TARGET]),
};

export const LISTS: readonly ListCase[] = [
  ...clientLists((app, id) => parent(app, "training_jobs", id, JOB_COLUMNS), JOB),
  ...evalLists((app, table, id, columns) => parent(app, table, id, columns), EXPERIMENT_COLUMNS),
  ...PEOPLE_LISTS,
  {
    route: "/v1/account/audit_log",
    table: "audit_log",
    prefix: "aud",
    row: () => ({
      key_id: "key_x",
      user_id: "usr_x",
      method: "POST",
      path: "/v1/x",
      status: 200,
      request_id: "r",
    }),
    filters: { key_id: { value: "key_x", column: "key_id" }, user_id: { value: "usr_x", column: "user_id" } },
  },
  { route: "/v1/annotation_queues", table: "annotation_queues", prefix: "anq", row: () => QUEUE_COLUMNS },
  {
    route: "/v1/annotation_queues/{id}/items",
    table: "annotation_items",
    prefix: "anqi",
    at: (app) => ({ id: parent(app, "annotation_queues", QUEUE, QUEUE_COLUMNS) }),
    row: () => ({
      queue_id: QUEUE,
      status: "pending",
      source: SOURCE,
      input: '"in"',
      outputs: "[]",
      metadata: "{}",
      outcome: null,
      error: null,
      dataset_row_id: null,
    }),
    filters: { status: { value: "pending", column: "status" } },
  },
  {
    route: "/v1/agents",
    table: "agents",
    prefix: "agt",
    row: (_, i) => ({ version: i + 1, name: "n", tools: "[]", sampling: "{}", metadata: "{}", deleted_at: null }),
    filters: { name: { value: "n", column: "name" } },
  },
  {
    route: "/v1/api_keys",
    table: "api_keys",
    prefix: "key",
    row: (_, i) => ({ status: "active", hash: `h${i}`, scopes: "[]", metadata: "{}" }),
  },
  {
    route: "/v1/billing/transactions",
    table: "ledger_entries",
    prefix: "txn",
    query: (app) => `payment_customer_id=${customerOf(app)}`,
    row: (_, i) => ({ kind: "grant", window_key: `w${i}` }),
  },
  {
    route: "/v1/code_artifacts",
    table: "code_artifacts",
    prefix: "art",
    row: (_, i) => ({ storage_key: `k${i}`, sha256: `s${i}`, metadata: "{}", format: "zip" }),
  },
  { route: "/v1/datasets", table: "datasets", prefix: "ds", row: () => ({ metadata: "{}", source_type: "upload" }) },
  {
    route: "/v1/datasets/{id}/resolutions",
    table: "dataset_resolutions",
    prefix: "dsr",
    at: (app) => ({ id: parent(app, "datasets", DATASET, { metadata: "{}", source_type: "s3" }) }),
    row: () => ({ dataset_id: DATASET, status: "done" }),
  },
  {
    route: "/v1/deployments",
    table: "deployments",
    prefix: "dep",
    row: () => ({ status: "stopped", source: "hub", metadata: "{}", gpu_type: "cpu", model: "tiny" }),
    filters: { status: { value: "stopped", column: "status" }, model: { value: "tiny", column: "model" } },
  },
  {
    route: "/v1/deployments/{id}/requests",
    table: "deployment_requests",
    prefix: "req",
    at: (app) => ({
      id: parent(app, "deployments", DEPLOYMENT, { status: "stopped", source: "hub", metadata: "{}", gpu_type: "cpu" }),
    }),
    row: () => ({ deployment_id: DEPLOYMENT }),
  },
  {
    route: "/v1/evaluators",
    table: "evaluators",
    prefix: "evl",
    row: (_, i) => ({
      version: i + 1,
      name: "n",
      kind: "string_check",
      config: "{}",
      metadata: "{}",
      deleted_at: null,
    }),
    filters: { name: { value: "n", column: "name" }, kind: { value: "string_check", column: "kind" } },
  },
  {
    route: "/v1/experiments",
    table: "experiments",
    prefix: "exp",
    row: (app, _, id) => {
      const link = app.ctx.db.$client.prepare("INSERT INTO experiment_links (linked_id, experiment_id) VALUES (?, ?)");
      for (const linked of [DEPLOYMENT, JOB, EVALUATOR]) link.run(linked, id);
      return { ...EXPERIMENT_COLUMNS, dataset_id: DATASET };
    },
    filters: {
      status: { value: "completed", column: "status" },
      dataset_id: { value: DATASET, column: "dataset_id" },
      deployment_id: { value: DEPLOYMENT, column: "linked_id" },
      job_id: { value: JOB, column: "linked_id" },
      evaluator_id: { value: EVALUATOR, column: "linked_id" },
    },
  },
  {
    route: "/v1/experiments/{id}/items",
    table: "experiment_items",
    prefix: "expi",
    at: (app) => ({ id: parent(app, "experiments", EXPERIMENT, EXPERIMENT_COLUMNS) }),
    row: (_, i) => ({ experiment_id: EXPERIMENT, row_id: i, input: '""' }),
    filters: { target: { value: "t", column: "target" } },
  },
  {
    route: "/v1/models",
    table: "models",
    prefix: "mdl",
    query: () => "registry=true",
    row: (_, i) => ({ name: `m${i}`, status: "ready", source: "upload", metadata: "{}", checkpoint_id: null }),
  },
  {
    route: "/v1/monitors",
    table: "monitors",
    prefix: "mon",
    row: (_, i) => ({ ...MONITOR_COLUMNS, name: `m${i}` }),
    filters: { severity: { value: "ok", column: null } },
  },
  {
    route: "/v1/monitors/{id}/history",
    table: "monitor_changes",
    prefix: "evt",
    at: (app) => ({ id: parent(app, "monitors", MONITOR, { ...MONITOR_COLUMNS, name: "parent" }) }),
    row: () => ({ monitor_id: MONITOR, severity: "ok", previous_severity: "alert", event_type: null }),
  },
  {
    route: "/v1/hub_pushes",
    table: "hub_pushes",
    prefix: "psh",
    row: () => ({ variant: "merged", status: "completed", repo: "o/r", sent: "[]", upload: null }),
  },
  { route: "/v1/machines", table: "machines", prefix: "mch", row: (_, i) => ({ name: `m${i}`, status: "ended" }) },
  {
    route: "/v1/reward_functions",
    table: "reward_functions",
    prefix: "rf",
    row: (_, i) => ({ version: i + 1, name: "n", entrypoints: "[]", metadata: "{}", language: "python" }),
    filters: { name: { value: "n", column: "name" }, kind: { value: "reward", column: "kind" } },
  },
  { route: "/v1/secrets", table: "secrets", prefix: "sec", row: (_, i) => ({ name: `S${i}` }) },
  {
    route: "/v1/sessions",
    table: "sessions",
    prefix: "ses",
    row: () => ({ status: "stopped", metadata: "{}", volumes: "[]", env: "" }),
    filters: { status: { value: "stopped", column: "status" } },
  },
  { route: "/v1/ssh_keys", table: "ssh_keys", prefix: "ssh", row: (_, i) => ({ name: `k${i}`, metadata: "{}" }) },
  {
    route: "/v1/traces",
    table: "traces",
    prefix: "trc",
    row: () => ({
      source: "chat",
      capture: "none",
      status: 200,
      metadata: "{}",
      spans: "[]",
      key_id: "key_x",
      deployment_id: "dep_x",
      conversation_id: "talk",
    }),
    filters: {
      key_id: { value: "key_x", column: "key_id" },
      deployment_id: { value: "dep_x", column: "deployment_id" },
      conversation_id: { value: "talk", column: "conversation_id" },
    },
  },
  {
    route: "/v1/training_jobs",
    table: "training_jobs",
    prefix: "job",
    row: () => ({ ...JOB_COLUMNS, dataset_id: DATASET }),
    filters: {
      status: { value: "completed", column: "status" },
      method: { value: "sft", column: "method" },
      dataset_id: { value: DATASET, column: "dataset_id" },
    },
  },
  {
    route: "/v1/training_jobs/{id}/checkpoints",
    table: "training_checkpoints",
    prefix: "ckpt",
    at: (app) => ({ id: parent(app, "training_jobs", JOB, JOB_COLUMNS) }),
    row: (_, i) => ({ job_id: JOB, step: i, metrics: "{}" }),
  },
  {
    route: "/v1/training_jobs/{id}/events",
    table: "training_events",
    prefix: "evt",
    at: (app) => ({ id: parent(app, "training_jobs", JOB, JOB_COLUMNS) }),
    row: () => ({ job_id: JOB, level: "info", data: "{}" }),
  },
  {
    route: "/v1/volumes",
    table: "volumes",
    prefix: "vol",
    row: (_, i) => ({ name: `v${i}`, metadata: "{}", deleted_at: null }),
  },
  {
    route: "/v1/webhooks",
    table: "webhook_endpoints",
    prefix: "whk",
    row: (app, _, id) => ({
      event_types: "[]",
      metadata: "{}",
      secrets: sealSecrets(app.ctx, id, { current: "whsec_AAAA", replaced: [] }),
      status: "enabled",
      scheme: "standard",
    }),
  },
  {
    route: "/v1/webhooks/{id}/deliveries",
    table: "webhook_deliveries",
    prefix: "dlv",
    at: (app) => ({ id: parent(app, "webhook_endpoints", ENDPOINT, ENDPOINT_COLUMNS) }),
    row: (_, i) => ({
      endpoint_id: ENDPOINT,
      event_id: `evt_${i}`,
      event_type: "job.failed",
      status: "pending",
      trigger: "scheduled",
      due_at: null,
      resend_at: null,
    }),
    filters: { status: { value: "pending", column: null }, event_type: { value: "job.failed", column: null } },
  },
  {
    route: "/v1/workspaces",
    table: "workspaces",
    prefix: "ws",
    admin: true,
    row: (_, i) => ({ name: `w${i}`, payment_customer_id: `cus_${i}`, status: "active", metadata: "{}" }),
  },
];

const EMPTY_LOCK = { base_model_sha256: null, snapshot_sha256: null, reward_sha256: null, app_version: "0", seed: 1 };
const JSON_COLUMNS = {
  hyperparameters: "{}",
  rewards: JSON.stringify({ functions: [], source: null, language: null }),
  lock: JSON.stringify(EMPTY_LOCK),
  secrets: "[]",
  volumes: "[]",
  latest_metrics: "{}",
  metadata: "{}",
};
const JOB_COLUMNS = { ...JSON_COLUMNS, status: "completed", method: "sft", provider: "local", gpu_type: "cpu" };

const one = (app: TestApp, sql: string) => app.ctx.db.$client.query<{ v: string }, []>(sql).get()?.v ?? "";
const customerOf = (app: TestApp) =>
  one(app, `SELECT payment_customer_id AS v FROM workspaces WHERE id = '${app.workspaceA}'`);
function parent(app: TestApp, table: string, id: string, more: Record<string, string | number | null>): string {
  if (!one(app, `SELECT id AS v FROM ${table} WHERE id = '${id}'`)) insert(app, table, id, 1, more);
  return id;
}

export const pathOf = (app: TestApp, { route, at }: ListCase) =>
  Object.entries(at?.(app) ?? {}).reduce((path, [name, value]) => path.replace(`{${name}}`, value), route);

/** The answer without the check against the document: the rows are not complete. */
export async function get(app: TestApp, list: ListCase, query: string) {
  const all = [list.query?.(app), query].filter(Boolean).join("&");
  const headers = { authorization: `Bearer ${list.admin ? app.adminKey : app.keyA}` };
  const response = await app.handle(new Request(`http://localhost${pathOf(app, list)}?${all}`, { headers }));
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
  const body = (await response.json()) as any;
  const data = (body.data ?? body.items ?? []) as { id: string }[];
  return { status: response.status, body, ids: data.map(({ id }) => id), hasMore: body.has_more as boolean };
}
