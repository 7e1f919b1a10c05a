-- Settings that the operator changed while the server ran. A file, a variable or a flag wins over them.
CREATE TABLE operator_settings (
  name       TEXT PRIMARY KEY,
  value      TEXT NOT NULL, -- JSON
  key_id     TEXT NOT NULL, -- of the change; the audit log has the rest
  changed_at INTEGER NOT NULL
) STRICT;
