-- Every column that decides the order of the queue, so that the order is found without reading the jobs themselves.
-- The columns of the condition are in it too: SQLite would read the rows for them.
CREATE INDEX training_jobs_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at)
  WHERE completed_at IS NULL AND status = 'queued';

-- Unfinished jobs that cost something, by the workspace that pays.
CREATE INDEX training_jobs_payers ON training_jobs (workspace_id, status, pause_reason, rate_micros, completed_at)
  WHERE completed_at IS NULL AND rate_micros > 0;

-- Lists of workspaces do not walk over those that were deleted.
CREATE INDEX workspaces_living ON workspaces (created_at, id) WHERE status <> 'deleted';
