-- What a job must still read from connected datasets before it can start. Null: nothing.
ALTER TABLE training_jobs ADD COLUMN reading TEXT;
-- What the request had and the job ignores.
ALTER TABLE training_jobs ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
-- The stored log is standard output, then standard error. Null: a log of an older version, with both mixed.
ALTER TABLE training_jobs ADD COLUMN log_stdout_bytes INTEGER;

-- An empty log has no key, and 0 bytes.
DROP INDEX training_jobs_unstored;
CREATE INDEX training_jobs_unstored ON training_jobs (completed_at)
  WHERE completed_at IS NOT NULL AND log_key IS NULL AND log_bytes IS NULL;

-- Jobs that still read their dataset do not wait in the queue.
DROP INDEX training_jobs_queue;
CREATE INDEX training_jobs_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at, reading)
  WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL;
CREATE INDEX training_jobs_reading ON training_jobs (created_at) WHERE completed_at IS NULL AND reading IS NOT NULL;

-- Lists of one status do not walk over the jobs of the others.
CREATE INDEX training_jobs_by_status ON training_jobs (workspace_id, status, created_at, id);
