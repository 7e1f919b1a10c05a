-- Fine-tuning jobs in the format of OpenAI. The training job of the same id holds their state.
CREATE TABLE fine_tuning_jobs (
  id TEXT NOT NULL PRIMARY KEY REFERENCES training_jobs (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  model TEXT NOT NULL,
  method TEXT NOT NULL,
  training_file TEXT NOT NULL,
  validation_file TEXT,
  served_name TEXT NOT NULL,
  deployment_id TEXT,
  deployment_error TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX fine_tuning_jobs_workspace ON fine_tuning_jobs (workspace_id, created_at, id);
CREATE INDEX fine_tuning_jobs_due ON fine_tuning_jobs (id) WHERE deployment_id IS NULL AND deployment_error IS NULL;
