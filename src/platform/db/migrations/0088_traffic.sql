-- Requests of a deployment by minute and by hour. Times are counted in buckets, so that percentiles of any period are sums.
CREATE TABLE deployment_traffic (
  deployment_id     TEXT NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  minutes           INTEGER NOT NULL CHECK (minutes IN (1, 60)), -- length of the span
  minute            INTEGER NOT NULL, -- its beginning, in minutes since 1970
  requests          INTEGER NOT NULL, -- that ended in it
  errors            INTEGER NOT NULL,
  prompt_tokens     INTEGER NOT NULL,
  cached_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  waited_ms         REAL NOT NULL, -- for a replica, summed
  most_open         INTEGER NOT NULL, -- requests at once
  most_waiting      INTEGER NOT NULL,
  answer_ms         TEXT NOT NULL, -- bucket → requests, in JSON
  first_token_ms    TEXT NOT NULL,
  PRIMARY KEY (deployment_id, minutes, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX deployment_traffic_old ON deployment_traffic (minutes, minute);

-- The newest lines of each deployment.
CREATE TABLE deployment_logs (
  seq           INTEGER PRIMARY KEY,
  deployment_id TEXT NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
  at            INTEGER NOT NULL,
  level         TEXT NOT NULL CHECK (level IN ('info', 'warn', 'error')),
  text          TEXT NOT NULL
) STRICT;
CREATE INDEX deployment_logs_newest ON deployment_logs (deployment_id, seq);

-- Use by day of UTC, key and model. Requests count for the key that sent them, time and cost for the key that pays.
CREATE TABLE usage_days (
  workspace_id      TEXT NOT NULL,
  day               INTEGER NOT NULL, -- days since 1970
  kind              TEXT NOT NULL CHECK (kind IN ('training', 'serving')),
  key_id            TEXT NOT NULL, -- empty: no key
  model             TEXT NOT NULL,
  requests          INTEGER NOT NULL DEFAULT 0,
  prompt_tokens     INTEGER NOT NULL DEFAULT 0,
  cached_tokens     INTEGER NOT NULL DEFAULT 0,
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  jobs              INTEGER NOT NULL DEFAULT 0,
  device_ms         INTEGER NOT NULL DEFAULT 0, -- time × devices × replicas
  cost_micros       INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (workspace_id, day, kind, key_id, model)
) STRICT, WITHOUT ROWID;

-- What is known of the past: ended jobs, charges of deployments, and requests with a trace.
INSERT INTO usage_days (workspace_id, day, kind, key_id, model, jobs, device_ms, cost_micros)
  SELECT workspace_id, completed_at / 86400000, 'training', coalesce(api_key_id, ''), coalesce(base_model, ''), count(*),
         sum(run_ms * gpu_count), sum(cost_micros)
  FROM training_jobs WHERE completed_at IS NOT NULL AND run_ms > 0 GROUP BY 1, 2, 4, 5;
INSERT INTO usage_days (workspace_id, day, kind, key_id, model, device_ms, cost_micros)
  SELECT e.workspace_id, e.created_at / 86400000, 'serving', coalesce(e.api_key_id, ''), d.model,
         sum(e.usage_ms * d.gpu_count), -sum(e.amount_micros)
  FROM ledger_entries AS e JOIN deployments AS d ON d.id = e.subject_id
  WHERE e.subject_kind = 'deployment' GROUP BY 1, 2, 4, 5;
INSERT INTO usage_days (workspace_id, day, kind, key_id, model, requests, prompt_tokens, cached_tokens, completion_tokens)
  SELECT workspace_id, created_at / 86400000, 'serving', coalesce(key_id, ''), coalesce(model, ''), count(*),
         sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)
  FROM traces WHERE deployment_id IS NOT NULL GROUP BY 1, 2, 4, 5
  ON CONFLICT DO UPDATE SET requests = excluded.requests, prompt_tokens = excluded.prompt_tokens,
    cached_tokens = excluded.cached_tokens, completion_tokens = excluded.completion_tokens;

-- As the triggers of usage_hours. A run may be settled after its job has ended: then only the difference is added.
CREATE TRIGGER training_jobs_usage_of_day AFTER UPDATE OF completed_at, run_ms, cost_micros ON training_jobs
  WHEN NEW.completed_at IS NOT NULL AND NEW.run_ms > 0 BEGIN
  INSERT INTO usage_days (workspace_id, day, kind, key_id, model, jobs, device_ms, cost_micros)
    SELECT NEW.workspace_id, NEW.completed_at / 86400000, 'training', coalesce(NEW.api_key_id, ''),
           coalesce(NEW.base_model, ''), 1 - counted,
           CAST((NEW.run_ms - counted * OLD.run_ms) * NEW.gpu_count AS INTEGER), NEW.cost_micros - counted * OLD.cost_micros
    FROM (SELECT OLD.completed_at IS NOT NULL AND OLD.run_ms > 0 AS counted) WHERE true
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros;
END;
CREATE TRIGGER deployments_usage_of_day AFTER UPDATE OF uptime_ms ON deployments WHEN NEW.uptime_ms > OLD.uptime_ms BEGIN
  INSERT INTO usage_days (workspace_id, day, kind, key_id, model, device_ms, cost_micros)
    VALUES (NEW.workspace_id, (coalesce(OLD.up_since, NEW.updated_at) + NEW.uptime_ms - OLD.uptime_ms) / 86400000,
      'serving', coalesce(OLD.api_key_id, ''), OLD.model,
      CAST((NEW.uptime_ms - OLD.uptime_ms) * OLD.charged_replicas * NEW.gpu_count AS INTEGER),
      NEW.total_cost_micros - OLD.total_cost_micros)
    ON CONFLICT DO UPDATE SET device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros;
END;
