//! The texts of all statements, made once per open store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::dialect::SqlDialect;
use super::schema::{BODY_COLUMNS, JOB_COLUMNS, RUN_COLUMNS, Tables};
use super::write::Write;
use crate::random::Random;

/// Which runs of a job a call must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Runs {
    /// None: the call is about the job itself.
    None,
    /// The scheduled and the manual run of some slots.
    OfSlots,
    /// Those, and all that have no status.
    OfSlotsAndOpen,
    /// All that have no status.
    Open,
    /// All.
    All,
}

impl Runs {
    /// Whether the slots asked for are parameters.
    pub(super) const fn by_slot(self) -> bool {
        matches!(self, Runs::OfSlots | Runs::OfSlotsAndOpen)
    }

    /// Whether all unfinished runs come.
    pub(super) const fn with_open(self) -> bool {
        matches!(self, Runs::OfSlotsAndOpen | Runs::Open | Runs::All)
    }

    /// What serves both.
    pub(super) const fn and(self, other: Runs) -> Runs {
        match (self, other) {
            (Runs::All, _) | (_, Runs::All) => Runs::All,
            (Runs::None, one) | (one, Runs::None) => one,
            (Runs::OfSlots, Runs::OfSlots) => Runs::OfSlots,
            (Runs::Open, Runs::Open) => Runs::Open,
            _ => Runs::OfSlotsAndOpen,
        }
    }
}

/// What a read brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    /// Which runs.
    pub(super) runs: Runs,
    /// Whether the ranges reported as missed come too.
    pub(super) missed: bool,
}

impl Scope {
    /// Everything but the ranges reported as missed.
    pub(super) const fn of(runs: Runs) -> Scope {
        Scope { runs, missed: false }
    }

    /// Everything.
    pub(super) const fn with_missed(runs: Runs) -> Scope {
        Scope { runs, missed: true }
    }

    /// What serves both.
    pub(super) const fn and(self, other: Scope) -> Scope {
        Scope { runs: self.runs.and(other.runs), missed: self.missed || other.missed }
    }

    /// The names of the columns that come back, in order.
    pub(super) fn columns(self) -> Vec<&'static str> {
        let mut columns = vec!["now_ms", "job"];
        columns.extend(JOB_COLUMNS);
        columns.extend(self.missed.then_some("missed"));
        if self.runs != Runs::None {
            columns.extend(RUN_COLUMNS.map(|(_, alias)| alias));
        }
        columns
    }
}

/// Lists of jobs and slots are padded to one of these lengths, so that there are few statements
/// for a driver to prepare.
const LENGTHS: [usize; 6] = [1, 4, 16, 64, 256, 1024];

/// The longest list of jobs in one statement. Far below what any database allows (SQLite: 32,766
/// parameters).
pub(super) const LONGEST: usize = LENGTHS[LENGTHS.len() - 1];

/// The length that a list of `len` is padded to.
pub(super) fn padded(len: usize) -> usize {
    LENGTHS.into_iter().find(|length| *length >= len).unwrap_or(LONGEST)
}

/// The least step of versions, and half of the most: 64 bits hold ten million million of them.
const LEAST_STEP: i64 = 1 << 19;

/// The texts of all statements for one dialect and one set of tables.
pub(super) struct Statements {
    pub(super) dialect: Arc<dyn SqlDialect>,
    pub(super) tables: Tables,
    /// By how much a version is raised, drawn anew for each open store. A store that loses what it
    /// had acknowledged goes back; by steps that differ, what is written after that never has the
    /// version of what was lost, which somebody may still remember (`own.rs`).
    pub(super) step: i64,
    reads: Mutex<HashMap<(Scope, usize, usize), Arc<str>>>,
    stamps: Mutex<HashMap<usize, Arc<str>>>,
    outlines: Mutex<HashMap<usize, Arc<str>>>,
    oldest: Mutex<HashMap<(usize, usize), Arc<str>>>,
    /// The texts of [`Write`]s that change one row, and of those that change several.
    writes: Mutex<HashMap<(Write, usize), Arc<str>>>,
    pub(super) history: Arc<str>,
    pub(super) schema_version: Arc<str>,
    pub(super) insert_schema_version: Arc<str>,
}

