-- Invitations to a workspace. The token is in the link alone; the row has its hash.
CREATE TABLE invitations (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  email TEXT NOT NULL, -- lower case
  role TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  invited_by TEXT, -- user; NULL: the key of a service, or the command line
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX invitations_once ON invitations (workspace_id, email);
CREATE INDEX invitations_page ON invitations (workspace_id, created_at, id);
CREATE INDEX invitations_by ON invitations (invited_by) WHERE invited_by IS NOT NULL;
