-- Public runs: published_at is set while a job is published, and no two are the same, because it is the list's cursor.
ALTER TABLE training_jobs ADD COLUMN published_at INTEGER;
ALTER TABLE training_jobs ADD COLUMN like_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE training_jobs ADD COLUMN tracker_run_url TEXT;
UPDATE training_jobs SET published_at = (SELECT max(updated_at) FROM training_jobs) - (
  SELECT count(*) FROM training_jobs AS later WHERE later.publish = 1 AND later.id > training_jobs.id
) WHERE publish = 1;
CREATE UNIQUE INDEX training_jobs_published ON training_jobs (published_at) WHERE published_at IS NOT NULL;

-- `client` is a keyed hash of an address: one like for each run and client.
CREATE TABLE public_run_likes (
  job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  client TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, client)
) STRICT, WITHOUT ROWID;

-- Where a workspace's jobs are logged from now on.
CREATE TABLE tracker_integrations (
  workspace_id TEXT PRIMARY KEY REFERENCES workspaces (id),
  type TEXT NOT NULL,
  base_url TEXT NOT NULL,
  project TEXT NOT NULL,
  secret_name TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

-- One job in its tracker, and how far the tracker has been told. It has its own copy of where: an integration that
-- goes or moves does not take away what has begun.
CREATE TABLE tracker_runs (
  job_id TEXT PRIMARY KEY REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL,
  type TEXT NOT NULL,
  base_url TEXT NOT NULL,
  project TEXT NOT NULL,
  secret_name TEXT,
  place TEXT, -- JSON: what the tracker calls it
  params_told INTEGER NOT NULL,
  step_told INTEGER NOT NULL, -- the last step whose metrics it has; -1: none
  points_told INTEGER NOT NULL,
  state_told TEXT, -- in our words
  told_at INTEGER,
  failures INTEGER NOT NULL, -- in a row
  refusals INTEGER NOT NULL, -- of those, answers that say the request itself is wrong
  failing_since INTEGER,
  last_error TEXT,
  next_at INTEGER, -- null: all is told, or it was given up
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tracker_runs_due ON tracker_runs (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX tracker_runs_workspace ON tracker_runs (workspace_id);

-- Every mutating call. In the order of its key: one insert at the end of a workspace's part.
CREATE TABLE audit_log (
  workspace_id TEXT NOT NULL,
  id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  method TEXT NOT NULL,
  path TEXT NOT NULL,
  made TEXT, -- the id of what it created
  status INTEGER NOT NULL,
  address TEXT,
  request_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, id)
) STRICT, WITHOUT ROWID;
