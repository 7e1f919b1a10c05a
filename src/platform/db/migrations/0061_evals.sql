-- Evaluations in the format of OpenAI. The experiment of the same id holds the state of a run.
CREATE TABLE evals (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  data_source_config TEXT NOT NULL,
  testing_criteria TEXT NOT NULL,
  evaluators TEXT NOT NULL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX evals_workspace ON evals (workspace_id, created_at, id);
CREATE TABLE eval_runs (
  id TEXT NOT NULL PRIMARY KEY REFERENCES experiments (id) ON DELETE CASCADE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  eval_id TEXT NOT NULL REFERENCES evals (id) ON DELETE CASCADE,
  data_source TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX eval_runs_eval ON eval_runs (eval_id, created_at, id);
