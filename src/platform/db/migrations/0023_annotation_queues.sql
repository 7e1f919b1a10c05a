-- Annotation queues: people label single outputs or choose between two.

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
) STRICT;
CREATE INDEX annotation_queues_by_workspace ON annotation_queues (workspace_id, created_at, id);

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
CREATE INDEX annotation_items_by_queue ON annotation_items (queue_id, created_at, id);
CREATE INDEX annotation_items_by_status ON annotation_items (queue_id, status, created_at, id);
CREATE INDEX annotation_items_appending ON annotation_items (id) WHERE status = 'appending';

-- From a trace or an item of an experiment to the annotation items with its content.
CREATE TABLE annotation_item_sources (
  source_id TEXT NOT NULL,
  item_id   TEXT NOT NULL REFERENCES annotation_items (id) ON DELETE CASCADE,
  PRIMARY KEY (source_id, item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX annotation_item_sources_by_item ON annotation_item_sources (item_id);

-- One for each annotator of an item.
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
CREATE INDEX annotations_by_queue ON annotations (queue_id, item_id);

CREATE TABLE annotation_reservations (
  item_id    TEXT NOT NULL REFERENCES annotation_items (id) ON DELETE CASCADE,
  annotator  TEXT NOT NULL,
  queue_id   TEXT NOT NULL,
  lease_ms   INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, -- counts after a restart only: a running server measures the lease by its steady clock
  PRIMARY KEY (item_id, annotator)
) STRICT, WITHOUT ROWID;
CREATE INDEX annotation_reservations_by_queue ON annotation_reservations (queue_id, annotator);
