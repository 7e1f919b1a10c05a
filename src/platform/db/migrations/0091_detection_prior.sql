-- The share of generated files in the traffic of an account. 0.5 moves no score.
ALTER TABLE detection_accounts ADD COLUMN prior REAL NOT NULL DEFAULT 0.5;
ALTER TABLE detections ADD COLUMN prior REAL NOT NULL DEFAULT 0.5;
ALTER TABLE detection_batches ADD COLUMN prior REAL NOT NULL DEFAULT 0.5;
