-- A deployment waits for memory at most this long; 0: without a limit. queued_ms: how long it has waited so far.
ALTER TABLE deployments ADD COLUMN queue_timeout_seconds INTEGER NOT NULL DEFAULT 900;
ALTER TABLE deployments ADD COLUMN queued_ms INTEGER NOT NULL DEFAULT 0;
-- The code of the error of a failed deployment, such as no_capacity.
ALTER TABLE deployments ADD COLUMN error_code TEXT;

-- Active rows, and ended rows by age: for the loop, the metrics and the prune.
DROP INDEX deployments_status;
CREATE INDEX deployments_status ON deployments (status, updated_at);
-- Lists by status.
CREATE INDEX deployments_list ON deployments (workspace_id, status, created_at, id);
-- A workspace sees its own models and those of the installation, and never walks the others.
DROP INDEX models_page;
CREATE INDEX models_page ON models (workspace_id, created_at, id);
