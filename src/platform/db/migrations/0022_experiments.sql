-- Experiments: the rows of a dataset snapshot, answered by several targets and scored by several evaluators. An item is
-- due until its result is written. No foreign keys from items: they are deleted gradually after their experiment.

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
CREATE INDEX experiments_page ON experiments (workspace_id, created_at, id);
CREATE INDEX experiments_status ON experiments (workspace_id, status, created_at, id);
CREATE INDEX experiments_dataset ON experiments (workspace_id, dataset_id, created_at, id);
CREATE INDEX experiments_active ON experiments (created_at, id) WHERE finished_at IS NULL;

-- The deployments, training jobs and evaluators of an experiment, so that it can be found by each of them.
CREATE TABLE experiment_links (
  linked_id     TEXT NOT NULL,
  experiment_id TEXT NOT NULL,
  PRIMARY KEY (linked_id, experiment_id)
) STRICT, WITHOUT ROWID;

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
) STRICT;
CREATE UNIQUE INDEX experiment_items_once ON experiment_items (experiment_id, target, row_id);
CREATE INDEX experiment_items_page ON experiment_items (experiment_id, created_at, id);
CREATE INDEX experiment_items_target ON experiment_items (experiment_id, target, created_at, id);

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

-- Jobs are found by their dataset, deployments by their training job or model.
CREATE INDEX training_jobs_dataset ON training_jobs (workspace_id, dataset_id, created_at, id);
CREATE INDEX deployments_model ON deployments (workspace_id, model, created_at, id);
