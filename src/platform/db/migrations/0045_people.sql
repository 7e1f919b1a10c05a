-- People. A person is known to the installation; a user is that person in one workspace, with a role.
CREATE TABLE people (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL UNIQUE, -- lower case
  name TEXT NOT NULL,
  password_hash TEXT, -- argon2id; NULL: this person cannot sign in with a password
  last_sign_in_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
-- `key_id`: the seat, a row of api_keys without a secret. No reference: keys that were revoked long ago are removed.
CREATE TABLE users (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  person_id TEXT NOT NULL REFERENCES people (id),
  role TEXT NOT NULL,
  is_operator INTEGER NOT NULL DEFAULT 0,
  key_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  deleted_at INTEGER -- the row stays: audit entries name the person
);
CREATE UNIQUE INDEX users_once ON users (person_id, workspace_id) WHERE deleted_at IS NULL;
CREATE INDEX users_page ON users (workspace_id, created_at, id) WHERE deleted_at IS NULL;
-- `user_id`: the user that a key belongs to; NULL: a service. `kind`: key, or seat.
ALTER TABLE api_keys ADD COLUMN user_id TEXT;
ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'key';
CREATE INDEX api_keys_user ON api_keys (user_id) WHERE user_id IS NOT NULL;
-- `method`: key, or password.
ALTER TABLE browser_sessions ADD COLUMN user_id TEXT;
ALTER TABLE browser_sessions ADD COLUMN method TEXT NOT NULL DEFAULT 'key';
ALTER TABLE browser_sessions ADD COLUMN address TEXT;
ALTER TABLE browser_sessions ADD COLUMN agent TEXT;
DROP INDEX browser_sessions_key;
CREATE INDEX browser_sessions_page ON browser_sessions (key_id, created_at, id);
-- The user behind the key of an audit entry.
ALTER TABLE audit_log ADD COLUMN user_id TEXT;
CREATE INDEX audit_log_user ON audit_log (user_id, id) WHERE user_id IS NOT NULL;