impl Statements {
    pub(super) fn new(dialect: Arc<dyn SqlDialect>, tables: Tables, random: &Random) -> Statements {
        let Tables { runs, schema, .. } = &tables;
        let text = |sql: String| Arc::<str>::from(dialect.placeholders(&sql));
        let shown: Vec<&str> =
            RUN_COLUMNS.map(|(name, _)| name).into_iter().chain(BODY_COLUMNS).collect();
        Statements {
            history: text(format!(
                "SELECT {} AS now_ms, {} FROM {runs} WHERE namespace = ? AND job = ? \
                 ORDER BY slot DESC, is_manual DESC LIMIT ?",
                dialect.now_ms(),
                shown.join(", ")
            )),
            schema_version: text(format!("SELECT major, minor FROM {schema} WHERE id = 1")),
            insert_schema_version: text(dialect.insert_if_absent(&format!(
                "INSERT INTO {schema} (id, major, minor) VALUES (?, ?, ?)"
            ))),
            reads: Mutex::default(),
            stamps: Mutex::default(),
            outlines: Mutex::default(),
            oldest: Mutex::default(),
            writes: Mutex::default(),
            step: LEAST_STEP + random.up_to(LEAST_STEP - 1),
            tables,
            dialect,
        }
    }

    /// The text of a write to so many rows at once.
    pub(super) fn write(&self, write: Write, rows: usize) -> Arc<str> {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let text = write.text(&self.tables, rows);
            let text = match write {
                Write::InsertJob => self.dialect.insert_if_absent(&text),
                _ => text,
            };
            self.dialect.placeholders(&text).into()
        };
        writes.entry((write, rows)).or_insert_with(make).clone()
    }

    /// One unlocked statement that brings the header of `jobs` jobs, the runs of the scope, and
    /// the store's clock: at least one row, also if no job is there. Its parameters are the
    /// namespace and the jobs, and where the scope is by slot the slots; for one job with slots and
    /// open runs all of them twice, and an open run that is of none of the slots is then a row
    /// without a header.
    pub(super) fn read(&self, scope: Scope, jobs: usize, slots: usize) -> Arc<str> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || self.dialect.placeholders(&self.read_text(scope, jobs, slots)).into();
        reads.entry((scope, jobs, slots)).or_insert_with(make).clone()
    }

    fn read_text(&self, scope: Scope, jobs: usize, slots: usize) -> String {
        let mut columns = vec![format!("{} AS now_ms", self.dialect.now_ms())];
        columns.push("j.job AS job".to_owned());
        columns.extend(header_columns(scope).map(|column| format!("j.{column} AS {column}")));
        if scope.runs != Runs::None {
            columns.extend(columns_of_run());
        }
        let (job, slot) = (one_of("job", jobs), one_of("slot", slots));
        let Tables { jobs: of_jobs, runs, .. } = &self.tables;
        let of_job = format!("LEFT JOIN {runs} r ON r.namespace = j.namespace AND r.job = j.job");
        // Of one job both are looked up, however many records it has: a database that reads rows
        // of two kinds in one condition reads all, and one that joins two reads in one writes
        // them down first. Of many the other way to write it is the faster one.
        let apart = scope.runs == Runs::OfSlotsAndOpen && jobs == 1;
        let join = match scope.runs {
            Runs::None => String::new(),
            Runs::OfSlotsAndOpen if !apart => {
                format!("{of_job} AND (r.{slot} OR r.status IS NULL)")
            }
            Runs::OfSlots | Runs::OfSlotsAndOpen => format!("{of_job} AND r.{slot}"),
            Runs::Open => format!("{of_job} AND r.status IS NULL"),
            Runs::All => of_job,
        };
        let open = if apart { self.open_runs_text(scope, &job, &slot) } else { String::new() };
        let text = format!(
            "SELECT {} FROM (SELECT 1 AS here) o LEFT JOIN {of_jobs} j \
             ON j.namespace = ? AND j.{job} {join}{open}",
            columns.join(", ")
        );
        text.trim_end().to_owned()
    }

    /// The second half of a read: the open runs of a job that are of none of the slots, without
    /// the clock and the header.
    fn open_runs_text(&self, scope: Scope, job: &str, slot: &str) -> String {
        let mut columns = vec!["NULL AS now_ms".to_owned(), "r.job AS job".to_owned()];
        columns.extend(header_columns(scope).map(|column| format!("NULL AS {column}")));
        columns.extend(columns_of_run());
        format!(
            " UNION ALL SELECT {} FROM {} r WHERE r.namespace = ? AND r.{job} \
             AND r.status IS NULL AND NOT (r.{slot})",
            columns.join(", "),
            self.tables.runs
        )
    }

    /// Reads of all runs of some jobs what trimming goes by, in the order of [`OUTLINES`].
    pub(super) fn outlines(&self, jobs: usize) -> Arc<str> {
        let mut outlines = self.outlines.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let text = format!(
                "SELECT {}, j.version AS version FROM {} j JOIN {} r \
                 ON r.namespace = j.namespace AND r.job = j.job \
                 WHERE j.namespace = ? AND j.job IN ({})",
                OUTLINE.map(|column| format!("r.{column} AS {column}")).join(", "),
                self.tables.jobs,
                self.tables.runs,
                vec!["?"; jobs].join(", ")
            );
            self.dialect.placeholders(&text).into()
        };
        outlines.entry(jobs).or_insert_with(make).clone()
    }

    /// Reads the same of the oldest ended runs of some jobs and of their unfinished ones, and
    /// counts all, in the order of [`OLDEST`]. For each job its parameters are three times the
    /// namespace and the job. (SQLite prepares a statement afresh each time if `LIMIT` is a
    /// parameter.)
    pub(super) fn oldest(&self, jobs: usize, limit: usize) -> Arc<str> {
        let mut oldest = self.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let outline = OUTLINE.join(", ");
            let shown = OUTLINE.map(|column| format!("t.{column} AS {column}")).join(", ");
            let of_job = format!("FROM {} WHERE namespace = ? AND job = ?", self.tables.runs);
            let part = format!(
                "SELECT {shown}, c.total AS total, c.scheduled AS scheduled FROM \
                 (SELECT COUNT(*) AS total, COUNT(CASE WHEN is_manual = 0 THEN 1 END) AS scheduled \
                 {of_job}) c CROSS JOIN \
                 (SELECT * FROM (SELECT {outline} {of_job} \
                 AND (status IS NOT NULL OR lease_ms = 0) ORDER BY slot, is_manual LIMIT {limit}) a \
                 UNION ALL SELECT {outline} {of_job} AND status IS NULL AND lease_ms > 0) t"
            );
            self.dialect.placeholders(&vec![part; jobs].join(" UNION ALL ")).into()
        };
        oldest.entry((jobs, limit)).or_insert_with(make).clone()
    }

    /// Locks the rows of some jobs in the order of their names; `None` where rows are not locked.
    pub(super) fn locks(&self, jobs: usize) -> Option<String> {
        let for_update = self.dialect.for_update();
        if for_update.is_empty() {
            return None;
        }
        let text = format!(
            "SELECT job FROM {} WHERE namespace = ? AND job IN ({}) ORDER BY job {for_update}",
            self.tables.jobs,
            vec!["?"; jobs].join(", ")
        );
        Some(self.dialect.placeholders(&text))
    }

    /// Reads the stamps of some jobs back, to see whose change it was.
    pub(super) fn stamps(&self, jobs: usize) -> Arc<str> {
        let mut stamps = self.stamps.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let text = format!(
                "SELECT job, stamp FROM {} WHERE namespace = ? AND job IN ({}) {}",
                self.tables.jobs,
                vec!["?"; jobs].join(", "),
                self.dialect.for_update()
            );
            self.dialect.placeholders(text.trim_end()).into()
        };
        stamps.entry(jobs).or_insert_with(make).clone()
    }
}

