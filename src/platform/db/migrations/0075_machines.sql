-- Machines of clouds, made and ended by commands of the operator. Each belongs to one region of one workspace. Rows outlive
-- their regions, until the machine has ended.
CREATE TABLE machines (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL,
  region_id      TEXT NOT NULL,
  api_key_id     TEXT, -- the key whose work started it, and that pays
  cloud          TEXT NOT NULL,
  name           TEXT NOT NULL UNIQUE,
  status         TEXT NOT NULL,
  address        TEXT NOT NULL,
  port           INTEGER NOT NULL,
  user           TEXT NOT NULL,
  host_key       TEXT NOT NULL,
  gpu_type       TEXT NOT NULL,
  gpu_count      INTEGER NOT NULL,
  rate_micros    INTEGER NOT NULL, -- for an hour of all its devices
  up_since       INTEGER, -- the time from here on is not charged yet; null: nothing is left to charge
  uptime_ms      INTEGER NOT NULL,
  cost_micros    INTEGER NOT NULL,
  cost_remainder INTEGER NOT NULL,
  idle_since     INTEGER, -- null: it has work
  fault          TEXT,
  attempts       INTEGER NOT NULL, -- failed calls of `down`
  not_before     INTEGER, -- of the next call
  created_at     INTEGER NOT NULL,
  ready_at       INTEGER,
  ended_at       INTEGER,
  updated_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX machines_live ON machines (region_id, created_at) WHERE ended_at IS NULL;
CREATE INDEX machines_ended ON machines (ended_at) WHERE ended_at IS NOT NULL;

-- Charges of machines are one a minute too, and are merged like those of deployments.
DROP INDEX ledger_entries_unmerged;
CREATE INDEX ledger_entries_unmerged ON ledger_entries (subject_id, created_at)
  WHERE subject_kind IN ('deployment', 'machine') AND merged_entries IS NULL;
DROP TRIGGER ledger_entries_stay;
CREATE TRIGGER ledger_entries_stay BEFORE DELETE ON ledger_entries
  WHEN OLD.kind <> 'charge' OR OLD.subject_kind NOT IN ('deployment', 'machine') OR OLD.subject_kind IS NULL
    OR NOT EXISTS (SELECT 1 FROM ledger_merge)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never deleted'); END;
CREATE INDEX machines_list ON machines (workspace_id, created_at, id);
