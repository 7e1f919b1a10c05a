ALTER TABLE deployments ADD COLUMN capture TEXT NOT NULL DEFAULT 'none';
ALTER TABLE deployments ADD COLUMN capture_retention_days INTEGER NOT NULL DEFAULT 30;
ALTER TABLE deployments ADD COLUMN capture_redact TEXT NOT NULL DEFAULT '[]';

-- `seq` orders traces of the same millisecond and is the row id of the full text. The columns that filters read come
-- before the long ones, so that a scan does not read content.
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
) STRICT;
CREATE INDEX traces_newest ON traces (workspace_id, created_at, seq, duration_ms);
CREATE INDEX traces_deployment ON traces (deployment_id, created_at);
CREATE INDEX traces_key ON traces (key_id, created_at, seq, workspace_id, deployment_id);
CREATE INDEX traces_duration ON traces (workspace_id, duration_ms, created_at);
CREATE INDEX traces_failed ON traces (workspace_id, created_at, seq, status, deployment_id, key_id) WHERE status >= 400;
CREATE INDEX traces_status ON traces (workspace_id, status, created_at) WHERE status <> 200;
CREATE INDEX traces_source ON traces (workspace_id, source, created_at) WHERE source <> 'chat';
CREATE INDEX traces_job ON traces (job_id, step) WHERE job_id IS NOT NULL;
CREATE INDEX traces_conversation ON traces (workspace_id, conversation_id, created_at) WHERE conversation_id IS NOT NULL;
CREATE UNIQUE INDEX traces_external ON traces (workspace_id, external_id) WHERE external_id IS NOT NULL;

-- The words of captured content. The texts themselves are in `traces`.
CREATE VIRTUAL TABLE trace_text USING fts5 (workspace, body, content = '', contentless_delete = 1);
INSERT INTO trace_text (trace_text, rank) VALUES ('automerge', 16); -- rarer merges: inserts cost a sixth less

-- `trace_seq` and `trace_at` are the place of its trace in lists: a filter by score reads its pages from an index.
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
CREATE INDEX trace_scores_trace ON trace_scores (trace_id, created_at);
CREATE INDEX trace_scores_value ON trace_scores (workspace_id, name, value, trace_seq);
CREATE INDEX trace_scores_newest ON trace_scores (workspace_id, name, trace_at, trace_seq, value);

-- `id` is the text of the client. The sums are those of its traces: one that has no trace left is removed.
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
CREATE INDEX conversations_newest ON conversations (workspace_id, created_at, id);
