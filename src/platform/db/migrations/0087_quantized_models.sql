-- The name of a pulled model on the hub: its name here can be changed.
ALTER TABLE models ADD COLUMN hub_name TEXT;
UPDATE models SET hub_name = name WHERE source = 'hub' AND status != 'deleted';
-- Quantized copies that are still to be made.
CREATE INDEX models_to_quantize ON models (workspace_id, created_at, id) WHERE source = 'quantized' AND status = 'pending';
