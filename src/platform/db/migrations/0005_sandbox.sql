-- Other people's code: reward functions, whose every version is a row, and session sandboxes.

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
) STRICT;
CREATE UNIQUE INDEX reward_functions_version ON reward_functions (workspace_id, name, version);
CREATE INDEX reward_functions_page ON reward_functions (workspace_id, created_at, id);

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
CREATE INDEX sessions_page ON sessions (workspace_id, created_at, id);
CREATE INDEX sessions_unfinished ON sessions (status) WHERE removed_at IS NULL;
