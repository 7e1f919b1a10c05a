-- Where a job runs, and the sentence that says why it runs there.
ALTER TABLE training_jobs ADD COLUMN region TEXT NOT NULL DEFAULT 'local';
ALTER TABLE training_jobs ADD COLUMN placement TEXT;
DROP INDEX training_jobs_queue;
CREATE INDEX training_jobs_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at, reading, region)
  WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL;
CREATE INDEX training_jobs_remote_queue
  ON training_jobs (priority, queued_at, id, workspace_id, not_before, status, completed_at, reading, region)
  WHERE completed_at IS NULL AND status = 'queued' AND reading IS NULL AND region <> 'local';

-- Runs on other machines. They outlive this server. One commit has the offset, the length of the log and the end so far,
-- so records after the offset may come twice, and later bytes of the log are cut off.
CREATE TABLE training_remote_runs (
  job_id     TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  attempt    INTEGER NOT NULL,
  region     TEXT NOT NULL,
  state      TEXT NOT NULL, -- sending, running, ended, closed
  offset     INTEGER NOT NULL, -- bytes of records.ndjson that are taken
  log_bytes  INTEGER NOT NULL,
  run_end    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, attempt)
);
CREATE INDEX training_remote_runs_open ON training_remote_runs (region, created_at) WHERE state <> 'closed';
CREATE UNIQUE INDEX training_remote_runs_one ON training_remote_runs (job_id) WHERE state <> 'closed';
