-- Where events are sent, and the queue of what is sent there: a delivery is the row itself until it has settled.
-- What is under way only the process knows: after its death the row is due as before.

CREATE TABLE webhook_endpoints (
  id                   TEXT PRIMARY KEY,
  workspace_id         TEXT NOT NULL REFERENCES workspaces (id),
  url                  TEXT NOT NULL,
  description          TEXT,
  event_types          TEXT NOT NULL, -- JSON; empty: all
  secrets              TEXT NOT NULL, -- sealed; empty once it is deleted
  status               TEXT NOT NULL,
  consecutive_failures INTEGER NOT NULL,
  disabled_at          INTEGER, -- by its failures, not by hand
  disabled_reason      TEXT,
  metadata             TEXT NOT NULL,
  after_seq            INTEGER NOT NULL, -- of the outbox when it was made: it gets what comes behind, whatever the clock says
  created_at           INTEGER NOT NULL,
  updated_at           INTEGER NOT NULL,
  deleted_at           INTEGER -- the row stays as long as its deliveries
) STRICT;
CREATE INDEX webhook_endpoints_page ON webhook_endpoints (workspace_id, created_at, id);

-- The bytes that are signed and sent, the same at every attempt at every endpoint.
CREATE TABLE webhook_bodies (
  event_id     TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL,
  body         BLOB NOT NULL,
  created_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE webhook_deliveries (
  id                 TEXT PRIMARY KEY,
  endpoint_id        TEXT NOT NULL REFERENCES webhook_endpoints (id),
  workspace_id       TEXT NOT NULL,
  event_id           TEXT NOT NULL,
  event_type         TEXT NOT NULL,
  event_created_at   INTEGER NOT NULL,
  status             TEXT NOT NULL,
  trigger            TEXT NOT NULL, -- of its scheduled attempts: scheduled, test
  attempt_count      INTEGER NOT NULL,
  scheduled_count    INTEGER NOT NULL, -- attempts by hand are not of the schedule
  due_at             INTEGER, -- of the next scheduled attempt or of the expiry; null: settled
  resend_at          INTEGER, -- one attempt by hand was asked for then
  expires_at         INTEGER NOT NULL,
  last_response_code INTEGER,
  last_error         TEXT,
  created_at         INTEGER NOT NULL,
  updated_at         INTEGER NOT NULL,
  next_at            INTEGER GENERATED ALWAYS AS (coalesce(resend_at, due_at)) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX webhook_deliveries_once ON webhook_deliveries (event_id, endpoint_id);
CREATE INDEX webhook_deliveries_next ON webhook_deliveries (endpoint_id, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhook_deliveries_list ON webhook_deliveries (endpoint_id, created_at, id);
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (created_at);

CREATE TABLE webhook_attempts (
  delivery_id   TEXT NOT NULL REFERENCES webhook_deliveries (id) ON DELETE CASCADE,
  number        INTEGER NOT NULL,
  attempted_at  INTEGER NOT NULL,
  trigger       TEXT NOT NULL,
  duration_ms   INTEGER NOT NULL,
  response_code INTEGER,
  response_body TEXT, -- at most 1 KiB
  error_code    TEXT,
  error_message TEXT,
  PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;
