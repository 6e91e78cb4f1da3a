//! The tables: their names, their columns and how they are created.
//!
//! The columns say what `docs/concepts/leases.md` says, in its words. Where a word is reserved in
//! some database another one stands for it: `held_by` for *by*, `claimed_at` for *at*, `is_manual`
//! for *manual*.

use super::dialect::SqlDialect;

/// The major version of what is stored. A store of a newer major is refused.
pub const SCHEMA_MAJOR: i64 = 1;

/// The minor version: additive changes only, tolerated in both directions.
pub const SCHEMA_MINOR: i64 = 0;

/// The runs table where no other name is given.
pub const DEFAULT_TABLE: &str = "anarchon_runs";

/// The columns of a job that are read with every call.
pub(super) const JOB_COLUMNS: [&str; 14] = [
    "version",
    "schedule",
    "schedule_prev",
    "zone_tables",
    "since",
    "floor",
    "fence",
    "keep_ms",
    "keep_slots",
    "keep_window_ms",
    "history_size",
    "history_ttl_ms",
    "ended",
    "paused",
];

/// The columns of a run that decide something, with the names that they are read under.
pub(super) const RUN_COLUMNS: [(&str, &str); 14] = [
    ("slot", "slot"),
    ("is_manual", "is_manual"),
    ("token", "token"),
    ("held_by", "held_by"),
    ("claimed_at", "claimed_at"),
    ("attempt", "attempt"),
    ("fence", "run_fence"),
    ("crashes", "crashes"),
    ("lease_until", "lease_until"),
    ("lease_ms", "lease_ms"),
    ("max_takeovers", "max_takeovers"),
    ("released", "released"),
    ("status", "status"),
    ("ended_at", "ended_at"),
];

/// The columns of a run that only readers of the history want.
pub(super) const BODY_COLUMNS: [&str; 6] =
    ["started_at", "duration_ms", "abandoned", "output_truncated", "error", "output"];

/// The names of the three tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// One row per run.
    pub runs: String,
    /// One row per job.
    pub jobs: String,
    /// One row: the version of the schema.
    pub schema: String,
}

impl Tables {
    /// The tables beside the runs table `runs`: its name without `_runs`, plus `_jobs` and
    /// `_schema`.
    pub fn beside(runs: &str) -> Tables {
        let stem = runs.strip_suffix("_runs").unwrap_or(runs);
        let (jobs, schema) = (format!("{stem}_jobs"), format!("{stem}_schema"));
        Tables { runs: runs.to_owned(), jobs, schema }
    }

    /// The statements that create everything, in order. Each may be repeated.
    pub fn ddl(&self, dialect: &dyn SqlDialect) -> Vec<String> {
        let mut statements =
            vec![self.jobs_ddl(dialect), self.runs_ddl(dialect), self.schema_ddl(dialect)];
        statements.push(dialect.unfinished_index(&self.runs));
        statements.extend(dialect.extra_tables(&self.runs));
        statements
    }

    fn jobs_ddl(&self, dialect: &dyn SqlDialect) -> String {
        let (big, key, long) = (dialect.bigint(), dialect.key_text(), dialect.long_text());
        format!(
            "CREATE TABLE IF NOT EXISTS {} (
  namespace {key} NOT NULL,
  job {key} NOT NULL,
  version {big} NOT NULL,
  stamp {key} NOT NULL,
  since {big} NOT NULL,
  floor {big} NOT NULL,
  fence {big} NOT NULL,
  ended {big} NOT NULL,
  keep_ms {big} NOT NULL,
  keep_slots {big} NOT NULL,
  keep_window_ms {big} NOT NULL,
  history_size {big} NOT NULL,
  history_ttl_ms {big},
  zone_tables {key} NOT NULL,
  schedule {long} NOT NULL,
  schedule_prev {long} NOT NULL,
  paused {long},
  missed {long},
  PRIMARY KEY (namespace, job)
)",
            self.jobs
        )
    }

    fn runs_ddl(&self, dialect: &dyn SqlDialect) -> String {
        let (big, key, long) = (dialect.bigint(), dialect.key_text(), dialect.long_text());
        format!(
            "CREATE TABLE IF NOT EXISTS {} (
  namespace {key} NOT NULL,
  job {key} NOT NULL,
  slot {big} NOT NULL,
  is_manual {big} NOT NULL,
  status {key},
  held_by {long} NOT NULL,
  claimed_at {big} NOT NULL,
  attempt {big} NOT NULL,
  fence {big} NOT NULL,
  crashes {big} NOT NULL,
  lease_until {big} NOT NULL,
  lease_ms {big} NOT NULL,
  max_takeovers {big} NOT NULL,
  released {big} NOT NULL,
  token {key} NOT NULL,
  ended_at {big},
  started_at {big},
  duration_ms {big},
  abandoned {big},
  output_truncated {big},
  error {long},
  output {long},
  PRIMARY KEY (namespace, job, slot, is_manual)
)",
            self.runs
        )
    }

    fn schema_ddl(&self, dialect: &dyn SqlDialect) -> String {
        let big = dialect.bigint();
        format!(
            "CREATE TABLE IF NOT EXISTS {} (
  id {big} NOT NULL PRIMARY KEY,
  major {big} NOT NULL,
  minor {big} NOT NULL
)",
            self.schema
        )
    }
}
