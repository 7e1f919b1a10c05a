-- workspace_id NULL: belongs to the installation (built in, or in the models folder) and is seen by every workspace.
CREATE TABLE models (
  id TEXT PRIMARY KEY,
  workspace_id TEXT REFERENCES workspaces (id),
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  source TEXT NOT NULL,
  path TEXT,
  format TEXT NOT NULL,
  base_model TEXT,
  architecture TEXT,
  parameters INTEGER,
  context_length INTEGER,
  quantization TEXT,
  size_bytes INTEGER,
  sha256 TEXT,
  file_mtime_ms INTEGER,
  shape TEXT,
  hub_file TEXT,
  job_id TEXT,
  error TEXT,
  progress REAL,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX models_name ON models (coalesce(workspace_id, ''), name);
CREATE INDEX models_page ON models (created_at, id);
CREATE INDEX models_job ON models (job_id) WHERE job_id IS NOT NULL;

CREATE TABLE deployments (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  model TEXT NOT NULL,
  model_id TEXT REFERENCES models (id),
  source TEXT NOT NULL,
  checkpoint TEXT,
  gpu_type TEXT NOT NULL,
  gpu_count INTEGER NOT NULL,
  provider TEXT NOT NULL,
  min_replicas INTEGER NOT NULL,
  max_replicas INTEGER NOT NULL,
  idle_timeout_seconds INTEGER NOT NULL,
  context_length INTEGER,
  parallel INTEGER,
  wake_timeout_seconds INTEGER NOT NULL,
  max_held_requests INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  -- Scaled to zero: status is serving, no process runs, the next request wakes it.
  parked INTEGER NOT NULL,
  -- A load that began from parked: its failure is not terminal.
  waking INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  next_attempt_at INTEGER,
  error TEXT,
  queue_reason TEXT,
  cost_per_hour_micros INTEGER,
  total_cost_micros INTEGER NOT NULL,
  total_requests INTEGER NOT NULL,
  total_errors INTEGER NOT NULL,
  total_prompt_tokens INTEGER NOT NULL,
  total_completion_tokens INTEGER NOT NULL,
  total_latency_ms REAL NOT NULL,
  -- Uptime: what is over, and since when the present stretch lasts.
  uptime_ms INTEGER NOT NULL,
  up_since INTEGER,
  billed_until INTEGER,
  started_at INTEGER,
  stopped_at INTEGER,
  last_request_at INTEGER,
  metadata TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX deployments_page ON deployments (workspace_id, created_at, id);
CREATE INDEX deployments_status ON deployments (status);
CREATE UNIQUE INDEX deployments_name ON deployments (workspace_id, name) WHERE status NOT IN ('stopped', 'failed');

CREATE TABLE deployment_requests (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  deployment_id TEXT NOT NULL REFERENCES deployments (id),
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  latency_ms REAL NOT NULL,
  status_code INTEGER NOT NULL,
  error_message TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX deployment_requests_page ON deployment_requests (deployment_id, created_at, id);
CREATE INDEX deployment_requests_age ON deployment_requests (created_at);

-- One row for each device that a holder takes memory of. Cleared at every start: no holder outlives the server.
CREATE TABLE gpu_leases (
  holder TEXT NOT NULL,
  device TEXT NOT NULL,
  kind TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (holder, device)
) STRICT, WITHOUT ROWID;

CREATE TABLE gpu_waits (
  holder TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  gpu_type TEXT,
  gpu_count INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
