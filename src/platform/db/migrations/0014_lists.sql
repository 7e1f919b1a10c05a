-- Every filter of a list has an index in the order of the list, so that a page costs the same at any depth.
CREATE INDEX audit_log_key ON audit_log (key_id, id);
CREATE INDEX events_by_type ON events (workspace_id, type, seq);
CREATE INDEX reward_functions_name ON reward_functions (workspace_id, name, created_at, id);
CREATE INDEX sessions_status ON sessions (workspace_id, status, created_at, id);
CREATE INDEX training_jobs_by_method ON training_jobs (workspace_id, method, created_at, id);
