-- What is counted as it happens, for GET /v1/metrics: as of the last seconds, so that a restart goes on from there.
CREATE TABLE counters (
  name TEXT NOT NULL,
  workspace_id TEXT NOT NULL, -- empty: nobody's
  labels TEXT NOT NULL, -- JSON: their values
  counted TEXT NOT NULL, -- JSON: a number; of a histogram its sum and its buckets
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name, labels)
) STRICT, WITHOUT ROWID;

-- How many jobs stand where, however many there are.
CREATE INDEX training_jobs_standing ON training_jobs (workspace_id, status) WHERE completed_at IS NULL;
