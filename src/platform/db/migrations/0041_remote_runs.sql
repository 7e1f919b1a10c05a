-- Where a job runs, and the sentence that says why it runs there.
ALTER TABLE training_jobs ADD COLUMN region TEXT NOT NULL DEFAULT 'local';
ALTER TABLE training_jobs ADD COLUMN placement TEXT;

-- Runs on other machines. They outlive this server. One commit has the offset, the length of the log and the end so far,
-- so records after the offset may come twice, and later bytes of the log are cut off.
CREATE TABLE training_remote_runs (
  job_id     TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  attempt    INTEGER NOT NULL,
  region     TEXT NOT NULL,
  state      TEXT NOT NULL, -- sending, running, closed
  offset     INTEGER NOT NULL, -- bytes of records.ndjson that are taken
  log_bytes  INTEGER NOT NULL,
  run_end    TEXT NOT NULL,
  seen_at    INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, attempt)
);
CREATE INDEX training_remote_runs_open ON training_remote_runs (region, created_at) WHERE state <> 'closed';
CREATE UNIQUE INDEX training_remote_runs_one ON training_remote_runs (job_id) WHERE state <> 'closed';
