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
