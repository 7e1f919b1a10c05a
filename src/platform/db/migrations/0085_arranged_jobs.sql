-- What people write on a job to find it again.
ALTER TABLE training_jobs ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE training_jobs ADD COLUMN notes TEXT NOT NULL DEFAULT '';
ALTER TABLE training_jobs ADD COLUMN job_group TEXT;

-- Figures of the machine while a job runs, thinned as the job grows.
CREATE TABLE training_system (
  job_id TEXT NOT NULL REFERENCES training_jobs (id) ON DELETE CASCADE,
  time INTEGER NOT NULL,
  "values" TEXT NOT NULL,
  PRIMARY KEY (job_id, time)
) STRICT, WITHOUT ROWID;
