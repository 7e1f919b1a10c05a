-- Persons and proof. A proven address is known to the whole installation. An unproven person belongs to the workspace whose
-- invitation made it: another workspace makes another person for the same address.
-- Users that the command line made. Nothing else makes an operator.
CREATE TEMP TABLE vouched AS
  SELECT id FROM users WHERE is_operator = 1
  UNION SELECT made FROM audit_log WHERE method = 'CLI' AND path = 'verk users add' AND made IS NOT NULL;
CREATE TEMP TABLE judged AS
  SELECT people.*,
    EXISTS (SELECT 1 FROM person_identities WHERE person_id = people.id) AS has_identity,
    NOT EXISTS (SELECT 1 FROM users WHERE person_id = people.id AND id NOT IN vouched) AS is_vouched,
    (SELECT min(workspace_id) FROM users WHERE person_id = people.id
      HAVING count(DISTINCT workspace_id) = 1 AND max(is_operator) = 0) AS only_workspace
  FROM people;
-- The provider replaces the password. With several workspaces nobody knows which of them has set it: it ends.
CREATE TEMP TABLE ended AS
  SELECT id FROM judged WHERE has_identity OR (NOT is_vouched AND only_workspace IS NULL);
DELETE FROM second_factors WHERE person_id IN ended;
DELETE FROM browser_sessions WHERE method = 'password' AND user_id IN (SELECT id FROM users WHERE person_id IN ended);

PRAGMA defer_foreign_keys = ON; -- the rows come back under their ids before the commit
DROP TABLE people;
CREATE TABLE people (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL, -- lower case
  name TEXT NOT NULL,
  password_hash TEXT, -- argon2id; NULL: this person cannot sign in with a password
  last_sign_in_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  proven_by TEXT, -- operator or provider; NULL: the address is not proven
  workspace_id TEXT REFERENCES workspaces (id), -- of an unproven person, who has no other one
  CHECK ((proven_by IS NULL) = (workspace_id IS NOT NULL))
);
INSERT INTO people
  SELECT id, email, name, CASE WHEN id IN ended THEN NULL ELSE password_hash END, last_sign_in_at, created_at, updated_at,
    CASE WHEN has_identity THEN 'provider' WHEN is_vouched OR only_workspace IS NULL THEN 'operator' END,
    CASE WHEN has_identity OR is_vouched THEN NULL ELSE only_workspace END
  FROM judged;
DROP TABLE vouched;
DROP TABLE judged;
DROP TABLE ended;
CREATE UNIQUE INDEX people_proven ON people (email) WHERE workspace_id IS NULL;
CREATE UNIQUE INDEX people_unproven ON people (email, workspace_id) WHERE workspace_id IS NOT NULL;
CREATE INDEX people_workspace ON people (workspace_id) WHERE workspace_id IS NOT NULL;

CREATE TRIGGER users_of_unproven_people BEFORE INSERT ON users WHEN EXISTS (
  SELECT 1 FROM people WHERE id = NEW.person_id AND (workspace_id <> NEW.workspace_id OR (workspace_id IS NOT NULL AND NEW.is_operator))
) BEGIN SELECT RAISE(ABORT, 'an unproven person has one workspace and is no operator'); END;
CREATE TRIGGER users_of_unproven_people_stay BEFORE UPDATE OF person_id, workspace_id, is_operator ON users WHEN EXISTS (
  SELECT 1 FROM people WHERE id = NEW.person_id AND (workspace_id <> NEW.workspace_id OR (workspace_id IS NOT NULL AND NEW.is_operator))
) BEGIN SELECT RAISE(ABORT, 'an unproven person has one workspace and is no operator'); END;
