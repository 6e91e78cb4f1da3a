CREATE TABLE IF NOT EXISTS anarchon_jobs (
  namespace TEXT COLLATE "C" NOT NULL,
  job TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  stamp TEXT COLLATE "C" NOT NULL,
  since BIGINT NOT NULL,
  floor BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  keep_ms BIGINT NOT NULL,
  keep_slots BIGINT NOT NULL,
  keep_window_ms BIGINT NOT NULL,
  history_size BIGINT NOT NULL,
  history_ttl_ms BIGINT,
  zone_tables TEXT COLLATE "C" NOT NULL,
  schedule TEXT NOT NULL,
  schedule_prev TEXT NOT NULL,
  paused TEXT,
  missed TEXT,
  PRIMARY KEY (namespace, job)
);

CREATE TABLE IF NOT EXISTS anarchon_runs (
  namespace TEXT COLLATE "C" NOT NULL,
  job TEXT COLLATE "C" NOT NULL,
  slot BIGINT NOT NULL,
  is_manual BIGINT NOT NULL,
  status TEXT COLLATE "C",
  held_by TEXT NOT NULL,
  claimed_at BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  crashes BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  lease_ms BIGINT NOT NULL,
  max_takeovers BIGINT NOT NULL,
  released BIGINT NOT NULL,
  token TEXT COLLATE "C" NOT NULL,
  ended_at BIGINT,
  started_at BIGINT,
  duration_ms BIGINT,
  abandoned BIGINT,
  output_truncated BIGINT,
  error TEXT,
  output TEXT,
  PRIMARY KEY (namespace, job, slot, is_manual)
);

CREATE TABLE IF NOT EXISTS anarchon_schema (
  id BIGINT NOT NULL PRIMARY KEY,
  major BIGINT NOT NULL,
  minor BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS anarchon_runs_open ON anarchon_runs (namespace, job) WHERE status IS NULL;