/// The columns of a job's header, in the order in which a read brings them.
fn header_columns(scope: Scope) -> impl Iterator<Item = &'static str> {
    JOB_COLUMNS.into_iter().chain(scope.missed.then_some("missed"))
}

/// The columns of a run, each under the name that it has beside a header.
fn columns_of_run() -> impl Iterator<Item = String> {
    RUN_COLUMNS.into_iter().map(|(name, alias)| format!("r.{name} AS {alias}"))
}

/// The condition that a column holds one of so many parameters.
fn one_of(column: &str, count: usize) -> String {
    match count {
        1 => format!("{column} = ?"),
        _ => format!("{column} IN ({})", vec!["?"; count].join(", ")),
    }
}

/// What trimming goes by.
const OUTLINE: [&str; 7] =
    ["job", "slot", "is_manual", "status", "ended_at", "claimed_at", "lease_ms"];

/// The columns of [`Statements::outlines`].
pub(super) const OUTLINES: [&str; 8] =
    ["job", "slot", "is_manual", "status", "ended_at", "claimed_at", "lease_ms", "version"];

/// The columns of [`Statements::oldest`].
pub(super) const OLDEST: [&str; 9] = [
    "job",
    "slot",
    "is_manual",
    "status",
    "ended_at",
    "claimed_at",
    "lease_ms",
    "total",
    "scheduled",
];
