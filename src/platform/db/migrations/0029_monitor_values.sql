-- The values of a monitor over time: the last one of each minute, with the severity after it.
CREATE TABLE monitor_values (
  monitor_id TEXT NOT NULL REFERENCES monitors (id) ON DELETE CASCADE,
  minute     INTEGER NOT NULL, -- since 1970
  at         INTEGER NOT NULL,
  value      REAL,
  samples    INTEGER,
  severity   TEXT NOT NULL,
  PRIMARY KEY (monitor_id, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX monitor_values_age ON monitor_values (minute);
