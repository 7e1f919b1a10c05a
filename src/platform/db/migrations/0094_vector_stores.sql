-- Vector stores in the format of OpenAI: files, split into chunks with an embedding each. Chunks count for the quota of files.
CREATE TABLE client_vector_stores (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  metadata TEXT NOT NULL,
  embedding_model TEXT NOT NULL,
  dimensions INTEGER,
  expires_days INTEGER,
  used_at INTEGER NOT NULL,
  removed_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX client_vector_stores_workspace ON client_vector_stores (workspace_id, created_at, id);
CREATE INDEX client_vector_stores_removed ON client_vector_stores (id) WHERE removed_at IS NOT NULL;

-- position: where in the text the next chunk begins. A file that is in progress goes on from there.
CREATE TABLE client_vector_files (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  store_id TEXT NOT NULL REFERENCES client_vector_stores (id),
  file_id TEXT NOT NULL,
  batch_id TEXT,
  status TEXT NOT NULL,
  error TEXT,
  attributes TEXT,
  max_tokens INTEGER NOT NULL,
  overlap_tokens INTEGER NOT NULL,
  position INTEGER NOT NULL,
  chunk_count INTEGER NOT NULL,
  usage_bytes INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  not_before INTEGER,
  removed_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX client_vector_files_file ON client_vector_files (store_id, file_id) WHERE removed_at IS NULL;
CREATE INDEX client_vector_files_workspace ON client_vector_files (workspace_id, created_at, id);
CREATE INDEX client_vector_files_store ON client_vector_files (store_id, created_at, id);
CREATE INDEX client_vector_files_due ON client_vector_files (workspace_id, created_at, id) WHERE status = 'in_progress';
CREATE INDEX client_vector_files_source ON client_vector_files (file_id);
CREATE INDEX client_vector_files_batch ON client_vector_files (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX client_vector_files_removed ON client_vector_files (id) WHERE removed_at IS NOT NULL;

-- vector: 32-bit floats of length 1.
CREATE TABLE client_vector_chunks (
  id INTEGER PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  store_id TEXT NOT NULL REFERENCES client_vector_stores (id),
  vector_file_id TEXT NOT NULL REFERENCES client_vector_files (id),
  vector BLOB NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE INDEX client_vector_chunks_store ON client_vector_chunks (store_id, id);
CREATE INDEX client_vector_chunks_file ON client_vector_chunks (vector_file_id, id);

CREATE TRIGGER client_vector_chunks_usage_insert AFTER INSERT ON client_vector_chunks BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'files',
    128 + octet_length(NEW.text) + octet_length(NEW.vector) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_vector_chunks_usage_delete AFTER DELETE ON client_vector_chunks BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'files',
    -(128 + octet_length(OLD.text) + octet_length(OLD.vector)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
