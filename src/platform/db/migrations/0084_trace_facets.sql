-- `user` and `tags` are names of the client. `input_start` and `output_start` are the first words of the content, so that
-- a list needs no content. `cost_micros`: micro-dollars, an estimate.
ALTER TABLE traces ADD COLUMN user TEXT;
ALTER TABLE traces ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
ALTER TABLE traces ADD COLUMN input_start TEXT;
ALTER TABLE traces ADD COLUMN output_start TEXT;
ALTER TABLE traces ADD COLUMN cost_micros REAL;

-- Requests that the server made for an experiment are no traffic.
UPDATE traces SET source = 'evaluation' WHERE deployment_id IN (SELECT id FROM deployments WHERE internal = 1);

CREATE INDEX traces_requests ON traces (workspace_id, created_at, seq) WHERE source NOT IN ('rollout', 'evaluation');
CREATE INDEX traces_user ON traces (workspace_id, user, created_at) WHERE user IS NOT NULL;
CREATE INDEX traces_model ON traces (workspace_id, model, created_at) WHERE model IS NOT NULL;

-- Traces by hour, source and one value of a facet, so that counts of a million traces read some hundred rows.
CREATE TABLE trace_counts (
  workspace_id TEXT NOT NULL,
  facet        TEXT NOT NULL,
  hour         INTEGER NOT NULL,
  source       TEXT NOT NULL,
  value        TEXT NOT NULL,
  n            INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, facet, hour, source, value)
) STRICT, WITHOUT ROWID;
INSERT INTO trace_counts
  SELECT workspace_id, 'status', created_at / 3600000, source, CAST(status AS TEXT), count(*)
  FROM traces GROUP BY 1, 3, 4, 5;
INSERT INTO trace_counts
  SELECT workspace_id, 'capture', created_at / 3600000, source, capture, count(*) FROM traces GROUP BY 1, 3, 4, 5;
INSERT INTO trace_counts
  SELECT workspace_id, 'model', created_at / 3600000, source, model, count(*)
  FROM traces WHERE model IS NOT NULL GROUP BY 1, 3, 4, 5;
INSERT INTO trace_counts
  SELECT workspace_id, 'deployment', created_at / 3600000, source, deployment_id, count(*)
  FROM traces WHERE deployment_id IS NOT NULL GROUP BY 1, 3, 4, 5;
INSERT INTO trace_counts
  SELECT traces.workspace_id, 'score', trace_at / 3600000, traces.source, name, count(*)
  FROM trace_scores JOIN traces ON traces.id = trace_id GROUP BY 1, 3, 4, 5;
