-- The hash belongs to a dataset that still has the content of its upload. Earlier versions kept it after appends. A
-- dataset that was changed since may have got rows, so it loses the hash: its file makes a new dataset next time.
UPDATE datasets SET content_sha256 = NULL WHERE content_sha256 IS NOT NULL AND updated_at <> created_at;

ALTER TABLE secrets ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
ALTER TABLE tracker_integrations ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';

-- Sessions whose files are gone, in the order in which they are pruned.
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE removed_at IS NOT NULL;
