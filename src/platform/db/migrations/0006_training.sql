-- Training jobs, and what each leaves behind: checkpoints, metrics, samples, events, files to download. What was spent.

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
) STRICT;
CREATE INDEX training_jobs_page ON training_jobs (workspace_id, created_at, id);
CREATE INDEX training_jobs_live ON training_jobs (status, priority, queued_at) WHERE completed_at IS NULL;
CREATE INDEX training_jobs_unstored ON training_jobs (completed_at) WHERE completed_at IS NOT NULL AND log_key IS NULL;

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
CREATE UNIQUE INDEX training_checkpoints_step ON training_checkpoints (job_id, step) WHERE deleted_at IS NULL;
CREATE INDEX training_checkpoints_page ON training_checkpoints (job_id, created_at, id);

CREATE TABLE training_metrics (
  job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  step   INTEGER NOT NULL,
  epoch  REAL NOT NULL,
  time   INTEGER NOT NULL,
  "values" TEXT NOT NULL,
  PRIMARY KEY (job_id, step)
) STRICT, WITHOUT ROWID;

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
CREATE INDEX training_events_page ON training_events (job_id, created_at, id);

-- Files made of a checkpoint: adapter, merged, quantized, PEFT; or what a custom job left behind.
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
CREATE UNIQUE INDEX training_exports_what ON training_exports (checkpoint_id, variant, quantization);

-- What a workspace has spent, whatever became of the things it was spent on.
CREATE TABLE billing_accounts (
  workspace_id TEXT PRIMARY KEY REFERENCES workspaces (id),
  spent_micros INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
INSERT INTO billing_accounts
  SELECT workspace_id, SUM(total_cost_micros), MAX(updated_at) FROM deployments GROUP BY workspace_id;

-- Models that a job made: of which checkpoint, and what of it. An adapter needs its base.
ALTER TABLE models ADD COLUMN base_model_id TEXT;
ALTER TABLE models ADD COLUMN checkpoint_id TEXT;
ALTER TABLE models ADD COLUMN checkpoint_step INTEGER;
ALTER TABLE models ADD COLUMN variant TEXT;
CREATE UNIQUE INDEX models_result ON models (checkpoint_id, variant) WHERE status != 'deleted';
CREATE INDEX models_base ON models (base_model_id) WHERE base_model_id IS NOT NULL;
