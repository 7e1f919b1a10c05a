-- Beginnings of prompts that replicas keep on the disk: a folder and a key for each workspace. Without the key nothing in
-- the folder can be read.
CREATE TABLE prefix_stores (
  workspace_id TEXT NOT NULL PRIMARY KEY REFERENCES workspaces (id),
  key_sealed   TEXT NOT NULL,
  bytes        INTEGER NOT NULL, -- in the folder, as far as replicas have reported it
  created_at   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER prefix_stores_usage_insert AFTER INSERT ON prefix_stores BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'prefixes', NEW.bytes WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prefix_stores_usage_update AFTER UPDATE OF bytes ON prefix_stores BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'prefixes', NEW.bytes - OLD.bytes WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER prefix_stores_usage_delete AFTER DELETE ON prefix_stores BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'prefixes', -OLD.bytes WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- The key goes in the commit that deletes the workspace.
CREATE TRIGGER prefix_stores_workspace AFTER UPDATE OF status ON workspaces WHEN NEW.status = 'deleted' BEGIN
  DELETE FROM prefix_stores WHERE workspace_id = NEW.id;
END;
