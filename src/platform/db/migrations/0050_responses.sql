-- Responses in the format of OpenAI that a later request can continue or read.
CREATE TABLE responses (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  status TEXT NOT NULL,
  previous_id TEXT,
  input TEXT NOT NULL,
  response TEXT NOT NULL,
  task TEXT,
  key_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX responses_workspace ON responses (workspace_id, created_at, id);
CREATE INDEX responses_age ON responses (created_at);
CREATE INDEX responses_due ON responses (created_at, id) WHERE status IN ('queued', 'in_progress');
