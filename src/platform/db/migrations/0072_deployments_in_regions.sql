-- Where the replicas of a deployment run: "local", or the id of a region.
ALTER TABLE deployments ADD COLUMN region TEXT NOT NULL DEFAULT 'local';
