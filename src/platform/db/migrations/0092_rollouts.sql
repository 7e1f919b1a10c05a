-- Rollouts: agents whose model calls are recorded with their tokens. Their bytes count for the quota of chats.
CREATE TABLE rollouts (
  id TEXT NOT NULL PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  key_id TEXT NOT NULL,
  key_hash TEXT NOT NULL,
  status TEXT NOT NULL,
  ended_by TEXT,
  model TEXT NOT NULL,
  replay_of TEXT,
  sampling TEXT NOT NULL,
  max_turns INTEGER NOT NULL,
  max_tokens INTEGER,
  max_cost_micros REAL,
  turn_count INTEGER NOT NULL,
  branch_count INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  cost_micros REAL NOT NULL,
  reward REAL,
  metrics TEXT,
  metadata TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  finished_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rollouts_workspace ON rollouts (workspace_id, created_at, id);
CREATE UNIQUE INDEX rollouts_key ON rollouts (key_hash);
CREATE INDEX rollouts_expiry ON rollouts (expires_at) WHERE status = 'open';

-- A turn has the tokens that follow those of its parent: prompt_ids and token_ids are 32-bit integers, logprobs 32-bit floats.
CREATE TABLE rollout_turns (
  rollout_id TEXT NOT NULL REFERENCES rollouts (id),
  workspace_id TEXT NOT NULL REFERENCES workspaces (id),
  number INTEGER NOT NULL,
  parent INTEGER,
  kept_messages INTEGER NOT NULL,
  kept_tokens INTEGER NOT NULL,
  branch TEXT,
  status TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  state_hash TEXT NOT NULL,
  has_end INTEGER NOT NULL,
  stop TEXT,
  weights TEXT,
  trace_id TEXT NOT NULL,
  latency_ms REAL NOT NULL,
  first_token_ms REAL,
  cost_micros REAL NOT NULL,
  created_at INTEGER NOT NULL,
  settings TEXT NOT NULL,
  messages TEXT NOT NULL,
  tools TEXT NOT NULL,
  completion TEXT NOT NULL,
  prompt_ids BLOB NOT NULL,
  token_ids BLOB NOT NULL,
  logprobs BLOB NOT NULL,
  PRIMARY KEY (rollout_id, number)
) STRICT;

CREATE TRIGGER rollouts_usage_insert AFTER INSERT ON rollouts BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    512 + octet_length(NEW.sampling) + octet_length(NEW.metadata) + coalesce(octet_length(NEW.metrics), 0) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollouts_usage_update AFTER UPDATE OF metrics ON rollouts BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    coalesce(octet_length(NEW.metrics), 0) - coalesce(octet_length(OLD.metrics), 0) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollouts_usage_delete AFTER DELETE ON rollouts BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(512 + octet_length(OLD.sampling) + octet_length(OLD.metadata) + coalesce(octet_length(OLD.metrics), 0)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollout_turns_usage_insert AFTER INSERT ON rollout_turns BEGIN
  INSERT INTO storage_usage SELECT NEW.workspace_id, 'chats',
    512 + octet_length(NEW.settings) + octet_length(NEW.messages) + octet_length(NEW.tools) + octet_length(NEW.completion) + octet_length(NEW.prompt_ids) + octet_length(NEW.token_ids) + octet_length(NEW.logprobs) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER rollout_turns_usage_delete AFTER DELETE ON rollout_turns BEGIN
  INSERT INTO storage_usage SELECT OLD.workspace_id, 'chats',
    -(512 + octet_length(OLD.settings) + octet_length(OLD.messages) + octet_length(OLD.tools) + octet_length(OLD.completion) + octet_length(OLD.prompt_ids) + octet_length(OLD.token_ids) + octet_length(OLD.logprobs)) WHERE true
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
