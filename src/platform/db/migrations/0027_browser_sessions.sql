-- Sessions of the dashboard. The cookie holds a random token; the row holds its hash.
CREATE TABLE browser_sessions (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  key_id TEXT NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE INDEX browser_sessions_key ON browser_sessions (key_id);
