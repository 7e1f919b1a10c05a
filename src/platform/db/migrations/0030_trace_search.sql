-- The words of captured content one after the other, to find those with a prefix.
CREATE VIRTUAL TABLE trace_words USING fts5vocab (trace_text, instance);
-- Rollouts of a job in the order of the list.
CREATE INDEX traces_job_newest ON traces (job_id, created_at) WHERE job_id IS NOT NULL;
-- Monitors of a whole workspace: a quiet workspace does not read the requests of the others.
CREATE INDEX deployment_requests_workspace ON deployment_requests (workspace_id, created_at, status_code, latency_ms);
