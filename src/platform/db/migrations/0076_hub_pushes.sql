-- Models on their way to a hub. The rows are the truth: after a kill each push goes on where it was.
CREATE TABLE hub_pushes (
  id            TEXT PRIMARY KEY,
  workspace_id  TEXT NOT NULL REFERENCES workspaces (id),
  model_id      TEXT, -- the pushed model; null: a result of the job
  job_id        TEXT,
  checkpoint_id TEXT,
  variant       TEXT NOT NULL,
  quantization  TEXT NOT NULL,
  repo          TEXT NOT NULL,
  is_private    INTEGER NOT NULL,
  status        TEXT NOT NULL,
  bytes_total   INTEGER NOT NULL,
  bytes_done    INTEGER NOT NULL,
  sent          TEXT NOT NULL, -- files that the hub has: path, hash, size
  upload        TEXT, -- the file that is being sent in parts
  url           TEXT,
  commit_id     TEXT,
  error         TEXT,
  attempts      INTEGER NOT NULL, -- failures in a row without progress
  not_before    INTEGER, -- of the next try
  created_at    INTEGER NOT NULL,
  completed_at  INTEGER,
  updated_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX hub_pushes_list ON hub_pushes (workspace_id, created_at, id);
CREATE INDEX hub_pushes_open ON hub_pushes (workspace_id, created_at, id) WHERE completed_at IS NULL;
CREATE INDEX hub_pushes_job ON hub_pushes (job_id) WHERE job_id IS NOT NULL;

ALTER TABLE training_jobs ADD COLUMN hub_repo TEXT; -- where the result is pushed when the job completes
ALTER TABLE training_jobs ADD COLUMN hub_variant TEXT;
ALTER TABLE training_jobs ADD COLUMN hub_private INTEGER NOT NULL DEFAULT 1;
ALTER TABLE training_jobs ADD COLUMN hub_asked_at INTEGER; -- when the push was asked for
ALTER TABLE training_jobs ADD COLUMN hub_repo_url TEXT; -- of the last push that has completed
CREATE INDEX training_jobs_to_push ON training_jobs (completed_at)
  WHERE hub_repo IS NOT NULL AND hub_asked_at IS NULL AND completed_at IS NOT NULL;
