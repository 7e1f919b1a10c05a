-- True for a deployment that the server made for its own work, such as an experiment: users neither see it in lists nor
-- get its events.
ALTER TABLE deployments ADD COLUMN internal INTEGER NOT NULL DEFAULT 0;
UPDATE deployments SET internal = 1 WHERE id IN (
  SELECT target.value ->> '$.deploymentId' FROM experiments, json_each(experiments.targets) AS target
  WHERE target.value ->> '$.temporary' = 1
);
