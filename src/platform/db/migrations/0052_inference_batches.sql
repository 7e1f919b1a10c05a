-- Batches of inference requests, in the format of OpenAI. An item is due until finished_at is set.
CREATE TABLE inference_batches (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  key_id TEXT,
  status TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  input_file_id TEXT NOT NULL,
  input_key TEXT NOT NULL,
  metadata TEXT,
  errors TEXT,
  total INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  output_file_id TEXT,
  error_file_id TEXT,
  expires_at INTEGER NOT NULL,
  in_progress_at INTEGER,
  finalizing_at INTEGER,
  cancelling_at INTEGER,
  finished_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX inference_batches_workspace ON inference_batches (workspace_id, created_at, id);
CREATE INDEX inference_batches_due ON inference_batches (created_at, id) WHERE finished_at IS NULL;
CREATE INDEX inference_batches_input ON inference_batches (input_file_id) WHERE finished_at IS NULL;

CREATE TABLE inference_batch_items (
  batch_id TEXT NOT NULL REFERENCES inference_batches (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  custom_id TEXT NOT NULL,
  byte_offset INTEGER NOT NULL,
  byte_length INTEGER NOT NULL,
  result TEXT,
  failed INTEGER NOT NULL DEFAULT 0,
  finished_at INTEGER,
  PRIMARY KEY (batch_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX inference_batch_items_due ON inference_batch_items (batch_id, number) WHERE finished_at IS NULL;
