-- Pending deliveries of disabled endpoints have no due time. The index finds them when the endpoint is enabled again,
-- and when they expire.
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (endpoint_id, expires_at)
  WHERE status = 'pending' AND due_at IS NULL;

-- Deliveries that were cancelled because their endpoint was disabled wait for it instead.
UPDATE webhook_deliveries SET status = 'pending', last_error = NULL
  WHERE status = 'cancelled' AND resend_at IS NULL AND expires_at > unixepoch() * 1000
    AND endpoint_id IN (SELECT id FROM webhook_endpoints WHERE status = 'disabled');

ALTER TABLE detection_batches ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
