-- Files: volumes, what is on its way into them or into the registry of models, and code artifacts. The bytes lie in
-- the storage (or, of models, in the models folder); each key of the storage has exactly one owner: a row of
-- volume_files, upload_parts or code_artifacts, or one of loose_keys.

CREATE TABLE volumes (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name         TEXT NOT NULL,
  total_bytes  INTEGER NOT NULL,
  file_count   INTEGER NOT NULL,
  metadata     TEXT NOT NULL,
  deleted_at   INTEGER, -- the loop removes its files, then the row
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX volumes_name ON volumes (workspace_id, name) WHERE deleted_at IS NULL;
CREATE INDEX volumes_page ON volumes (workspace_id, created_at, id);
CREATE INDEX volumes_deleted ON volumes (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE volume_files (
  volume_id    TEXT NOT NULL REFERENCES volumes (id),
  path         TEXT NOT NULL,
  size_bytes   INTEGER NOT NULL,
  sha256       TEXT NOT NULL,
  content_type TEXT NOT NULL,
  storage_key  TEXT NOT NULL UNIQUE,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (volume_id, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX volume_files_content ON volume_files (sha256);

-- A signed address to send one file to.
CREATE TABLE uploads (
  id           TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  purpose      TEXT NOT NULL,
  target_id    TEXT NOT NULL, -- a volume or a model
  group_id     TEXT, -- files that were asked for together
  path         TEXT NOT NULL,
  status       TEXT NOT NULL,
  max_bytes    INTEGER NOT NULL,
  size_bytes   INTEGER, -- as announced: these two are part of the signature
  sha256       TEXT,
  content_type TEXT,
  part_count   INTEGER, -- null: in one piece
  staging      TEXT, -- the storage's name for what is sent to it directly
  received_bytes  INTEGER,
  received_sha256 TEXT,
  expires_at   INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX uploads_live ON uploads (workspace_id, status) WHERE status IN ('open', 'receiving');
CREATE INDEX uploads_target ON uploads (target_id, created_at, id);
CREATE INDEX uploads_group ON uploads (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX uploads_age ON uploads (expires_at);

CREATE TABLE upload_parts (
  upload_id   TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
  number      INTEGER NOT NULL,
  size_bytes  INTEGER NOT NULL,
  sha256      TEXT NOT NULL,
  storage_key TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (upload_id, number)
) STRICT, WITHOUT ROWID;

-- Keys that nobody owns: about to be written, or to be removed. A key is written down here before its first byte, so
-- that a kill leaves nothing in the storage that no row knows.
CREATE TABLE loose_keys (
  key        TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE code_artifacts (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL REFERENCES workspaces (id),
  name           TEXT NOT NULL,
  format         TEXT NOT NULL,
  sha256         TEXT NOT NULL,
  size_bytes     INTEGER NOT NULL,
  file_count     INTEGER NOT NULL,
  unpacked_bytes INTEGER NOT NULL,
  storage_key    TEXT NOT NULL UNIQUE,
  metadata       TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  UNIQUE (workspace_id, sha256)
) STRICT;
CREATE INDEX code_artifacts_page ON code_artifacts (workspace_id, created_at, id);
