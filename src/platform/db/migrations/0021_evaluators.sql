-- Evaluators score answers. Every version is a row.

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
CREATE UNIQUE INDEX evaluators_version ON evaluators (workspace_id, name, version);
CREATE INDEX evaluators_page ON evaluators (workspace_id, created_at, id);
CREATE INDEX evaluators_name ON evaluators (workspace_id, name, created_at, id);
CREATE INDEX evaluators_kind ON evaluators (workspace_id, kind, created_at, id);
