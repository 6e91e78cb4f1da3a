CREATE TABLE IF NOT EXISTS anarchon_jobs (
  namespace VARBINARY(255) NOT NULL,
  job VARBINARY(255) NOT NULL,
  version BIGINT NOT NULL,
  stamp VARBINARY(255) NOT NULL,
  since BIGINT NOT NULL,
  floor BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  keep_ms BIGINT NOT NULL,
  keep_slots BIGINT NOT NULL,
  keep_window_ms BIGINT NOT NULL,
  history_size BIGINT NOT NULL,
  history_ttl_ms BIGINT,
  zone_tables VARBINARY(255) NOT NULL,
  schedule LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
  schedule_prev LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
  paused LONGTEXT CHARACTER SET utf8mb4,
  missed LONGTEXT CHARACTER SET utf8mb4,
  PRIMARY KEY (namespace, job)
);

CREATE TABLE IF NOT EXISTS anarchon_runs (
  namespace VARBINARY(255) NOT NULL,
  job VARBINARY(255) NOT NULL,
  slot BIGINT NOT NULL,
  is_manual BIGINT NOT NULL,
  status VARBINARY(255),
  held_by LONGTEXT CHARACTER SET utf8mb4 NOT NULL,
  claimed_at BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  crashes BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  lease_ms BIGINT NOT NULL,
  max_takeovers BIGINT NOT NULL,
  released BIGINT NOT NULL,
  token VARBINARY(255) NOT NULL,
  ended_at BIGINT,
  started_at BIGINT,
  duration_ms BIGINT,
  abandoned BIGINT,
  output_truncated BIGINT,
  error LONGTEXT CHARACTER SET utf8mb4,
  output LONGTEXT CHARACTER SET utf8mb4,
  PRIMARY KEY (namespace, job, slot, is_manual)
);

CREATE TABLE IF NOT EXISTS anarchon_schema (
  id BIGINT NOT NULL PRIMARY KEY,
  major BIGINT NOT NULL,
  minor BIGINT NOT NULL
);

CREATE INDEX anarchon_runs_open ON anarchon_runs (namespace, job, status);
