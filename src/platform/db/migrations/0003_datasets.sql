-- Datasets. The rows themselves lie in a file of their own for each dataset, datasets/<id>.db below the data
-- directory; what counts is up to head_row, whatever that file holds beyond it.

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
) STRICT;
CREATE INDEX datasets_by_workspace ON datasets (workspace_id, created_at, id);
CREATE UNIQUE INDEX datasets_by_content ON datasets (workspace_id, content_sha256) WHERE content_sha256 IS NOT NULL;
CREATE INDEX datasets_auto ON datasets (auto_snapshot_rows) WHERE auto_snapshot_rows IS NOT NULL;

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

-- What may not be deleted: a live job reads it.
CREATE TABLE dataset_pins (
  job_id     TEXT NOT NULL,
  dataset_id TEXT NOT NULL REFERENCES datasets (id),
  number     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, dataset_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dataset_pins_by_dataset ON dataset_pins (dataset_id);

-- A reading of a connected source. Its credentials are in memory alone.
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
CREATE INDEX dataset_resolutions_by_dataset ON dataset_resolutions (dataset_id, created_at, id);
CREATE UNIQUE INDEX dataset_resolutions_running ON dataset_resolutions (dataset_id) WHERE status IN ('pending', 'running');
