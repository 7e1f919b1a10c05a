-- A threshold over a metric. `state` is what the next judgement needs (see resources/monitors/policy.ts).
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
CREATE INDEX monitors_page ON monitors (workspace_id, created_at, id);
CREATE INDEX monitors_due ON monitors (evaluated_at);

-- Changes of severity. The id is that of the event, if there is one.
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
CREATE INDEX monitor_changes_page ON monitor_changes (monitor_id, created_at, id);
CREATE INDEX monitor_changes_age ON monitor_changes (created_at);

-- Scores of a window, for monitors.
CREATE INDEX trace_scores_time ON trace_scores (workspace_id, name, created_at);

-- Failed attempts by time. Attempts that succeed are not in the index, so they cost nothing.
CREATE INDEX webhook_attempts_failed ON webhook_attempts (attempted_at)
  WHERE response_code IS NULL OR response_code >= 300;

-- Each version is a row. A deleted version keeps only its name and number.
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
) STRICT;
CREATE UNIQUE INDEX agents_version ON agents (workspace_id, name, version);
CREATE INDEX agents_page ON agents (workspace_id, created_at, id);
CREATE INDEX agents_named ON agents (workspace_id, name, created_at, id);
