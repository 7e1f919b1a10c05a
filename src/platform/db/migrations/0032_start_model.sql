-- The adapter that a training job starts from, on its base model.
ALTER TABLE training_jobs ADD COLUMN start_model_id TEXT;
