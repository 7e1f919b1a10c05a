-- Numbers of keys and values of a deployment; null for the setting of the server.
ALTER TABLE deployments ADD COLUMN kv_type TEXT;
