-- The model that a student learns from: {"name", "id"}.
ALTER TABLE training_jobs ADD COLUMN teacher TEXT;
