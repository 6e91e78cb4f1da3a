CREATE TABLE IF NOT EXISTS anarchon_jobs (
  namespace TEXT NOT NULL,
  job TEXT NOT NULL,
  version INTEGER NOT NULL,
  stamp TEXT NOT NULL,
  since INTEGER NOT NULL,
  floor INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  keep_ms INTEGER NOT NULL,
  keep_slots INTEGER NOT NULL,
  keep_window_ms INTEGER NOT NULL,
  history_size INTEGER NOT NULL,
  history_ttl_ms INTEGER,
  zone_tables TEXT NOT NULL,
  schedule TEXT NOT NULL,
  schedule_prev TEXT NOT NULL,
  paused TEXT,
  missed TEXT,
  PRIMARY KEY (namespace, job)
);

CREATE TABLE IF NOT EXISTS anarchon_runs (
  namespace TEXT NOT NULL,
  job TEXT NOT NULL,
  slot INTEGER NOT NULL,
  is_manual INTEGER NOT NULL,
  status TEXT,
  held_by TEXT NOT NULL,
  claimed_at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL,
  max_takeovers INTEGER NOT NULL,
  released INTEGER NOT NULL,
  token TEXT NOT NULL,
  ended_at INTEGER,
  started_at INTEGER,
  duration_ms INTEGER,
  abandoned INTEGER,
  output_truncated INTEGER,
  error TEXT,
  output TEXT,
  PRIMARY KEY (namespace, job, slot, is_manual)
);

CREATE TABLE IF NOT EXISTS anarchon_schema (
  id INTEGER NOT NULL PRIMARY KEY,
  major INTEGER NOT NULL,
  minor INTEGER NOT NULL
);

CREATE INDEX IF NOT EXISTS anarchon_runs_open ON anarchon_runs (namespace, job) WHERE status IS NULL;
