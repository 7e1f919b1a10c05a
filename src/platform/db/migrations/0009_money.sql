-- Every change of a workspace's credit, for good: what is wrong is set right by another entry.
CREATE TABLE ledger_entries (
  id            TEXT PRIMARY KEY,
  workspace_id  TEXT NOT NULL REFERENCES workspaces (id),
  kind          TEXT NOT NULL CHECK (kind IN ('initial', 'grant', 'charge')),
  amount_micros INTEGER NOT NULL, -- micro-dollars; charges are negative
  subject_kind  TEXT,
  subject_id    TEXT,
  window_key    TEXT NOT NULL UNIQUE, -- names what is paid: nothing is booked twice
  usage_ms      INTEGER, -- of all devices or replicas together
  rate_micros   INTEGER, -- for an hour of it
  description   TEXT NOT NULL,
  created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX ledger_entries_page ON ledger_entries (workspace_id, created_at DESC, id DESC);
CREATE TRIGGER ledger_entries_stay_as_they_are BEFORE UPDATE ON ledger_entries
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never changed'); END;
CREATE TRIGGER ledger_entries_stay BEFORE DELETE ON ledger_entries
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never deleted'); END;

-- What was spent until now; the credit that a workspace begins with is a setting, and is booked at the next start.
INSERT INTO ledger_entries
  SELECT 'txn_' || substr(workspace_id, 4), workspace_id, 'charge', -spent_micros, NULL, NULL, workspace_id || '/before',
         NULL, NULL, 'Jobs and deployments before the ledger began', updated_at
  FROM billing_accounts WHERE spent_micros > 0;

-- The sum of a workspace's entries, kept with each of them.
CREATE TABLE credit_accounts (
  workspace_id   TEXT PRIMARY KEY REFERENCES workspaces (id),
  balance_micros INTEGER NOT NULL,
  full_micros    INTEGER, -- the balance after the last grant; null: its first credit is not booked yet
  updated_at     INTEGER NOT NULL
) STRICT;
INSERT INTO credit_accounts
  SELECT workspace_id, SUM(amount_micros), NULL, MAX(created_at) FROM ledger_entries GROUP BY workspace_id;
DROP TABLE billing_accounts;

-- What is owed and less than a micro-dollar, in micro-dollars × ms of an hour: the next charge takes it along.
ALTER TABLE training_jobs ADD COLUMN cost_remainder INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deployments ADD COLUMN cost_remainder INTEGER NOT NULL DEFAULT 0;
ALTER TABLE training_jobs ADD COLUMN run_until INTEGER; -- the present run was seen at work then
ALTER TABLE deployments ADD COLUMN charged_replicas INTEGER NOT NULL DEFAULT 1; -- since up_since
CREATE INDEX training_jobs_at_work ON training_jobs (workspace_id) WHERE run_since IS NOT NULL;
CREATE INDEX deployments_up ON deployments (workspace_id) WHERE up_since IS NOT NULL;
