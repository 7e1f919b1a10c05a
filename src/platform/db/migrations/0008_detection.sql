-- Whether images and clips were generated: what each workspace has set and used, what was found, and batches. The rows
-- of a batch are its queue: an item is due until its end is written down, in one commit with what it cost.

-- Endpoints of the other interface: signed another way, and not listed among the platform's.
ALTER TABLE webhook_endpoints ADD COLUMN scheme TEXT NOT NULL DEFAULT 'standard';

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
) STRICT;

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
) STRICT;
CREATE INDEX detections_cache ON detections (workspace_id, cache_key, created_at) WHERE cache_key IS NOT NULL;
CREATE INDEX detections_old ON detections (created_at);
CREATE INDEX detections_workspace ON detections (workspace_id);

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
) STRICT;
CREATE INDEX detection_batches_unfinished ON detection_batches (workspace_id) WHERE finished_at IS NULL;
CREATE INDEX detection_batches_old ON detection_batches (created_at);

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
CREATE UNIQUE INDEX detection_items_name ON detection_items (batch_id, name);
CREATE INDEX detection_items_due ON detection_items (batch_id, number) WHERE finished_at IS NULL;
