-- Files in the format of OpenAI: inputs and results of batches, fine-tuning and evals.
CREATE TABLE client_files (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  filename TEXT NOT NULL,
  purpose TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  storage_key TEXT NOT NULL,
  expires_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX client_files_workspace ON client_files (workspace_id, created_at, id);
CREATE INDEX client_files_purpose ON client_files (workspace_id, purpose, created_at, id);
CREATE INDEX client_files_expiry ON client_files (expires_at) WHERE expires_at IS NOT NULL;

CREATE TRIGGER client_files_usage_insert AFTER INSERT ON client_files BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'files', NEW.size_bytes WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER client_files_usage_delete AFTER DELETE ON client_files BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'files', -OLD.size_bytes WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
