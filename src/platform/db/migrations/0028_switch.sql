-- A deployment is switched to another model, and an experiment's item names the trace of its answer.
ALTER TABLE deployments ADD COLUMN next_model TEXT; -- JSON; replaces the present model once it is loaded
ALTER TABLE deployments ADD COLUMN previous_model TEXT; -- JSON; the model before the last switch
ALTER TABLE experiment_items ADD COLUMN trace_id TEXT;
CREATE INDEX experiment_items_trace ON experiment_items (trace_id) WHERE trace_id IS NOT NULL;
