-- Why a job ended before its last step, because its held-out metric no longer improved. Null: all steps were done.
ALTER TABLE training_jobs ADD COLUMN stopped_early TEXT;
