-- The second factor of a person: a secret for one-time codes (TOTP), sealed.
CREATE TABLE second_factors (
  person_id TEXT NOT NULL PRIMARY KEY REFERENCES people (id),
  sealed TEXT NOT NULL, -- with the master key
  confirmed_at INTEGER, -- NULL: begun, but no code has proved yet that the person has the secret
  last_step INTEGER NOT NULL DEFAULT 0, -- time step of the newest code that was used; older ones are refused
  recovery_hashes TEXT NOT NULL DEFAULT '[]', -- SHA-256 of the recovery codes that are left
  created_at INTEGER NOT NULL
);
