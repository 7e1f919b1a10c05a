-- Use of devices in each hour, for the cost routes. The sums stay when their jobs are deleted. A job counts in full in
-- the hour in which it completed; a deployment counts in the hour of each charge. Triggers keep the sums, so that no
-- other writer of these tables is forgotten.
CREATE TABLE usage_hours (
  workspace_id  TEXT NOT NULL,
  hour          INTEGER NOT NULL, -- hours since 1970
  kind          TEXT NOT NULL CHECK (kind IN ('job', 'deployment')),
  provider      TEXT NOT NULL,
  gpu_type      TEXT NOT NULL,
  jobs          INTEGER NOT NULL,
  device_ms     INTEGER NOT NULL, -- time × devices × replicas
  cost_micros   INTEGER NOT NULL,
  energy_joules INTEGER NOT NULL, -- 0 if nothing was measured
  PRIMARY KEY (workspace_id, hour, kind, provider, gpu_type)
) STRICT, WITHOUT ROWID;

-- Jobs that have ended, and jobs that were deleted: for those the ledger knows only time and cost.
INSERT INTO usage_hours
  SELECT workspace_id, completed_at / 3600000, 'job', provider, gpu_type, count(*), sum(run_ms * gpu_count),
         sum(cost_micros), sum(coalesce(energy_joules, 0))
  FROM training_jobs WHERE completed_at IS NOT NULL AND run_ms > 0 GROUP BY 1, 2, 4, 5;
INSERT INTO usage_hours
  SELECT workspace_id, ended / 3600000, 'job', 'local', 'unknown', count(*), sum(ms), sum(micros), 0 FROM (
    SELECT workspace_id, max(created_at) AS ended, sum(usage_ms) AS ms, -sum(amount_micros) AS micros
    FROM ledger_entries WHERE subject_kind = 'job' AND subject_id NOT IN (SELECT id FROM training_jobs)
    GROUP BY workspace_id, subject_id
  ) WHERE true GROUP BY 1, 2
  ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, device_ms = device_ms + excluded.device_ms,
    cost_micros = cost_micros + excluded.cost_micros;
-- Charges of deployments, and the service of those that were free.
INSERT INTO usage_hours
  SELECT e.workspace_id, e.created_at / 3600000, 'deployment', d.provider, d.gpu_type, 0, sum(e.usage_ms * d.gpu_count),
         -sum(e.amount_micros), 0
  FROM ledger_entries AS e JOIN deployments AS d ON d.id = e.subject_id
  WHERE e.subject_kind = 'deployment' GROUP BY 1, 2, 4, 5;
INSERT INTO usage_hours
  SELECT workspace_id, updated_at / 3600000, 'deployment', provider, gpu_type, 0, sum(uptime_ms * gpu_count), 0, 0
  FROM deployments WHERE uptime_ms > 0 AND id NOT IN (SELECT subject_id FROM ledger_entries WHERE subject_id IS NOT NULL)
  GROUP BY 1, 2, 4, 5
  ON CONFLICT DO UPDATE SET device_ms = device_ms + excluded.device_ms;

-- A run may be settled after its job has ended: then only the difference is added.
CREATE TRIGGER training_jobs_usage_ended AFTER UPDATE OF completed_at, run_ms, cost_micros, energy_joules ON training_jobs
  WHEN NEW.completed_at IS NOT NULL AND NEW.run_ms > 0 BEGIN
  INSERT INTO usage_hours
    SELECT NEW.workspace_id, NEW.completed_at / 3600000, 'job', NEW.provider, NEW.gpu_type, 1 - counted,
           CAST((NEW.run_ms - counted * OLD.run_ms) * NEW.gpu_count AS INTEGER), NEW.cost_micros - counted * OLD.cost_micros,
           coalesce(NEW.energy_joules, 0) - counted * coalesce(OLD.energy_joules, 0)
    FROM (SELECT OLD.completed_at IS NOT NULL AND OLD.run_ms > 0 AS counted) WHERE true
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros, energy_joules = energy_joules + excluded.energy_joules;
END;
-- `up_since` of the old row is the beginning of the stretch that is added here.
CREATE TRIGGER deployments_usage_charged AFTER UPDATE OF uptime_ms ON deployments
  WHEN NEW.uptime_ms > OLD.uptime_ms BEGIN
  INSERT INTO usage_hours VALUES (NEW.workspace_id,
      (coalesce(OLD.up_since, NEW.updated_at) + NEW.uptime_ms - OLD.uptime_ms) / 3600000, 'deployment', NEW.provider,
      NEW.gpu_type, 0, CAST((NEW.uptime_ms - OLD.uptime_ms) * OLD.charged_replicas * NEW.gpu_count AS INTEGER),
      NEW.total_cost_micros - OLD.total_cost_micros, 0)
    ON CONFLICT DO UPDATE SET device_ms = device_ms + excluded.device_ms,
      cost_micros = cost_micros + excluded.cost_micros;
END;

-- Jobs that have run and have not ended: the cost routes add them to the sums. The second column gives each query a
-- range, without which SQLite may prefer an index over all jobs of the workspace.
DROP INDEX training_jobs_at_work;
CREATE INDEX training_jobs_at_work ON training_jobs (workspace_id, run_since) WHERE run_since IS NOT NULL;
CREATE INDEX training_jobs_interrupted ON training_jobs (workspace_id, run_ms)
  WHERE completed_at IS NULL AND run_since IS NULL AND run_ms > 0;
