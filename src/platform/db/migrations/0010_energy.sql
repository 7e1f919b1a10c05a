-- The energy that a job has used on its devices, counted up to energy_at; null: never measured.
ALTER TABLE training_jobs ADD COLUMN energy_joules INTEGER;
ALTER TABLE training_jobs ADD COLUMN energy_watts REAL; -- the last reading
ALTER TABLE training_jobs ADD COLUMN energy_at INTEGER;

-- What devices of a type draw at work, over all jobs that had theirs for themselves.
CREATE TABLE power_readings (
  gpu_type TEXT PRIMARY KEY,
  energy_joules INTEGER NOT NULL,
  work_ms INTEGER NOT NULL, -- of all devices together
  updated_at INTEGER NOT NULL
) STRICT;
