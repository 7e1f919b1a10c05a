CREATE TABLE agents (
  id            TEXT PRIMARY KEY,
  workspace_id  TEXT NOT NULL REFERENCES workspaces (id),
  name          TEXT NOT NULL,
  version       INTEGER NOT NULL,
  description   TEXT,
  deployment    TEXT NOT NULL,
  system_prompt TEXT,
  tools         TEXT NOT NULL,
  sampling      TEXT NOT NULL,
  metadata      TEXT NOT NULL,
  created_at    INTEGER NOT NULL,
  deleted_at    INTEGER
, max_turns INTEGER) STRICT;
CREATE TABLE annotation_item_sources (
  source_id TEXT NOT NULL,
  item_id   TEXT NOT NULL REFERENCES annotation_items (id) ON DELETE CASCADE,
  PRIMARY KEY (source_id, item_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE annotation_items (
  id               TEXT PRIMARY KEY,
  workspace_id     TEXT NOT NULL REFERENCES workspaces (id),
  queue_id         TEXT NOT NULL, -- items of a deleted queue go in small commits
  status           TEXT NOT NULL,
  source           TEXT NOT NULL, -- JSON
  input            TEXT NOT NULL, -- JSON: a text or a list of messages
  outputs          TEXT NOT NULL, -- JSON: two texts for a pairwise queue, else none or one
  reference        TEXT,
  annotation_count INTEGER NOT NULL, -- without skips
  outcome          TEXT, -- JSON
  dataset_id       TEXT, -- the dataset that the row goes to
  dataset_row_id   INTEGER, -- set in the commit that moves the head of the dataset over the row
  error            TEXT, -- JSON
  metadata         TEXT NOT NULL,
  created_at       INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL,
  completed_at     INTEGER
) STRICT;
CREATE TABLE annotation_queues (
  id                  TEXT PRIMARY KEY,
  workspace_id        TEXT NOT NULL REFERENCES workspaces (id),
  name                TEXT NOT NULL,
  mode                TEXT NOT NULL,
  instructions        TEXT,
  labels              TEXT NOT NULL, -- JSON, the label schema
  annotators_per_item INTEGER NOT NULL,
  lease_seconds       INTEGER NOT NULL,
  dataset_id          TEXT, -- gets the rows; it may have been deleted meanwhile
  metadata            TEXT NOT NULL,
  created_at          INTEGER NOT NULL,
  updated_at          INTEGER NOT NULL
, summed_until TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE annotation_reservations (
  item_id    TEXT NOT NULL REFERENCES annotation_items (id) ON DELETE CASCADE,
  annotator  TEXT NOT NULL,
  queue_id   TEXT NOT NULL,
  lease_ms   INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, -- counts after a restart only: a running server measures the lease by its steady clock
  PRIMARY KEY (item_id, annotator)
) STRICT, WITHOUT ROWID;
CREATE TABLE annotation_sums (
  queue_id TEXT NOT NULL, -- sums of a deleted queue go in small commits
  label    TEXT NOT NULL,
  kind     TEXT NOT NULL,
  a        TEXT NOT NULL,
  b        TEXT NOT NULL,
  n        INTEGER NOT NULL,
  PRIMARY KEY (queue_id, label, kind, a, b)
) STRICT, WITHOUT ROWID;
CREATE TABLE annotations (
  item_id    TEXT NOT NULL REFERENCES annotation_items (id) ON DELETE CASCADE,
  annotator  TEXT NOT NULL,
  queue_id   TEXT NOT NULL,
  key_id     TEXT NOT NULL, -- the key that sent it
  skipped    INTEGER NOT NULL,
  value      TEXT NOT NULL, -- JSON: labels, preference, correction
  comment    TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (item_id, annotator)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_key_spending (
  key_id       TEXT NOT NULL REFERENCES api_keys (id),
  month        TEXT NOT NULL, -- of UTC, such as 2026-01
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  spent_micros INTEGER NOT NULL, -- by this key and by the keys that share its budget
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (key_id, month)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  prefix TEXT NOT NULL,
  scopes TEXT NOT NULL,
  monthly_budget_micros INTEGER,
  metadata TEXT NOT NULL,
  expires_at INTEGER,
  last_used_at INTEGER,
  revoked_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, budget_key_id TEXT, user_id TEXT, kind TEXT NOT NULL DEFAULT 'key', priority TEXT) STRICT;
CREATE TABLE audit_log (
  workspace_id TEXT NOT NULL,
  id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  method TEXT NOT NULL,
  path TEXT NOT NULL,
  made TEXT, -- the id of what it created
  status INTEGER NOT NULL,
  address TEXT,
  request_id TEXT NOT NULL,
  created_at INTEGER NOT NULL, user_id TEXT,
  PRIMARY KEY (workspace_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE browser_sessions (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
, user_id TEXT, method TEXT NOT NULL DEFAULT 'key', address TEXT, agent TEXT);
CREATE TABLE client_completions (
  id TEXT NOT NULL,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  model TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  messages TEXT NOT NULL,
  completion TEXT NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE TABLE client_conversations (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT,
  metadata TEXT NOT NULL,
  item_count INTEGER NOT NULL,
  item_bytes INTEGER NOT NULL,
  removed_at INTEGER, -- removed for callers; its items go in small commits
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE client_files (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  filename TEXT NOT NULL,
  purpose TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  storage_key TEXT NOT NULL,
  expires_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE client_items (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  conversation_id TEXT NOT NULL REFERENCES client_conversations (id),
  position INTEGER NOT NULL,
  parent_id TEXT,
  model TEXT,
  created_at INTEGER NOT NULL,
  item TEXT NOT NULL
) STRICT;
CREATE TABLE client_vector_chunks (
  id INTEGER PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  store_id TEXT NOT NULL REFERENCES client_vector_stores (id),
  vector_file_id TEXT NOT NULL REFERENCES client_vector_files (id),
  vector BLOB NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE TABLE client_vector_files (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  store_id TEXT NOT NULL REFERENCES client_vector_stores (id),
  file_id TEXT NOT NULL,
  batch_id TEXT,
  status TEXT NOT NULL,
  error TEXT,
  attributes TEXT,
  max_tokens INTEGER NOT NULL,
  overlap_tokens INTEGER NOT NULL,
  position INTEGER NOT NULL,
  chunk_count INTEGER NOT NULL,
  usage_bytes INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  not_before INTEGER,
  removed_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE client_vector_stores (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  metadata TEXT NOT NULL,
  embedding_model TEXT NOT NULL,
  dimensions INTEGER,
  expires_days INTEGER,
  used_at INTEGER NOT NULL,
  removed_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE code_artifacts (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL REFERENCES workspaces (id),
  name           TEXT NOT NULL,
  format         TEXT NOT NULL,
  sha256         TEXT NOT NULL,
  size_bytes     INTEGER NOT NULL,
  file_count     INTEGER NOT NULL,
  unpacked_bytes INTEGER NOT NULL,
  storage_key    TEXT NOT NULL UNIQUE,
  metadata       TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  UNIQUE (workspace_id, sha256)
) STRICT;
CREATE TABLE conversations (
  workspace_id      TEXT NOT NULL,
  id                TEXT NOT NULL,
  created_at        INTEGER NOT NULL,
  last_at           INTEGER NOT NULL,
  trace_count       INTEGER NOT NULL,
  prompt_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT;
CREATE TABLE counters (
  name TEXT NOT NULL,
  workspace_id TEXT NOT NULL, -- empty: nobody's
  labels TEXT NOT NULL, -- JSON: their values
  counted TEXT NOT NULL, -- JSON: a number; of a histogram its sum and its buckets
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name, labels)
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_accounts (
  workspace_id   TEXT PRIMARY KEY REFERENCES workspaces (id),
  balance_micros INTEGER NOT NULL,
  full_micros    INTEGER, -- the balance after the last grant; null: its first credit is not booked yet
  updated_at     INTEGER NOT NULL
) STRICT;
CREATE TABLE dataset_pins (
  job_id     TEXT NOT NULL,
  dataset_id TEXT NOT NULL REFERENCES datasets (id),
  number     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, dataset_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE dataset_resolutions (
  id              TEXT PRIMARY KEY,
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id),
  dataset_id      TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
  status          TEXT NOT NULL,
  job_id          TEXT,
  rows            INTEGER NOT NULL,
  bytes           INTEGER NOT NULL,
  total_rows      INTEGER,
  snapshot_number INTEGER,
  error           TEXT, -- JSON {code, message, param}
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  finished_at     INTEGER
) STRICT;
CREATE TABLE dataset_snapshots (
  dataset_id TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
  number     INTEGER NOT NULL,
  head_row   INTEGER NOT NULL,
  row_count  INTEGER NOT NULL,
  bytes      INTEGER NOT NULL, -- of the live rows
  sha256     TEXT NOT NULL, -- of the live rows in order, one a line
  trigger    TEXT NOT NULL,
  job_id     TEXT,
  note       TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (dataset_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE datasets (
  id                 TEXT PRIMARY KEY,
  workspace_id       TEXT NOT NULL REFERENCES workspaces (id),
  name               TEXT NOT NULL,
  source_type        TEXT NOT NULL,
  source             TEXT, -- JSON, null for an upload; never with a credential in it
  format             TEXT,
  head_row           INTEGER NOT NULL,
  live_rows          INTEGER NOT NULL,
  bytes              INTEGER NOT NULL, -- of the log
  auto_snapshot_rows INTEGER,
  snapshot_count     INTEGER NOT NULL,
  snapshot_head_row  INTEGER NOT NULL, -- of the newest snapshot
  content_sha256     TEXT, -- of the uploaded file
  metadata           TEXT NOT NULL,
  created_at         INTEGER NOT NULL,
  updated_at         INTEGER NOT NULL
, detected TEXT) STRICT;
CREATE TABLE deployment_logs (
  seq           INTEGER PRIMARY KEY,
  deployment_id TEXT NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  at            INTEGER NOT NULL,
  level         TEXT NOT NULL CHECK (level IN ('info', 'warn', 'error')),
  text          TEXT NOT NULL
) STRICT;
CREATE TABLE deployment_requests (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL REFERENCES deployments (id),
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  latency_ms REAL NOT NULL,
  status_code INTEGER NOT NULL,
  error_message TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE deployment_traffic (
  deployment_id     TEXT NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  minutes           INTEGER NOT NULL CHECK (minutes IN (1, 60)), -- length of the span
  minute            INTEGER NOT NULL, -- its beginning, in minutes since 1970
  requests          INTEGER NOT NULL, -- that ended in it
  errors            INTEGER NOT NULL,
  prompt_tokens     INTEGER NOT NULL,
  cached_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  waited_ms         REAL NOT NULL, -- for a replica, summed
  most_open         INTEGER NOT NULL, -- requests at once
  most_waiting      INTEGER NOT NULL,
  answer_ms         TEXT NOT NULL, -- bucket → requests, in JSON
  first_token_ms    TEXT NOT NULL,
  PRIMARY KEY (deployment_id, minutes, minute)
) STRICT, WITHOUT ROWID;
CREATE TABLE deployments (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  model TEXT NOT NULL,
  model_id TEXT REFERENCES models (id),
  source TEXT NOT NULL,
  checkpoint TEXT,
  gpu_type TEXT NOT NULL,
  gpu_count INTEGER NOT NULL,
  provider TEXT NOT NULL,
  min_replicas INTEGER NOT NULL,
  max_replicas INTEGER NOT NULL,
  idle_timeout_seconds INTEGER NOT NULL,
  context_length INTEGER,
  parallel INTEGER,
  wake_timeout_seconds INTEGER NOT NULL,
  max_held_requests INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  -- Scaled to zero: status is serving, no process runs, the next request wakes it.
  parked INTEGER NOT NULL,
  -- A load that began from parked: its failure is not terminal.
  waking INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  next_attempt_at INTEGER,
  error TEXT,
  queue_reason TEXT,
  cost_per_hour_micros INTEGER,
  total_cost_micros INTEGER NOT NULL,
  total_requests INTEGER NOT NULL,
  total_errors INTEGER NOT NULL,
  total_prompt_tokens INTEGER NOT NULL,
  total_completion_tokens INTEGER NOT NULL,
  total_latency_ms REAL NOT NULL,
  -- Uptime: what is over, and since when the present stretch lasts.
  uptime_ms INTEGER NOT NULL,
  up_since INTEGER,
  billed_until INTEGER,
  started_at INTEGER,
  stopped_at INTEGER,
  last_request_at INTEGER,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, cost_remainder INTEGER NOT NULL DEFAULT 0, charged_replicas INTEGER NOT NULL DEFAULT 1, api_key_id TEXT, queue_timeout_seconds INTEGER NOT NULL DEFAULT 900, queued_ms INTEGER NOT NULL DEFAULT 0, error_code TEXT, capture TEXT NOT NULL DEFAULT 'none', capture_retention_days INTEGER NOT NULL DEFAULT 30, capture_redact TEXT NOT NULL DEFAULT '[]', next_model TEXT, previous_model TEXT, region TEXT NOT NULL DEFAULT 'local', internal INTEGER NOT NULL DEFAULT 0, kv_type TEXT) STRICT;
CREATE TABLE detection_accounts (
  workspace_id      TEXT PRIMARY KEY REFERENCES workspaces (id),
  default_models    TEXT NOT NULL, -- JSON
  default_threshold REAL NOT NULL,
  cache_enabled     INTEGER NOT NULL,
  credits_spent     INTEGER NOT NULL,
  month             TEXT NOT NULL, -- 2026-01, in UTC, that `month_requests` is of
  month_requests    INTEGER NOT NULL,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL
, prior REAL NOT NULL DEFAULT 0.5) STRICT;
CREATE TABLE detection_batches (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL REFERENCES workspaces (id),
  status         TEXT NOT NULL,
  models         TEXT NOT NULL, -- JSON; empty: those of the workspace that fit
  threshold      REAL NOT NULL,
  total          INTEGER NOT NULL,
  success_count  INTEGER NOT NULL,
  failure_count  INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  finished_at    INTEGER
, metadata TEXT NOT NULL DEFAULT '{}', prior REAL NOT NULL DEFAULT 0.5) STRICT;
CREATE TABLE detection_items (
  batch_id     TEXT NOT NULL REFERENCES detection_batches (id),
  number       INTEGER NOT NULL, -- from 0, in the order they were sent
  name         TEXT NOT NULL, -- the caller's id
  url          TEXT, -- null: its bytes are in the batch's file
  offset       INTEGER NOT NULL,
  size_bytes   INTEGER NOT NULL,
  detection_id TEXT, -- what was found
  cached       INTEGER NOT NULL, -- and whether it was known before
  error_code   TEXT, -- or why nothing was
  error        TEXT,
  finished_at  INTEGER,
  PRIMARY KEY (batch_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE detections (
  id                  TEXT PRIMARY KEY,
  workspace_id        TEXT NOT NULL,
  image_hash          TEXT NOT NULL,
  cache_key           TEXT, -- null: not to be found again
  threshold           REAL NOT NULL,
  size_bytes          INTEGER NOT NULL,
  scored              TEXT NOT NULL, -- JSON, as the detector said it
  detection_ms        REAL NOT NULL,
  processing_ms       REAL NOT NULL,
  feedback            TEXT, -- JSON
  created_at          INTEGER NOT NULL
, prior REAL NOT NULL DEFAULT 0.5) STRICT;
CREATE TABLE eval_runs (
  id TEXT NOT NULL PRIMARY KEY REFERENCES experiments (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  eval_id TEXT NOT NULL REFERENCES evals (id) ON DELETE CASCADE,
  data_source TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE evals (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  data_source_config TEXT NOT NULL,
  testing_criteria TEXT NOT NULL,
  evaluators TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE evaluators (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL REFERENCES workspaces (id),
  name           TEXT NOT NULL,
  version        INTEGER NOT NULL,
  kind           TEXT NOT NULL,
  description    TEXT,
  metadata       TEXT NOT NULL,
  config         TEXT NOT NULL, -- settings of the kind
  source         TEXT, -- of the kind code
  pass_threshold REAL,
  created_at     INTEGER NOT NULL,
  deleted_at     INTEGER -- the row stays without its settings: a version never gets another meaning
) STRICT;
CREATE TABLE event_cursors (
  consumer TEXT PRIMARY KEY,
  seq INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL,
  type TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  data TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE experiment_items (
  id                TEXT PRIMARY KEY,
  experiment_id     TEXT NOT NULL,
  target            INTEGER NOT NULL, -- index
  row_id            INTEGER NOT NULL,
  input             TEXT NOT NULL, -- JSON
  reference         TEXT,
  output            TEXT,
  latency_ms        REAL,
  prompt_tokens     INTEGER,
  completion_tokens INTEGER,
  request_id        TEXT,
  error             TEXT,
  error_code        TEXT,
  created_at        INTEGER NOT NULL,
  finished_at       INTEGER -- null: generated, not yet scored
, trace_id TEXT) STRICT;
CREATE TABLE experiment_links (
  linked_id     TEXT NOT NULL,
  experiment_id TEXT NOT NULL,
  PRIMARY KEY (linked_id, experiment_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE experiment_scores (
  experiment_id TEXT NOT NULL,
  target        INTEGER NOT NULL,
  row_id        INTEGER NOT NULL,
  evaluator     INTEGER NOT NULL, -- index
  score         REAL,
  label         TEXT,
  passed        INTEGER,
  reason        TEXT,
  error         TEXT,
  latency_ms    REAL NOT NULL,
  PRIMARY KEY (experiment_id, target, row_id, evaluator)
) STRICT, WITHOUT ROWID;
CREATE TABLE experiments (
  id              TEXT PRIMARY KEY,
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id),
  name            TEXT NOT NULL,
  status          TEXT NOT NULL,
  dataset_id      TEXT NOT NULL,
  snapshot_number INTEGER NOT NULL,
  row_count       INTEGER NOT NULL, -- rows that are run: the first ones of the snapshot
  targets         TEXT NOT NULL, -- JSON
  evaluators      TEXT NOT NULL, -- JSON
  baseline        INTEGER NOT NULL, -- index of a target
  params          TEXT NOT NULL, -- JSON, sampling of the generated answers
  system_prompt   TEXT,
  reference_field TEXT, -- null: by the format of the row
  concurrency     INTEGER NOT NULL,
  items_done      INTEGER NOT NULL,
  items_failed    INTEGER NOT NULL, -- of those done
  error           TEXT,
  error_code      TEXT,
  api_key_id      TEXT, -- pays for temporary deployments
  metadata        TEXT NOT NULL, -- JSON
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  started_at      INTEGER,
  finished_at     INTEGER
) STRICT;
CREATE TABLE fine_tuning_jobs (
  id TEXT NOT NULL PRIMARY KEY REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  model TEXT NOT NULL,
  method TEXT NOT NULL,
  training_file TEXT NOT NULL,
  validation_file TEXT,
  served_name TEXT NOT NULL,
  deployment_id TEXT,
  deployment_error TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE gpu_leases (
  holder TEXT NOT NULL,
  device TEXT NOT NULL,
  kind TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, main_bytes INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (holder, device)
) STRICT, WITHOUT ROWID;
CREATE TABLE gpu_waits (
  holder TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  gpu_type TEXT,
  gpu_count INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE hub_pushes (
  id            TEXT PRIMARY KEY,
  workspace_id  TEXT NOT NULL REFERENCES workspaces (id),
  model_id      TEXT, -- the pushed model; null: a result of the job
  job_id        TEXT,
  checkpoint_id TEXT,
  variant       TEXT NOT NULL,
  quantization  TEXT NOT NULL,
  repo          TEXT NOT NULL,
  is_private    INTEGER NOT NULL,
  status        TEXT NOT NULL,
  bytes_total   INTEGER NOT NULL,
  bytes_done    INTEGER NOT NULL,
  sent          TEXT NOT NULL, -- files that the hub has: path, hash, size
  upload        TEXT, -- the file that is being sent in parts
  url           TEXT,
  commit_id     TEXT,
  error         TEXT,
  attempts      INTEGER NOT NULL, -- failures in a row without progress
  not_before    INTEGER, -- of the next try
  created_at    INTEGER NOT NULL,
  completed_at  INTEGER,
  updated_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE idempotency_keys (
  workspace_id TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL,
  response_sealed TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE inference_batch_items (
  batch_id TEXT NOT NULL REFERENCES inference_batches (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  custom_id TEXT NOT NULL,
  byte_offset INTEGER NOT NULL,
  byte_length INTEGER NOT NULL,
  result TEXT,
  failed INTEGER NOT NULL DEFAULT 0,
  finished_at INTEGER,
  PRIMARY KEY (batch_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE inference_batches (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  key_id TEXT,
  status TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  input_file_id TEXT NOT NULL,
  input_key TEXT NOT NULL,
  metadata TEXT,
  errors TEXT,
  total INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  output_file_id TEXT,
  error_file_id TEXT,
  expires_at INTEGER NOT NULL,
  in_progress_at INTEGER,
  finalizing_at INTEGER,
  cancelling_at INTEGER,
  finished_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE invitations (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  email TEXT NOT NULL, -- lower case
  role TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  invited_by TEXT, -- user; NULL: the key of a service, or the command line
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE TABLE "ledger_entries" (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL,
  kind           TEXT NOT NULL CHECK (kind IN ('initial', 'grant', 'charge')),
  amount_micros  INTEGER NOT NULL, -- micro-dollars; charges are negative
  subject_kind   TEXT,
  subject_id     TEXT,
  window_key     TEXT NOT NULL UNIQUE, -- names what is paid: nothing is booked twice
  usage_ms       INTEGER, -- of all devices or replicas together
  rate_micros    INTEGER, -- for an hour of it
  description    TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  api_key_id     TEXT,
  merged_entries INTEGER -- how many charges it is the sum of; null: it is as it was booked
) STRICT;
CREATE TABLE ledger_merge (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  amount_micros INTEGER NOT NULL,
  usage_ms      INTEGER NOT NULL
) STRICT;
CREATE TABLE loose_keys (
  key        TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE machines (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL,
  region_id      TEXT NOT NULL,
  api_key_id     TEXT, -- the key whose work started it, and that pays
  cloud          TEXT NOT NULL,
  name           TEXT NOT NULL UNIQUE,
  status         TEXT NOT NULL,
  address        TEXT NOT NULL,
  port           INTEGER NOT NULL,
  user           TEXT NOT NULL,
  host_key       TEXT NOT NULL,
  gpu_type       TEXT NOT NULL,
  gpu_count      INTEGER NOT NULL,
  rate_micros    INTEGER NOT NULL, -- for an hour of all its devices
  up_since       INTEGER, -- the time from here on is not charged yet; null: nothing is left to charge
  uptime_ms      INTEGER NOT NULL,
  cost_micros    INTEGER NOT NULL,
  cost_remainder INTEGER NOT NULL,
  idle_since     INTEGER, -- null: it has work
  fault          TEXT,
  attempts       INTEGER NOT NULL, -- failed calls of `down`
  not_before     INTEGER, -- of the next call
  created_at     INTEGER NOT NULL,
  ready_at       INTEGER,
  ended_at       INTEGER,
  updated_at     INTEGER NOT NULL
) STRICT;
CREATE TABLE models (
  id TEXT PRIMARY KEY,
  workspace_id TEXT REFERENCES workspaces (id),
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  source TEXT NOT NULL,
  path TEXT,
  format TEXT NOT NULL,
  base_model TEXT,
  architecture TEXT,
  parameters INTEGER,
  context_length INTEGER,
  quantization TEXT,
  size_bytes INTEGER,
  sha256 TEXT,
  file_mtime_ms INTEGER,
  shape TEXT,
  hub_file TEXT,
  job_id TEXT,
  error TEXT,
  progress REAL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, base_model_id TEXT, checkpoint_id TEXT, checkpoint_step INTEGER, variant TEXT, hub_name TEXT) STRICT;
CREATE TABLE monitor_changes (
  id                TEXT PRIMARY KEY,
  monitor_id        TEXT NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  workspace_id      TEXT NOT NULL,
  severity          TEXT NOT NULL,
  previous_severity TEXT NOT NULL,
  value             REAL,
  samples           INTEGER,
  muted             INTEGER NOT NULL,
  event_type        TEXT,
  created_at        INTEGER NOT NULL
) STRICT;
CREATE TABLE monitor_values (
  monitor_id TEXT NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  minute     INTEGER NOT NULL, -- since 1970
  at         INTEGER NOT NULL,
  value      REAL,
  samples    INTEGER,
  severity   TEXT NOT NULL,
  PRIMARY KEY (monitor_id, minute)
) STRICT, WITHOUT ROWID;
CREATE TABLE monitors (
  id                       TEXT PRIMARY KEY,
  workspace_id             TEXT NOT NULL REFERENCES workspaces (id),
  name                     TEXT NOT NULL,
  metric                   TEXT NOT NULL,
  deployment_id            TEXT,
  job_id                   TEXT,
  endpoint_id              TEXT,
  device                   TEXT,
  score                    TEXT,
  window_ms                INTEGER NOT NULL,
  reference_ms             INTEGER NOT NULL, -- the window before it, for drift
  comparison               TEXT NOT NULL,
  alert                    REAL,
  warning                  REAL,
  alert_recovery           REAL,
  warning_recovery         REAL,
  evaluations              INTEGER NOT NULL,
  recovery_evaluations     INTEGER NOT NULL,
  no_data                  TEXT NOT NULL,
  min_samples              INTEGER NOT NULL,
  evaluator                TEXT, -- scores a share of the captured traffic
  sample_percent           REAL,
  sampled_until            INTEGER,
  severity                 TEXT NOT NULL,
  state                    TEXT NOT NULL,
  value                    REAL,
  samples                  INTEGER,
  muted_until              INTEGER,
  evaluated_at             INTEGER,
  changed_at               INTEGER,
  metadata                 TEXT NOT NULL,
  created_at               INTEGER NOT NULL,
  updated_at               INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
) STRICT;
CREATE TABLE operator_settings (
  name       TEXT PRIMARY KEY,
  value      TEXT NOT NULL, -- JSON
  key_id     TEXT NOT NULL, -- of the change; the audit log has the rest
  changed_at INTEGER NOT NULL
) STRICT;
CREATE TABLE people (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL, -- lower case
  name TEXT NOT NULL,
  password_hash TEXT, -- argon2id; NULL: this person cannot sign in with a password
  last_sign_in_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  proven_by TEXT, -- operator or provider; NULL: the address is not proven
  workspace_id TEXT REFERENCES workspaces (id), -- of an unproven person, who has no other one
  CHECK ((proven_by IS NULL) = (workspace_id IS NOT NULL))
);
CREATE TABLE person_identities (
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  person_id TEXT NOT NULL REFERENCES people (id),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (issuer, subject)
);
CREATE TABLE power_readings (
  gpu_type TEXT PRIMARY KEY,
  energy_joules INTEGER NOT NULL,
  work_ms INTEGER NOT NULL, -- of all devices together
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE prefix_stores (
  workspace_id TEXT NOT NULL PRIMARY KEY REFERENCES workspaces (id),
  key_sealed   TEXT NOT NULL,
  bytes        INTEGER NOT NULL, -- in the folder, as far as replicas have reported it
  created_at   INTEGER NOT NULL
) STRICT;
CREATE TABLE public_run_likes (
  job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  client TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, client)
) STRICT, WITHOUT ROWID;
CREATE TABLE regions (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name         TEXT NOT NULL,
  kind         TEXT NOT NULL,
  address      TEXT NOT NULL,
  port         INTEGER NOT NULL,
  user         TEXT NOT NULL,
  ssh_key_id   TEXT NOT NULL,
  work_dir     TEXT NOT NULL,
  host_key     TEXT NOT NULL, -- type and base64; another key is refused
  rate_micros  INTEGER, -- for an hour of one device; null: no price
  info         TEXT,
  seen_at      INTEGER,
  fault        TEXT, -- why it cannot be used now
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL, slurm TEXT,
  UNIQUE (workspace_id, name)
);
CREATE TABLE responses (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  status TEXT NOT NULL,
  previous_id TEXT,
  input TEXT NOT NULL,
  response TEXT NOT NULL,
  task TEXT,
  key_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE reward_functions (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name         TEXT NOT NULL,
  version      INTEGER NOT NULL,
  language     TEXT NOT NULL,
  description  TEXT,
  metadata     TEXT NOT NULL,
  timeout_ms   INTEGER NOT NULL, -- for one sample
  entrypoints  TEXT NOT NULL,
  source       TEXT NOT NULL,
  sha256       TEXT NOT NULL,
  size_bytes   INTEGER NOT NULL,
  status       TEXT NOT NULL,
  error        TEXT,
  created_at   INTEGER NOT NULL,
  deleted_at   INTEGER -- the row stays without its source: a version never gets another meaning
, kind TEXT NOT NULL DEFAULT 'reward') STRICT;
CREATE TABLE rollout_turns (
  rollout_id TEXT NOT NULL REFERENCES rollouts (id),
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  number INTEGER NOT NULL,
  parent INTEGER,
  kept_messages INTEGER NOT NULL,
  kept_tokens INTEGER NOT NULL,
  branch TEXT,
  status TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  state_hash TEXT NOT NULL,
  has_end INTEGER NOT NULL,
  stop TEXT,
  weights TEXT,
  trace_id TEXT NOT NULL,
  latency_ms REAL NOT NULL,
  first_token_ms REAL,
  cost_micros REAL NOT NULL,
  created_at INTEGER NOT NULL,
  settings TEXT NOT NULL,
  messages TEXT NOT NULL,
  tools TEXT NOT NULL,
  completion TEXT NOT NULL,
  prompt_ids BLOB NOT NULL,
  token_ids BLOB NOT NULL,
  logprobs BLOB NOT NULL,
  PRIMARY KEY (rollout_id, number)
) STRICT;
CREATE TABLE rollouts (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  key_id TEXT NOT NULL,
  key_hash TEXT NOT NULL,
  status TEXT NOT NULL,
  ended_by TEXT,
  model TEXT NOT NULL,
  replay_of TEXT,
  sampling TEXT NOT NULL,
  max_turns INTEGER NOT NULL,
  max_tokens INTEGER,
  max_cost_micros REAL,
  turn_count INTEGER NOT NULL,
  branch_count INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  cost_micros REAL NOT NULL,
  reward REAL,
  metrics TEXT,
  metadata TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  finished_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE second_factors (
  person_id TEXT NOT NULL PRIMARY KEY REFERENCES people (id),
  sealed TEXT NOT NULL, -- with the master key
  confirmed_at INTEGER, -- NULL: begun, but no code has proved yet that the person has the secret
  last_step INTEGER NOT NULL DEFAULT 0, -- time step of the newest code that was used; older ones are refused
  recovery_hashes TEXT NOT NULL DEFAULT '[]', -- SHA-256 of the recovery codes that are left
  created_at INTEGER NOT NULL
);
CREATE TABLE secrets (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  sealed TEXT NOT NULL,
  scope_host TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, metadata TEXT NOT NULL DEFAULT '{}',
  UNIQUE (workspace_id, name)
) STRICT;
CREATE TABLE sessions (
  id              TEXT PRIMARY KEY,
  workspace_id    TEXT NOT NULL REFERENCES workspaces (id),
  name            TEXT,
  status          TEXT NOT NULL,
  env             TEXT NOT NULL, -- sealed: it may hold keys
  volumes         TEXT NOT NULL,
  network         INTEGER NOT NULL,
  timeout_seconds INTEGER NOT NULL,
  idle_seconds    INTEGER NOT NULL,
  error           TEXT,
  exec_count      INTEGER NOT NULL,
  expires_at      INTEGER NOT NULL, -- whatever it is doing then
  used_at         INTEGER NOT NULL, -- idle since
  ready_at        INTEGER,
  ended_at        INTEGER,
  removed_at      INTEGER, -- its files are gone
  metadata        TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL
) STRICT;
CREATE TABLE settings (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE ssh_keys (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  private_key_sealed TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  type TEXT NOT NULL,
  provider TEXT,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
) STRICT;
CREATE TABLE storage_usage (
  workspace_id TEXT NOT NULL,
  kind         TEXT NOT NULL,
  bytes        INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE trace_counts (
  workspace_id TEXT NOT NULL,
  facet        TEXT NOT NULL,
  hour         INTEGER NOT NULL,
  source       TEXT NOT NULL,
  value        TEXT NOT NULL,
  n            INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, facet, hour, source, value)
) STRICT, WITHOUT ROWID;
CREATE TABLE trace_scores (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  trace_id     TEXT NOT NULL REFERENCES traces (id) ON DELETE CASCADE,
  trace_seq    INTEGER NOT NULL,
  trace_at     INTEGER NOT NULL,
  name         TEXT NOT NULL,
  kind         TEXT NOT NULL,
  value        REAL,
  label        TEXT,
  source       TEXT NOT NULL,
  evaluator_id TEXT,
  key_id       TEXT,
  comment      TEXT,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE VIRTUAL TABLE trace_text USING fts5 (body, content = '', contentless_delete = 1);
CREATE VIRTUAL TABLE trace_words USING fts5vocab (trace_text, instance);
CREATE TABLE traces (
  seq               INTEGER PRIMARY KEY,
  id                TEXT NOT NULL UNIQUE,
  workspace_id      TEXT NOT NULL,
  source            TEXT NOT NULL,
  deployment_id     TEXT,
  job_id            TEXT,
  step              INTEGER,
  key_id            TEXT,
  model             TEXT,
  adapter           TEXT,
  agent_id          TEXT,
  agent_version     INTEGER,
  conversation_id   TEXT,
  external_id       TEXT,
  capture           TEXT NOT NULL,
  status            INTEGER NOT NULL,
  error_code        TEXT,
  started_at        INTEGER NOT NULL,
  duration_ms       REAL NOT NULL,
  ttft_ms           REAL,
  prompt_tokens     INTEGER NOT NULL,
  cached_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  created_at        INTEGER NOT NULL,
  metadata          TEXT NOT NULL,
  parameters        TEXT,
  spans             TEXT NOT NULL,
  input             TEXT,
  output            TEXT
, user TEXT, tags TEXT NOT NULL DEFAULT '[]', input_start TEXT, output_start TEXT, cost_micros REAL) STRICT;
CREATE TABLE tracker_integrations (
  workspace_id TEXT PRIMARY KEY REFERENCES workspaces (id),
  type TEXT NOT NULL,
  base_url TEXT NOT NULL,
  project TEXT NOT NULL,
  secret_name TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, metadata TEXT NOT NULL DEFAULT '{}') STRICT;
CREATE TABLE tracker_runs (
  job_id TEXT PRIMARY KEY REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL,
  type TEXT NOT NULL,
  base_url TEXT NOT NULL,
  project TEXT NOT NULL,
  secret_name TEXT,
  place TEXT, -- JSON: what the tracker calls it
  params_told INTEGER NOT NULL,
  step_told INTEGER NOT NULL, -- the last step whose metrics it has; -1: none
  points_told INTEGER NOT NULL,
  state_told TEXT, -- in our words
  told_at INTEGER,
  failures INTEGER NOT NULL, -- in a row
  refusals INTEGER NOT NULL, -- of those, answers that say the request itself is wrong
  failing_since INTEGER,
  last_error TEXT,
  next_at INTEGER, -- null: all is told, or it was given up
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE training_checkpoints (
  id           TEXT PRIMARY KEY,
  job_id       TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL,
  step         INTEGER NOT NULL,
  path         TEXT NOT NULL, -- below the data directory
  size_bytes   INTEGER NOT NULL,
  metrics      TEXT NOT NULL,
  value        REAL, -- of the headline metric
  created_at   INTEGER NOT NULL,
  deleted_at   INTEGER -- its files are gone
) STRICT;
CREATE TABLE training_events (
  id           TEXT PRIMARY KEY,
  job_id       TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL,
  level        TEXT NOT NULL,
  type         TEXT NOT NULL,
  message      TEXT NOT NULL,
  data         TEXT NOT NULL,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE TABLE training_exports (
  id            TEXT PRIMARY KEY,
  job_id        TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id  TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  variant       TEXT NOT NULL,
  quantization  TEXT NOT NULL, -- '' where there is none to choose
  status        TEXT NOT NULL, -- preparing, ready, failed
  storage_key   TEXT,
  file_name     TEXT,
  size_bytes    INTEGER,
  sha256        TEXT,
  model_id      TEXT, -- what it is in the registry
  error         TEXT,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) STRICT;
CREATE TABLE training_jobs (
  id                   TEXT PRIMARY KEY,
  workspace_id         TEXT NOT NULL REFERENCES workspaces (id),
  status               TEXT NOT NULL,
  method               TEXT NOT NULL,
  base_model           TEXT, -- as it was asked for; null for custom
  base_model_id        TEXT, -- in the registry
  output_name          TEXT NOT NULL,
  dataset_id           TEXT,
  snapshot_number      INTEGER,
  num_rows             INTEGER,
  eval_dataset_id      TEXT,
  eval_snapshot_number INTEGER,
  hyperparameters      TEXT NOT NULL, -- every resolved value
  given                TEXT, -- hyperparameters as they were asked for
  lora                 TEXT, -- null: full weights
  rewards              TEXT NOT NULL, -- what scores: references with weights, the source given with the job, and all of it as code
  gpu_type             TEXT NOT NULL,
  gpu_count            INTEGER NOT NULL,
  gpu                  TEXT, -- assigned while it runs, and the last one after
  provider             TEXT NOT NULL,
  priority             INTEGER NOT NULL,
  seed                 INTEGER NOT NULL,
  lock                 TEXT NOT NULL,
  source_job           TEXT,
  resume_from          TEXT,
  code_artifact_id     TEXT,
  command              TEXT,
  secrets              TEXT NOT NULL, -- names
  volumes              TEXT NOT NULL,
  save_steps           INTEGER NOT NULL,
  keep_last            INTEGER NOT NULL,
  max_runtime_ms       INTEGER,
  max_cost_micros      INTEGER,
  publish              INTEGER NOT NULL,
  step                 INTEGER NOT NULL, -- completed
  total_steps          INTEGER NOT NULL,
  eta_ms               INTEGER,
  latest_metrics       TEXT NOT NULL,
  best_checkpoint_id   TEXT,
  memory_bytes         INTEGER NOT NULL, -- estimated
  micro_divisor        INTEGER NOT NULL, -- micro-batches are this many times smaller than planned
  memory_retries       INTEGER NOT NULL, -- with less in a micro-batch, after memory ran out
  crashes              INTEGER NOT NULL, -- without progress in between
  crash_step           INTEGER NOT NULL, -- the furthest step at the last crash
  not_before           INTEGER NOT NULL, -- waits until then after a crash
  pause_reason         TEXT,
  queue_reason         TEXT,
  error                TEXT,
  rate_micros          INTEGER, -- per hour
  cost_micros          INTEGER NOT NULL,
  run_ms               INTEGER NOT NULL, -- of runs that have ended
  run_since            INTEGER, -- the run that goes on, since
  log_key              TEXT, -- in the storage, once it has ended
  log_bytes            INTEGER,
  metadata             TEXT NOT NULL,
  queued_at            INTEGER NOT NULL,
  started_at           INTEGER,
  completed_at         INTEGER,
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL
, cost_remainder INTEGER NOT NULL DEFAULT 0, run_until INTEGER, energy_joules INTEGER, energy_watts REAL, energy_at INTEGER, published_at INTEGER, like_count INTEGER NOT NULL DEFAULT 0, tracker_run_url TEXT, api_key_id TEXT, reading TEXT, warnings TEXT NOT NULL DEFAULT '[]', log_stdout_bytes INTEGER, details_removed_at INTEGER, start_model_id TEXT, resolver TEXT, stopped_early TEXT, region TEXT NOT NULL DEFAULT 'local', placement TEXT, hub_repo TEXT, hub_variant TEXT, hub_private INTEGER NOT NULL DEFAULT 1, hub_asked_at INTEGER, hub_repo_url TEXT, resources TEXT, network TEXT, env_names TEXT NOT NULL DEFAULT '[]', env_sealed TEXT NOT NULL DEFAULT '', tags TEXT NOT NULL DEFAULT '[]', notes TEXT NOT NULL DEFAULT '', job_group TEXT, teacher TEXT) STRICT;
CREATE TABLE training_metrics (
  job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  step   INTEGER NOT NULL,
  epoch  REAL NOT NULL,
  time   INTEGER NOT NULL,
  "values" TEXT NOT NULL,
  PRIMARY KEY (job_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE training_remote_runs (
  job_id     TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  attempt    INTEGER NOT NULL,
  region     TEXT NOT NULL,
  state      TEXT NOT NULL, -- sending, running, ended, closed
  offset     INTEGER NOT NULL, -- bytes of records.ndjson that are taken
  log_bytes  INTEGER NOT NULL,
  run_end    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, attempt)
);
CREATE TABLE training_samples (
  job_id      TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  step        INTEGER NOT NULL,
  number      INTEGER NOT NULL,
  prompt      TEXT NOT NULL, -- JSON: a string or messages
  completion  TEXT NOT NULL,
  reward      REAL,
  sub_rewards TEXT NOT NULL,
  advantage   REAL,
  tokens      INTEGER NOT NULL,
  truncated   INTEGER NOT NULL,
  error       TEXT,
  PRIMARY KEY (job_id, step, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE training_system (
  job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  time INTEGER NOT NULL,
  "values" TEXT NOT NULL,
  PRIMARY KEY (job_id, time)
) STRICT, WITHOUT ROWID;
CREATE TABLE upload_parts (
  upload_id   TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
  number      INTEGER NOT NULL,
  size_bytes  INTEGER NOT NULL,
  sha256      TEXT NOT NULL,
  storage_key TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (upload_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE uploads (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  purpose      TEXT NOT NULL,
  target_id    TEXT NOT NULL, -- a volume or a model
  group_id     TEXT, -- files that were asked for together
  path         TEXT NOT NULL,
  status       TEXT NOT NULL,
  max_bytes    INTEGER NOT NULL,
  size_bytes   INTEGER, -- as announced: these two are part of the signature
  sha256       TEXT,
  content_type TEXT,
  part_count   INTEGER, -- null: in one piece
  staging      TEXT, -- the storage's name for what is sent to it directly
  received_bytes  INTEGER,
  received_sha256 TEXT,
  expires_at   INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
, file_purpose TEXT, file_lifetime_ms INTEGER) STRICT;
CREATE TABLE usage_days (
  workspace_id      TEXT NOT NULL,
  day               INTEGER NOT NULL, -- days since 1970
  kind              TEXT NOT NULL CHECK (kind IN ('training', 'serving')),
  key_id            TEXT NOT NULL, -- empty: no key
  model             TEXT NOT NULL,
  requests          INTEGER NOT NULL DEFAULT 0,
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,
  cached_tokens     INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  jobs              INTEGER NOT NULL DEFAULT 0,
  device_ms         INTEGER NOT NULL DEFAULT 0, -- time × devices × replicas
  cost_micros       INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (workspace_id, day, kind, key_id, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_hours (
  workspace_id  TEXT NOT NULL,
  hour          INTEGER NOT NULL, -- hours since 1970
  kind          TEXT NOT NULL CHECK (kind IN ('job', 'deployment')),
  provider      TEXT NOT NULL,
  gpu_type      TEXT NOT NULL,
  jobs          INTEGER NOT NULL,
  device_ms     INTEGER NOT NULL, -- time × devices × replicas
  cost_micros   INTEGER NOT NULL,
  energy_joules INTEGER NOT NULL, -- 0 if nothing was measured
  PRIMARY KEY (workspace_id, hour, kind, provider, gpu_type)
) STRICT, WITHOUT ROWID;
CREATE TABLE users (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  person_id TEXT NOT NULL REFERENCES people (id),
  role TEXT NOT NULL,
  is_operator INTEGER NOT NULL DEFAULT 0,
  key_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  deleted_at INTEGER -- the row stays: audit entries name the person
);
CREATE TABLE volume_files (
  volume_id    TEXT NOT NULL REFERENCES volumes (id),
  path         TEXT NOT NULL,
  size_bytes   INTEGER NOT NULL,
  sha256       TEXT NOT NULL,
  content_type TEXT NOT NULL,
  storage_key  TEXT NOT NULL UNIQUE,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (volume_id, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE volumes (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name         TEXT NOT NULL,
  total_bytes  INTEGER NOT NULL,
  file_count   INTEGER NOT NULL,
  metadata     TEXT NOT NULL,
  deleted_at   INTEGER, -- the loop removes its files, then the row
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE TABLE webhook_attempts (
  delivery_id   TEXT NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
  number        INTEGER NOT NULL,
  attempted_at  INTEGER NOT NULL,
  trigger       TEXT NOT NULL,
  duration_ms   INTEGER NOT NULL,
  response_code INTEGER,
  response_body TEXT, -- at most 1 KiB
  error_code    TEXT,
  error_message TEXT,
  PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_bodies (
  event_id     TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  body         BLOB NOT NULL,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE TABLE webhook_deliveries (
  id                 TEXT PRIMARY KEY,
  endpoint_id        TEXT NOT NULL REFERENCES webhook_endpoints (id),
  workspace_id       TEXT NOT NULL,
  event_id           TEXT NOT NULL,
  event_type         TEXT NOT NULL,
  event_created_at   INTEGER NOT NULL,
  status             TEXT NOT NULL,
  trigger            TEXT NOT NULL, -- of its scheduled attempts: scheduled, test
  attempt_count      INTEGER NOT NULL,
  scheduled_count    INTEGER NOT NULL, -- attempts by hand are not of the schedule
  due_at             INTEGER, -- of the next scheduled attempt or of the expiry; null: settled
  resend_at          INTEGER, -- one attempt by hand was asked for then
  expires_at         INTEGER NOT NULL,
  last_response_code INTEGER,
  last_error         TEXT,
  created_at         INTEGER NOT NULL,
  updated_at         INTEGER NOT NULL,
  next_at            INTEGER GENERATED ALWAYS AS (coalesce(resend_at, due_at)) VIRTUAL
) STRICT;
CREATE TABLE webhook_endpoints (
  id                   TEXT PRIMARY KEY,
  workspace_id         TEXT NOT NULL REFERENCES workspaces (id),
  url                  TEXT NOT NULL,
  description          TEXT,
  event_types          TEXT NOT NULL, -- JSON; empty: all
  secrets              TEXT NOT NULL, -- sealed; empty once it is deleted
  status               TEXT NOT NULL,
  consecutive_failures INTEGER NOT NULL,
  disabled_at          INTEGER, -- by its failures, not by hand
  disabled_reason      TEXT,
  metadata             TEXT NOT NULL,
  after_seq            INTEGER NOT NULL, -- of the outbox when it was made: it gets what comes behind, whatever the clock says
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL,
  deleted_at           INTEGER -- the row stays as long as its deliveries
, scheme TEXT NOT NULL DEFAULT 'standard') STRICT;
CREATE TABLE workspaces (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL,
  payment_customer_id TEXT NOT NULL UNIQUE,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX agents_named ON agents (workspace_id, name, created_at, id);
CREATE INDEX agents_page ON agents (workspace_id, created_at, id);
CREATE UNIQUE INDEX agents_version ON agents (workspace_id, name, version);
CREATE INDEX annotation_item_sources_by_item ON annotation_item_sources (item_id);
CREATE INDEX annotation_items_appending ON annotation_items (id) WHERE status = 'appending';
CREATE INDEX annotation_items_by_queue ON annotation_items (queue_id, created_at, id);
CREATE INDEX annotation_items_by_status ON annotation_items (queue_id, status, created_at, id);
CREATE INDEX annotation_queues_by_workspace ON annotation_queues (workspace_id, created_at, id);
CREATE INDEX annotation_reservations_by_queue ON annotation_reservations (queue_id, annotator);
CREATE INDEX annotations_by_queue ON annotations (queue_id, item_id);
CREATE INDEX api_keys_page ON api_keys (workspace_id, created_at, id);
CREATE INDEX api_keys_user ON api_keys (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_log_key ON audit_log (key_id, id);
CREATE INDEX audit_log_user ON audit_log (user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX browser_sessions_page ON browser_sessions (key_id, created_at, id);
CREATE INDEX client_completions_age ON client_completions (created_at);
CREATE INDEX client_completions_workspace ON client_completions (workspace_id, created_at, id);
CREATE INDEX client_conversations_age ON client_conversations (updated_at) WHERE removed_at IS NULL;
CREATE INDEX client_conversations_removed ON client_conversations (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX client_conversations_workspace ON client_conversations (workspace_id, created_at, id)
  WHERE removed_at IS NULL;
CREATE INDEX client_files_expiry ON client_files (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX client_files_purpose ON client_files (workspace_id, purpose, created_at, id);
CREATE INDEX client_files_workspace ON client_files (workspace_id, created_at, id);
CREATE INDEX client_items_order ON client_items (conversation_id, position, id, parent_id);
CREATE INDEX client_vector_chunks_file ON client_vector_chunks (vector_file_id, id);
CREATE INDEX client_vector_chunks_store ON client_vector_chunks (store_id, id);
CREATE INDEX client_vector_files_batch ON client_vector_files (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX client_vector_files_due ON client_vector_files (workspace_id, created_at, id) WHERE status = 'in_progress';
CREATE UNIQUE INDEX client_vector_files_file ON client_vector_files (store_id, file_id) WHERE removed_at IS NULL;
CREATE INDEX client_vector_files_removed ON client_vector_files (id) WHERE removed_at IS NOT NULL;
CREATE INDEX client_vector_files_source ON client_vector_files (file_id);
CREATE INDEX client_vector_files_store ON client_vector_files (store_id, created_at, id);
CREATE INDEX client_vector_files_workspace ON client_vector_files (workspace_id, created_at, id);
CREATE INDEX client_vector_stores_removed ON client_vector_stores (id) WHERE removed_at IS NOT NULL;
CREATE INDEX client_vector_stores_workspace ON client_vector_stores (workspace_id, created_at, id);
CREATE INDEX code_artifacts_page ON code_artifacts (workspace_id, created_at, id);
CREATE INDEX conversations_newest ON conversations (workspace_id, created_at, id);
CREATE INDEX dataset_pins_by_dataset ON dataset_pins (dataset_id);
CREATE INDEX dataset_resolutions_by_dataset ON dataset_resolutions (dataset_id, created_at, id);
CREATE UNIQUE INDEX dataset_resolutions_running ON dataset_resolutions (dataset_id) WHERE status IN ('pending', 'running');
CREATE INDEX datasets_auto ON datasets (auto_snapshot_rows) WHERE auto_snapshot_rows IS NOT NULL;
CREATE UNIQUE INDEX datasets_by_content ON datasets (workspace_id, content_sha256) WHERE content_sha256 IS NOT NULL;
CREATE INDEX datasets_by_workspace ON datasets (workspace_id, created_at, id);
CREATE INDEX deployment_logs_newest ON deployment_logs (deployment_id, seq);
CREATE INDEX deployment_requests_age ON deployment_requests (created_at);
CREATE INDEX deployment_requests_page ON deployment_requests (deployment_id, created_at, id);
CREATE INDEX deployment_requests_workspace ON deployment_requests (workspace_id, created_at, status_code, latency_ms);
CREATE INDEX deployment_traffic_old ON deployment_traffic (minutes, minute);
CREATE INDEX deployments_list ON deployments (workspace_id, status, created_at, id);
CREATE INDEX deployments_model ON deployments (workspace_id, model, created_at, id);
CREATE UNIQUE INDEX deployments_name ON deployments (workspace_id, name) WHERE status NOT IN ('stopped', 'failed');
CREATE INDEX deployments_page ON deployments (workspace_id, created_at, id);
CREATE INDEX deployments_status ON deployments (status, updated_at);
CREATE INDEX deployments_up ON deployments (workspace_id) WHERE up_since IS NOT NULL;
CREATE INDEX detection_batches_old ON detection_batches (created_at);
CREATE INDEX detection_batches_unfinished ON detection_batches (workspace_id) WHERE finished_at IS NULL;
CREATE INDEX detection_items_due ON detection_items (batch_id, number) WHERE finished_at IS NULL;
CREATE UNIQUE INDEX detection_items_name ON detection_items (batch_id, name);
CREATE INDEX detections_cache ON detections (workspace_id, cache_key, created_at) WHERE cache_key IS NOT NULL;
CREATE INDEX detections_old ON detections (created_at);
CREATE INDEX detections_workspace ON detections (workspace_id);
CREATE INDEX eval_runs_eval ON eval_runs (eval_id, created_at, id);
CREATE INDEX evals_workspace ON evals (workspace_id, created_at, id);
CREATE INDEX evaluators_kind ON evaluators (workspace_id, kind, created_at, id);
CREATE INDEX evaluators_name ON evaluators (workspace_id, name, created_at, id);
CREATE INDEX evaluators_page ON evaluators (workspace_id, created_at, id);
CREATE UNIQUE INDEX evaluators_version ON evaluators (workspace_id, name, version);
CREATE INDEX events_by_type ON events (workspace_id, type, seq);
CREATE INDEX events_feed ON events (workspace_id, seq);
CREATE UNIQUE INDEX experiment_items_once ON experiment_items (experiment_id, target, row_id);
CREATE INDEX experiment_items_page ON experiment_items (experiment_id, created_at, id);
CREATE INDEX experiment_items_target ON experiment_items (experiment_id, target, created_at, id);
CREATE INDEX experiment_items_trace ON experiment_items (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX experiments_active ON experiments (created_at, id) WHERE finished_at IS NULL;
CREATE INDEX experiments_dataset ON experiments (workspace_id, dataset_id, created_at, id);
CREATE INDEX experiments_page ON experiments (workspace_id, created_at, id);
CREATE INDEX experiments_status ON experiments (workspace_id, status, created_at, id);
CREATE INDEX fine_tuning_jobs_due ON fine_tuning_jobs (id) WHERE deployment_id IS NULL AND deployment_error IS NULL;
CREATE INDEX fine_tuning_jobs_workspace ON fine_tuning_jobs (workspace_id, created_at, id);
CREATE INDEX hub_pushes_job ON hub_pushes (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX hub_pushes_list ON hub_pushes (workspace_id, created_at, id);
CREATE INDEX hub_pushes_open ON hub_pushes (workspace_id, created_at, id) WHERE completed_at IS NULL;
CREATE INDEX idempotency_age ON idempotency_keys (created_at);
CREATE INDEX inference_batch_items_due ON inference_batch_items (batch_id, number) WHERE finished_at IS NULL;
CREATE INDEX inference_batches_due ON inference_batches (created_at, id) WHERE finished_at IS NULL;
CREATE INDEX inference_batches_input ON inference_batches (input_file_id) WHERE finished_at IS NULL;
CREATE INDEX inference_batches_workspace ON inference_batches (workspace_id, created_at, id);
CREATE INDEX invitations_by ON invitations (invited_by) WHERE invited_by IS NOT NULL;
CREATE UNIQUE INDEX invitations_once ON invitations (workspace_id, email);
CREATE INDEX invitations_page ON invitations (workspace_id, created_at, id);
CREATE INDEX ledger_entries_page ON ledger_entries (workspace_id, created_at DESC, id DESC);
CREATE INDEX ledger_entries_unmerged ON ledger_entries (subject_id, created_at)
  WHERE subject_kind IN ('deployment', 'machine') AND merged_entries IS NULL;
CREATE INDEX machines_ended ON machines (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX machines_list ON machines (workspace_id, created_at, id);
CREATE INDEX machines_live ON machines (region_id, created_at) WHERE ended_at IS NULL;
CREATE INDEX models_base ON models (base_model_id) WHERE base_model_id IS NOT NULL;
CREATE INDEX models_job ON models (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX models_name ON models (coalesce(workspace_id, ''), name);
CREATE INDEX models_page ON models (workspace_id, created_at, id);
CREATE UNIQUE INDEX models_result ON models (checkpoint_id, variant) WHERE status != 'deleted';
CREATE INDEX models_to_quantize ON models (workspace_id, created_at, id) WHERE source = 'quantized' AND status = 'pending';
CREATE INDEX monitor_changes_age ON monitor_changes (created_at);
CREATE INDEX monitor_changes_page ON monitor_changes (monitor_id, created_at, id);
CREATE INDEX monitor_values_age ON monitor_values (minute);
CREATE INDEX monitors_due ON monitors (evaluated_at);
CREATE INDEX monitors_page ON monitors (workspace_id, created_at, id);
CREATE UNIQUE INDEX people_proven ON people (email) WHERE workspace_id IS NULL;
CREATE UNIQUE INDEX people_unproven ON people (email, workspace_id) WHERE workspace_id IS NOT NULL;
CREATE INDEX people_workspace ON people (workspace_id) WHERE workspace_id IS NOT NULL;
CREATE INDEX person_identities_person ON person_identities (person_id);
CREATE INDEX regions_list ON regions (workspace_id, created_at, id);
CREATE INDEX responses_age ON responses (created_at);
CREATE INDEX responses_due ON responses (created_at, id) WHERE status IN ('queued', 'in_progress');
CREATE INDEX responses_workspace ON responses (workspace_id, created_at, id);
CREATE INDEX reward_functions_kind ON reward_functions (workspace_id, kind, created_at, id);
CREATE INDEX reward_functions_name ON reward_functions (workspace_id, name, created_at, id);
CREATE INDEX reward_functions_page ON reward_functions (workspace_id, created_at, id);
CREATE UNIQUE INDEX reward_functions_version ON reward_functions (workspace_id, name, version);
CREATE INDEX rollouts_expiry ON rollouts (expires_at) WHERE status = 'open';
CREATE UNIQUE INDEX rollouts_key ON rollouts (key_hash);
CREATE INDEX rollouts_workspace ON rollouts (workspace_id, created_at, id);
CREATE INDEX secrets_page ON secrets (workspace_id, created_at, id);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE removed_at IS NOT NULL;
CREATE INDEX sessions_page ON sessions (workspace_id, created_at, id);
CREATE INDEX sessions_status ON sessions (workspace_id, status, created_at, id);
CREATE INDEX sessions_unfinished ON sessions (status) WHERE removed_at IS NULL;
CREATE INDEX ssh_keys_page ON ssh_keys (workspace_id, created_at, id);
CREATE INDEX trace_scores_newest ON trace_scores (workspace_id, name, trace_at, trace_seq, value);
CREATE INDEX trace_scores_time ON trace_scores (workspace_id, name, created_at);
CREATE INDEX trace_scores_trace ON trace_scores (trace_id, created_at);
CREATE INDEX trace_scores_value ON trace_scores (workspace_id, name, value, trace_seq);
CREATE INDEX traces_conversation ON traces (workspace_id, conversation_id, created_at) WHERE conversation_id IS NOT NULL;
CREATE INDEX traces_deployment ON traces (deployment_id, created_at);
CREATE INDEX traces_duration ON traces (workspace_id, duration_ms, created_at);
CREATE UNIQUE INDEX traces_external ON traces (workspace_id, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX traces_failed ON traces (workspace_id, created_at, seq, status, deployment_id, key_id) WHERE status >= 400;
CREATE INDEX traces_job ON traces (job_id, step) WHERE job_id IS NOT NULL;
CREATE INDEX traces_job_newest ON traces (job_id, created_at) WHERE job_id IS NOT NULL;
CREATE INDEX traces_key ON traces (key_id, created_at, seq, workspace_id, deployment_id);
CREATE INDEX traces_model ON traces (workspace_id, model, created_at) WHERE model IS NOT NULL;
CREATE INDEX traces_newest ON traces (workspace_id, created_at, seq, duration_ms);
CREATE INDEX traces_requests ON traces (workspace_id, created_at, seq) WHERE source NOT IN ('rollout', 'evaluation');
CREATE INDEX traces_source ON traces (workspace_id, source, created_at) WHERE source <> 'chat';
CREATE INDEX traces_status ON traces (workspace_id, status, created_at) WHERE status <> 200;
CREATE INDEX traces_user ON traces (workspace_id, user, created_at) WHERE user IS NOT NULL;
CREATE INDEX tracker_runs_due ON tracker_runs (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX tracker_runs_workspace ON tracker_runs (workspace_id);
CREATE INDEX training_checkpoints_page ON training_checkpoints (job_id, created_at, id);
CREATE UNIQUE INDEX training_checkpoints_step ON training_checkpoints (job_id, step) WHERE deleted_at IS NULL;
CREATE INDEX training_events_page ON training_events (job_id, created_at, id);
CREATE UNIQUE INDEX training_exports_what ON training_exports (checkpoint_id, variant, quantization);
CREATE INDEX training_jobs_at_work ON training_jobs (workspace_id, run_since) WHERE run_since IS NOT NULL;
CREATE INDEX training_jobs_by_method ON training_jobs (workspace_id, method, created_at, id);
CREATE INDEX training_jobs_by_status ON training_jobs (workspace_id, status, created_at, id);
CREATE INDEX training_jobs_dataset ON training_jobs (workspace_id, dataset_id, created_at, id);
CREATE INDEX training_jobs_interrupted ON training_jobs (workspace_id, run_ms)
  WHERE completed_at IS NULL AND run_since IS NULL AND run_ms > 0;
CREATE INDEX training_jobs_live ON training_jobs (status, priority, queued_at) WHERE completed_at IS NULL;
CREATE INDEX training_jobs_page ON training_jobs (workspace_id, created_at, id);
CREATE INDEX training_jobs_payers
  ON training_jobs (workspace_id, api_key_id, status, pause_reason, rate_micros, completed_at)
  WHERE completed_at IS NULL AND rate_micros > 0;
CREATE UNIQUE INDEX training_jobs_published ON training_jobs (published_at) WHERE published_at IS NOT NULL;
CREATE INDEX training_jobs_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at, reading, region)
  WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL;
CREATE INDEX training_jobs_reading ON training_jobs (created_at) WHERE completed_at IS NULL AND reading IS NOT NULL;
CREATE INDEX training_jobs_remote_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at, reading, region)
  WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL AND region <> 'local';
CREATE INDEX training_jobs_standing ON training_jobs (workspace_id, status) WHERE completed_at IS NULL;
CREATE INDEX training_jobs_to_push ON training_jobs (completed_at)
  WHERE hub_repo IS NOT NULL AND hub_asked_at IS NULL AND completed_at IS NOT NULL;
CREATE INDEX training_jobs_unstored ON training_jobs (completed_at)
  WHERE completed_at IS NOT NULL AND log_key IS NULL AND log_bytes IS NULL;
CREATE INDEX training_jobs_with_details ON training_jobs (completed_at)
  WHERE completed_at IS NOT NULL AND details_removed_at IS NULL;
CREATE UNIQUE INDEX training_remote_runs_one ON training_remote_runs (job_id) WHERE state <> 'closed';
CREATE INDEX training_remote_runs_open ON training_remote_runs (region, created_at) WHERE state <> 'closed';
CREATE INDEX training_samples_prompt ON training_samples (job_id, length(prompt), substr(prompt, -64), step, number);
CREATE INDEX uploads_age ON uploads (expires_at);
CREATE INDEX uploads_group ON uploads (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX uploads_live ON uploads (workspace_id, status) WHERE status IN ('open', 'receiving');
CREATE INDEX uploads_target ON uploads (target_id, created_at, id);
CREATE UNIQUE INDEX users_once ON users (person_id, workspace_id) WHERE deleted_at IS NULL;
CREATE INDEX users_page ON users (workspace_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX volume_files_content ON volume_files (sha256);
CREATE INDEX volumes_deleted ON volumes (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX volumes_name ON volumes (workspace_id, name) WHERE deleted_at IS NULL;
CREATE INDEX volumes_page ON volumes (workspace_id, created_at, id);
CREATE INDEX webhook_attempts_failed ON webhook_attempts (attempted_at)
  WHERE response_code IS NULL OR response_code >= 300;
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (endpoint_id, expires_at)
  WHERE status = 'pending' AND due_at IS NULL;
CREATE INDEX webhook_deliveries_list ON webhook_deliveries (endpoint_id, created_at, id);
CREATE INDEX webhook_deliveries_next ON webhook_deliveries (endpoint_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (created_at);
CREATE UNIQUE INDEX webhook_deliveries_once ON webhook_deliveries (event_id, endpoint_id);
CREATE INDEX webhook_endpoints_page ON webhook_endpoints (workspace_id, created_at, id);
CREATE INDEX workspaces_deleted ON workspaces (updated_at) WHERE status = 'deleted';
CREATE INDEX workspaces_living ON workspaces (created_at, id) WHERE status <> 'deleted';
CREATE INDEX workspaces_page ON workspaces (created_at, id);
CREATE TRIGGER annotation_items_sum_delete AFTER DELETE ON annotation_items BEGIN
  UPDATE annotation_sums SET n = n - 1
    WHERE queue_id = OLD.queue_id AND label = '' AND kind = 'status' AND a = OLD.status AND b = '';
END;
CREATE TRIGGER annotation_items_sum_insert AFTER INSERT ON annotation_items BEGIN
  INSERT INTO annotation_sums VALUES (NEW.queue_id, '', 'status', NEW.status, '', 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER annotation_items_sum_update AFTER UPDATE OF status ON annotation_items WHEN NEW.status <> OLD.status BEGIN
  UPDATE annotation_sums SET n = n - 1
    WHERE queue_id = OLD.queue_id AND label = '' AND kind = 'status' AND a = OLD.status AND b = '';
  INSERT INTO annotation_sums SELECT id, '', 'status', NEW.status, '', 1 FROM annotation_queues WHERE id = NEW.queue_id
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER client_completions_usage_delete AFTER DELETE ON client_completions BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(256 + octet_length(OLD.metadata) + octet_length(OLD.messages) + octet_length(OLD.completion)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_completions_usage_insert AFTER INSERT ON client_completions BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    256 + octet_length(NEW.metadata) + octet_length(NEW.messages) + octet_length(NEW.completion) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_completions_usage_update AFTER UPDATE OF metadata ON client_completions BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    (256 + octet_length(NEW.metadata) + octet_length(NEW.messages) + octet_length(NEW.completion)) - (256 + octet_length(OLD.metadata) + octet_length(OLD.messages) + octet_length(OLD.completion)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_conversations_usage_delete AFTER DELETE ON client_conversations BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(256 + coalesce(octet_length(OLD.name), 0) + octet_length(OLD.metadata)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_conversations_usage_insert AFTER INSERT ON client_conversations BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    256 + coalesce(octet_length(NEW.name), 0) + octet_length(NEW.metadata) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_conversations_usage_update AFTER UPDATE OF name, metadata ON client_conversations BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    (256 + coalesce(octet_length(NEW.name), 0) + octet_length(NEW.metadata)) - (256 + coalesce(octet_length(OLD.name), 0) + octet_length(OLD.metadata)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_files_usage_delete AFTER DELETE ON client_files BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'files', -OLD.size_bytes WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_files_usage_insert AFTER INSERT ON client_files BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'files', NEW.size_bytes WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_items_usage_delete AFTER DELETE ON client_items BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(128 + octet_length(OLD.item)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_items_usage_insert AFTER INSERT ON client_items BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    128 + octet_length(NEW.item) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_vector_chunks_usage_delete AFTER DELETE ON client_vector_chunks BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'files',
    -(128 + octet_length(OLD.text) + octet_length(OLD.vector)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_vector_chunks_usage_insert AFTER INSERT ON client_vector_chunks BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'files',
    128 + octet_length(NEW.text) + octet_length(NEW.vector) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER code_artifacts_usage_delete AFTER DELETE ON code_artifacts BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'code_artifacts', -(OLD.size_bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER code_artifacts_usage_insert AFTER INSERT ON code_artifacts BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'code_artifacts', (NEW.size_bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER code_artifacts_usage_update AFTER UPDATE OF size_bytes ON code_artifacts BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'code_artifacts', -(OLD.size_bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'code_artifacts', (NEW.size_bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER dataset_snapshots_usage_delete AFTER DELETE ON dataset_snapshots BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'datasets', -OLD.bytes FROM datasets
    WHERE id = OLD.dataset_id AND source_type <> 'upload'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER dataset_snapshots_usage_insert AFTER INSERT ON dataset_snapshots BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'datasets', NEW.bytes FROM datasets
    WHERE id = NEW.dataset_id AND source_type <> 'upload'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER datasets_usage_delete AFTER DELETE ON datasets BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'datasets', -(OLD.bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER datasets_usage_insert AFTER INSERT ON datasets BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'datasets', (NEW.bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER datasets_usage_update AFTER UPDATE OF bytes ON datasets BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'datasets', -(OLD.bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'datasets', (NEW.bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER deployments_usage_charged AFTER UPDATE OF uptime_ms ON deployments
  WHEN NEW.uptime_ms > OLD.uptime_ms BEGIN
  INSERT INTO usage_hours VALUES (NEW.workspace_id,
      (coalesce(OLD.up_since, NEW.updated_at) + NEW.uptime_ms - OLD.uptime_ms) / 3600000, 'deployment', NEW.provider,
      NEW.gpu_type, 0, CAST((NEW.uptime_ms - OLD.uptime_ms) * OLD.charged_replicas * NEW.gpu_count AS INTEGER),
      NEW.total_cost_micros - OLD.total_cost_micros, 0)
    ON CONFLICT DO UPDATE SET device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros;
END;
CREATE TRIGGER deployments_usage_of_day AFTER UPDATE OF uptime_ms ON deployments WHEN NEW.uptime_ms > OLD.uptime_ms BEGIN
  INSERT INTO usage_days (workspace_id, day, kind, key_id, model, device_ms, cost_micros)
    VALUES (NEW.workspace_id, (coalesce(OLD.up_since, NEW.updated_at) + NEW.uptime_ms - OLD.uptime_ms) / 86400000,
      'serving', coalesce(OLD.api_key_id, ''), OLD.model,
      CAST((NEW.uptime_ms - OLD.uptime_ms) * OLD.charged_replicas * NEW.gpu_count AS INTEGER),
      NEW.total_cost_micros - OLD.total_cost_micros)
    ON CONFLICT DO UPDATE SET device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros;
END;
CREATE TRIGGER ledger_entries_put_back AFTER UPDATE ON ledger_entries BEGIN
  UPDATE ledger_merge SET amount_micros = 0, usage_ms = 0;
END;
CREATE TRIGGER ledger_entries_stay BEFORE DELETE ON ledger_entries
  WHEN OLD.kind <> 'charge' OR OLD.subject_kind NOT IN ('deployment', 'machine') OR OLD.subject_kind IS NULL
    OR NOT EXISTS (SELECT 1 FROM ledger_merge)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never deleted'); END;
CREATE TRIGGER ledger_entries_stay_as_they_are BEFORE UPDATE ON ledger_entries
  WHEN (NEW.id, NEW.workspace_id, NEW.kind, NEW.subject_kind, NEW.subject_id, NEW.window_key, NEW.rate_micros,
        NEW.created_at, NEW.api_key_id)
    IS NOT (OLD.id, OLD.workspace_id, OLD.kind, OLD.subject_kind, OLD.subject_id, OLD.window_key, OLD.rate_micros,
        OLD.created_at, OLD.api_key_id)
    OR NOT EXISTS (SELECT 1 FROM ledger_merge AS m WHERE NEW.amount_micros = OLD.amount_micros + m.amount_micros
        AND NEW.usage_ms = OLD.usage_ms + m.usage_ms)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never changed'); END;
CREATE TRIGGER ledger_entries_taken_out AFTER DELETE ON ledger_entries BEGIN
  UPDATE ledger_merge SET amount_micros = amount_micros + OLD.amount_micros, usage_ms = usage_ms + OLD.usage_ms;
END;
CREATE TRIGGER ledger_merge_is_even BEFORE DELETE ON ledger_merge WHEN OLD.amount_micros <> 0 OR OLD.usage_ms <> 0
  BEGIN SELECT RAISE(ABORT, 'the merge of charges lost an amount'); END;
CREATE TRIGGER models_usage_delete AFTER DELETE ON models BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'models', -(CASE WHEN OLD.status = 'deleted' THEN 0 ELSE coalesce(OLD.size_bytes, 0) END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER models_usage_insert AFTER INSERT ON models BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'models', (CASE WHEN NEW.status = 'deleted' THEN 0 ELSE coalesce(NEW.size_bytes, 0) END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER models_usage_update AFTER UPDATE OF status, size_bytes ON models BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'models', -(CASE WHEN OLD.status = 'deleted' THEN 0 ELSE coalesce(OLD.size_bytes, 0) END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'models', (CASE WHEN NEW.status = 'deleted' THEN 0 ELSE coalesce(NEW.size_bytes, 0) END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prefix_stores_usage_delete AFTER DELETE ON prefix_stores BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'prefixes', -OLD.bytes WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prefix_stores_usage_insert AFTER INSERT ON prefix_stores BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'prefixes', NEW.bytes WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prefix_stores_usage_update AFTER UPDATE OF bytes ON prefix_stores BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'prefixes', NEW.bytes - OLD.bytes WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prefix_stores_workspace AFTER UPDATE OF status ON workspaces WHEN NEW.status = 'deleted' BEGIN
  DELETE FROM prefix_stores WHERE workspace_id = NEW.id;
END;
CREATE TRIGGER responses_usage_delete AFTER DELETE ON responses BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(octet_length(OLD.input) + octet_length(OLD.response) + coalesce(octet_length(OLD.task), 0)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER responses_usage_insert AFTER INSERT ON responses BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    octet_length(NEW.input) + octet_length(NEW.response) + coalesce(octet_length(NEW.task), 0) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER responses_usage_update AFTER UPDATE OF input, response, task ON responses BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    (octet_length(NEW.input) + octet_length(NEW.response) + coalesce(octet_length(NEW.task), 0)) - (octet_length(OLD.input) + octet_length(OLD.response) + coalesce(octet_length(OLD.task), 0)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollout_turns_usage_delete AFTER DELETE ON rollout_turns BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(512 + octet_length(OLD.settings) + octet_length(OLD.messages) + octet_length(OLD.tools) + octet_length(OLD.completion) + octet_length(OLD.prompt_ids) + octet_length(OLD.token_ids) + octet_length(OLD.logprobs)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollout_turns_usage_insert AFTER INSERT ON rollout_turns BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    512 + octet_length(NEW.settings) + octet_length(NEW.messages) + octet_length(NEW.tools) + octet_length(NEW.completion) + octet_length(NEW.prompt_ids) + octet_length(NEW.token_ids) + octet_length(NEW.logprobs) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollouts_usage_delete AFTER DELETE ON rollouts BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(512 + octet_length(OLD.sampling) + octet_length(OLD.metadata) + coalesce(octet_length(OLD.metrics), 0)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollouts_usage_insert AFTER INSERT ON rollouts BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    512 + octet_length(NEW.sampling) + octet_length(NEW.metadata) + coalesce(octet_length(NEW.metrics), 0) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollouts_usage_update AFTER UPDATE OF metrics ON rollouts BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    coalesce(octet_length(NEW.metrics), 0) - coalesce(octet_length(OLD.metrics), 0) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_checkpoints_usage_delete AFTER DELETE ON training_checkpoints BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.size_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_checkpoints_usage_insert AFTER INSERT ON training_checkpoints BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.size_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_checkpoints_usage_update AFTER UPDATE OF deleted_at, size_bytes ON training_checkpoints BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.size_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.size_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_exports_usage_delete AFTER DELETE ON training_exports BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(coalesce(OLD.size_bytes, 0)) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_exports_usage_insert AFTER INSERT ON training_exports BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (coalesce(NEW.size_bytes, 0)) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_exports_usage_update AFTER UPDATE OF size_bytes ON training_exports BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(coalesce(OLD.size_bytes, 0)) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (coalesce(NEW.size_bytes, 0)) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_jobs_usage_ended AFTER UPDATE OF completed_at, run_ms, cost_micros, energy_joules ON training_jobs
  WHEN NEW.completed_at IS NOT NULL AND NEW.run_ms > 0 BEGIN
  INSERT INTO usage_hours
    SELECT NEW.workspace_id, NEW.completed_at / 3600000, 'job', NEW.provider, NEW.gpu_type, 1 - counted,
           CAST((NEW.run_ms - counted * OLD.run_ms) * NEW.gpu_count AS INTEGER), NEW.cost_micros - counted * OLD.cost_micros,
           coalesce(NEW.energy_joules, 0) - counted * coalesce(OLD.energy_joules, 0)
    FROM (SELECT OLD.completed_at IS NOT NULL AND OLD.run_ms > 0 AS counted) WHERE true
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros, energy_joules = energy_joules + excluded.energy_joules;
END;
CREATE TRIGGER training_jobs_usage_of_day AFTER UPDATE OF completed_at, run_ms, cost_micros ON training_jobs
  WHEN NEW.completed_at IS NOT NULL AND NEW.run_ms > 0 BEGIN
  INSERT INTO usage_days (workspace_id, day, kind, key_id, model, jobs, device_ms, cost_micros)
    SELECT NEW.workspace_id, NEW.completed_at / 86400000, 'training', coalesce(NEW.api_key_id, ''),
           coalesce(NEW.base_model, ''), 1 - counted,
           CAST((NEW.run_ms - counted * OLD.run_ms) * NEW.gpu_count AS INTEGER), NEW.cost_micros - counted * OLD.cost_micros
    FROM (SELECT OLD.completed_at IS NOT NULL AND OLD.run_ms > 0 AS counted) WHERE true
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros;
END;
CREATE TRIGGER upload_parts_usage_delete AFTER DELETE ON upload_parts BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'files', -OLD.size_bytes FROM uploads
    WHERE id = OLD.upload_id AND purpose = 'file'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER upload_parts_usage_insert AFTER INSERT ON upload_parts BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'files', NEW.size_bytes FROM uploads
    WHERE id = NEW.upload_id AND purpose = 'file'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER users_of_unproven_people BEFORE INSERT ON users WHEN EXISTS (
  SELECT 1 FROM people WHERE id = NEW.person_id AND (workspace_id <> NEW.workspace_id OR (workspace_id IS NOT NULL AND NEW.is_operator))
) BEGIN SELECT RAISE(ABORT, 'an unproven person has one workspace and is no operator'); END;
CREATE TRIGGER users_of_unproven_people_stay BEFORE UPDATE OF person_id, workspace_id, is_operator ON users WHEN EXISTS (
  SELECT 1 FROM people WHERE id = NEW.person_id AND (workspace_id <> NEW.workspace_id OR (workspace_id IS NOT NULL AND NEW.is_operator))
) BEGIN SELECT RAISE(ABORT, 'an unproven person has one workspace and is no operator'); END;
CREATE TRIGGER volumes_usage_delete AFTER DELETE ON volumes BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'volumes', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.total_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER volumes_usage_insert AFTER INSERT ON volumes BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'volumes', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.total_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER volumes_usage_update AFTER UPDATE OF deleted_at, total_bytes ON volumes BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'volumes', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.total_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'volumes', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.total_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
