-- The file and the shape of an upload, as JSON.
ALTER TABLE datasets ADD COLUMN detected TEXT;
-- Code that maps the rows of a job, and what came of it, as JSON.
ALTER TABLE training_jobs ADD COLUMN resolver TEXT;
