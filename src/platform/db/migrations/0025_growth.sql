-- The ledger outlives the rows of deleted workspaces, so it names a workspace without a reference. Old charges of a
-- deployment are merged into one entry a day.
CREATE TABLE new_ledger_entries (
  id             TEXT PRIMARY KEY,
  workspace_id   TEXT NOT NULL,
  kind           TEXT NOT NULL CHECK (kind IN ('initial', 'grant', 'charge')),
  amount_micros  INTEGER NOT NULL, -- micro-dollars; charges are negative
  subject_kind   TEXT,
  subject_id     TEXT,
  window_key     TEXT NOT NULL UNIQUE, -- names what is paid: nothing is booked twice
  usage_ms       INTEGER, -- of all devices or replicas together
  rate_micros    INTEGER, -- for an hour of it
  description    TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  api_key_id     TEXT,
  merged_entries INTEGER -- how many charges it is the sum of; null: it is as it was booked
) STRICT;
INSERT INTO new_ledger_entries
  SELECT id, workspace_id, kind, amount_micros, subject_kind, subject_id, window_key, usage_ms, rate_micros, description,
         created_at, api_key_id, NULL
  FROM ledger_entries ORDER BY rowid;
DROP TABLE ledger_entries;
ALTER TABLE new_ledger_entries RENAME TO ledger_entries;
CREATE INDEX ledger_entries_page ON ledger_entries (workspace_id, created_at DESC, id DESC);
CREATE INDEX ledger_entries_unmerged ON ledger_entries (subject_id, created_at)
  WHERE subject_kind = 'deployment' AND merged_entries IS NULL;

-- One row while a commit merges charges, otherwise none: the amounts that the commit took out and has not put back. The
-- triggers let a merge delete charges of deployments, and change an entry by exactly what was deleted.
CREATE TABLE ledger_merge (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  amount_micros INTEGER NOT NULL,
  usage_ms      INTEGER NOT NULL
) STRICT;
CREATE TRIGGER ledger_entries_stay BEFORE DELETE ON ledger_entries
  WHEN OLD.kind <> 'charge' OR OLD.subject_kind IS NOT 'deployment' OR NOT EXISTS (SELECT 1 FROM ledger_merge)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never deleted'); END;
CREATE TRIGGER ledger_entries_taken_out AFTER DELETE ON ledger_entries BEGIN
  UPDATE ledger_merge SET amount_micros = amount_micros + OLD.amount_micros, usage_ms = usage_ms + OLD.usage_ms;
END;
CREATE TRIGGER ledger_entries_stay_as_they_are BEFORE UPDATE ON ledger_entries
  WHEN (NEW.id, NEW.workspace_id, NEW.kind, NEW.subject_kind, NEW.subject_id, NEW.window_key, NEW.rate_micros,
        NEW.created_at, NEW.api_key_id)
    IS NOT (OLD.id, OLD.workspace_id, OLD.kind, OLD.subject_kind, OLD.subject_id, OLD.window_key, OLD.rate_micros,
        OLD.created_at, OLD.api_key_id)
    OR NOT EXISTS (SELECT 1 FROM ledger_merge AS m WHERE NEW.amount_micros = OLD.amount_micros + m.amount_micros
        AND NEW.usage_ms = OLD.usage_ms + m.usage_ms)
  BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: an entry is never changed'); END;
CREATE TRIGGER ledger_entries_put_back AFTER UPDATE ON ledger_entries BEGIN
  UPDATE ledger_merge SET amount_micros = 0, usage_ms = 0;
END;
CREATE TRIGGER ledger_merge_is_even BEFORE DELETE ON ledger_merge WHEN OLD.amount_micros <> 0 OR OLD.usage_ms <> 0
  BEGIN SELECT RAISE(ABORT, 'the merge of charges lost an amount'); END;

-- Jobs that ended long ago lose their details: samples, events, log and most metrics.
ALTER TABLE training_jobs ADD COLUMN details_removed_at INTEGER;
CREATE INDEX training_jobs_with_details ON training_jobs (completed_at)
  WHERE completed_at IS NOT NULL AND details_removed_at IS NULL;

-- Workspaces that were deleted long ago lose their row.
CREATE INDEX workspaces_deleted ON workspaces (updated_at) WHERE status = 'deleted';
