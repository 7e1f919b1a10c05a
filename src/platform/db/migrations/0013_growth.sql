-- Every column that decides the order of the queue, so that the order is found without reading the jobs themselves.
-- The columns of the condition are in it too: SQLite would read the rows for them.
CREATE INDEX training_jobs_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at)
  WHERE completed_at IS NULL AND status = 'queued';

-- Lists of workspaces do not walk over those that were deleted.
CREATE INDEX workspaces_living ON workspaces (created_at, id) WHERE status <> 'deleted';

-- Budgets of API keys. `budget_key_id`: the key whose budget this one shares, because that key made it.
ALTER TABLE api_keys ADD COLUMN budget_key_id TEXT;
-- The key that caused it to run: whose budget it takes from. Null: from before keys were written down.
ALTER TABLE training_jobs ADD COLUMN api_key_id TEXT;
ALTER TABLE deployments ADD COLUMN api_key_id TEXT;
ALTER TABLE ledger_entries ADD COLUMN api_key_id TEXT;
CREATE TABLE api_key_spending (
  key_id       TEXT NOT NULL REFERENCES api_keys (id),
  month        TEXT NOT NULL, -- of UTC, such as 2026-01
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  spent_micros INTEGER NOT NULL, -- by this key and by the keys that share its budget
  updated_at   INTEGER NOT NULL,
  PRIMARY KEY (key_id, month)
) STRICT, WITHOUT ROWID;

-- Unfinished jobs that cost something, by the workspace and the key that pay.
CREATE INDEX training_jobs_payers
  ON training_jobs (workspace_id, api_key_id, status, pause_reason, rate_micros, completed_at)
  WHERE completed_at IS NULL AND rate_micros > 0;

-- What each workspace keeps, in bytes. Triggers keep the sums, so that no way in or out of a table is forgotten.
CREATE TABLE storage_usage (
  workspace_id TEXT NOT NULL,
  kind         TEXT NOT NULL,
  bytes        INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO storage_usage
  SELECT workspace_id, kind, sum(bytes) FROM (
    SELECT workspace_id, 'datasets' AS kind, bytes FROM datasets
    UNION ALL SELECT d.workspace_id, 'datasets', s.bytes FROM dataset_snapshots AS s JOIN datasets AS d ON d.id = s.dataset_id
      WHERE d.source_type <> 'upload'
    UNION ALL SELECT workspace_id, 'models', coalesce(size_bytes, 0) FROM models
      WHERE workspace_id IS NOT NULL AND status <> 'deleted'
    UNION ALL SELECT workspace_id, 'code_artifacts', size_bytes FROM code_artifacts
    UNION ALL SELECT workspace_id, 'checkpoints', size_bytes FROM training_checkpoints WHERE deleted_at IS NULL
    UNION ALL SELECT workspace_id, 'checkpoints', coalesce(size_bytes, 0) FROM training_exports
    UNION ALL SELECT workspace_id, 'volumes', total_bytes FROM volumes WHERE deleted_at IS NULL
  ) GROUP BY workspace_id, kind;

CREATE TRIGGER datasets_usage_insert AFTER INSERT ON datasets BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'datasets', (NEW.bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER datasets_usage_update AFTER UPDATE OF bytes ON datasets BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'datasets', -(OLD.bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'datasets', (NEW.bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER datasets_usage_delete AFTER DELETE ON datasets BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'datasets', -(OLD.bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

-- A snapshot of a connected source has a file of its own; one of a stream is a place in the stream's file.
CREATE TRIGGER dataset_snapshots_usage_insert AFTER INSERT ON dataset_snapshots BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'datasets', NEW.bytes FROM datasets
    WHERE id = NEW.dataset_id AND source_type <> 'upload'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER dataset_snapshots_usage_delete AFTER DELETE ON dataset_snapshots BEGIN
  INSERT INTO storage_usage SELECT workspace_id, 'datasets', -OLD.bytes FROM datasets
    WHERE id = OLD.dataset_id AND source_type <> 'upload'
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER models_usage_insert AFTER INSERT ON models BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'models', (CASE WHEN NEW.status = 'deleted' THEN 0 ELSE coalesce(NEW.size_bytes, 0) END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER models_usage_update AFTER UPDATE OF status, size_bytes ON models BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'models', -(CASE WHEN OLD.status = 'deleted' THEN 0 ELSE coalesce(OLD.size_bytes, 0) END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'models', (CASE WHEN NEW.status = 'deleted' THEN 0 ELSE coalesce(NEW.size_bytes, 0) END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER models_usage_delete AFTER DELETE ON models BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'models', -(CASE WHEN OLD.status = 'deleted' THEN 0 ELSE coalesce(OLD.size_bytes, 0) END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER code_artifacts_usage_insert AFTER INSERT ON code_artifacts BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'code_artifacts', (NEW.size_bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER code_artifacts_usage_update AFTER UPDATE OF size_bytes ON code_artifacts BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'code_artifacts', -(OLD.size_bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'code_artifacts', (NEW.size_bytes) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER code_artifacts_usage_delete AFTER DELETE ON code_artifacts BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'code_artifacts', -(OLD.size_bytes) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER training_checkpoints_usage_insert AFTER INSERT ON training_checkpoints BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.size_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_checkpoints_usage_update AFTER UPDATE OF deleted_at, size_bytes ON training_checkpoints BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.size_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.size_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_checkpoints_usage_delete AFTER DELETE ON training_checkpoints BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.size_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER training_exports_usage_insert AFTER INSERT ON training_exports BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (coalesce(NEW.size_bytes, 0)) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_exports_usage_update AFTER UPDATE OF size_bytes ON training_exports BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(coalesce(OLD.size_bytes, 0)) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'checkpoints', (coalesce(NEW.size_bytes, 0)) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER training_exports_usage_delete AFTER DELETE ON training_exports BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'checkpoints', -(coalesce(OLD.size_bytes, 0)) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER volumes_usage_insert AFTER INSERT ON volumes BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'volumes', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.total_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER volumes_usage_update AFTER UPDATE OF deleted_at, total_bytes ON volumes BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'volumes', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.total_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'volumes', (CASE WHEN NEW.deleted_at IS NULL THEN NEW.total_bytes ELSE 0 END) WHERE NEW.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER volumes_usage_delete AFTER DELETE ON volumes BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'volumes', -(CASE WHEN OLD.deleted_at IS NULL THEN OLD.total_bytes ELSE 0 END) WHERE OLD.workspace_id IS NOT NULL
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
