-- Machines of a workspace where jobs can run, beside this one. `info` is what the node last said of itself.
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
  updated_at   INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
);
CREATE INDEX regions_list ON regions (workspace_id, created_at, id);
