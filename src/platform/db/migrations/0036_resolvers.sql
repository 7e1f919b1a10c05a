-- Data resolvers are kept beside reward functions: code with versions, of another kind.
ALTER TABLE reward_functions ADD COLUMN kind TEXT NOT NULL DEFAULT 'reward';
CREATE INDEX reward_functions_kind ON reward_functions (workspace_id, kind, created_at, id);
