-- The priority of a key: the default of its requests, and the most urgent that they may name.
ALTER TABLE api_keys ADD COLUMN priority TEXT;
