//! The statements that change something: what each sets, and by which key it finds its row.

use super::schema::{BODY_COLUMNS, RUN_COLUMNS, Tables};

/// A statement that changes one row, or several that are changed alike.
///
/// Its parameters are what it sets, and the key of each row, the namespace first. A guard raises
/// the version of a job's row, which it finds by the version that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Guard: inserts the row of a job that has none.
    InsertJob,
    /// Guard: nothing but the version and the stamp.
    Guard,
    /// Guard: adds to the fence and to the number of ended records.
    GuardCounters,
    /// Guard: all of the header but the missed ranges.
    GuardHeader,
    /// Guard: all of the header.
    GuardMissed,
    /// A new run.
    InsertRun,
    /// The lease of a run.
    RenewRun,
    /// The end of a run.
    EndRun,
    /// The end of a run with its body.
    EndRunBody,
    /// All of a run but its body.
    UpdateRun,
    /// All of a run.
    UpdateRunBody,
    /// A run that is dropped.
    DeleteRun,
}

/// What every guard of a row that is there sets.
const GUARD: [&str; 2] = ["stamp", "version"];

/// The columns of a job that [`Write::GuardHeader`] sets.
const HEADER: [&str; 13] = [
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

impl Write {
    /// The columns that it sets from parameters.
    pub(in crate::backends) fn set(self) -> Vec<&'static str> {
        let decided = RUN_COLUMNS.iter().map(|(name, _)| *name).skip(2);
        match self {
            Write::Guard => GUARD.to_vec(),
            Write::GuardCounters => GUARD.into_iter().chain(["fence", "ended"]).collect(),
            Write::GuardHeader => GUARD.into_iter().chain(HEADER).collect(),
            Write::GuardMissed => GUARD.into_iter().chain(HEADER).chain(["missed"]).collect(),
            Write::InsertJob => ["stamp"].into_iter().chain(HEADER).chain(["missed"]).collect(),
            Write::RenewRun => vec!["lease_until", "lease_ms"],
            Write::EndRun => vec!["status", "ended_at"],
            Write::EndRunBody => ["status", "ended_at"].into_iter().chain(BODY_COLUMNS).collect(),
            Write::UpdateRun => decided.collect(),
            Write::InsertRun | Write::UpdateRunBody => decided.chain(BODY_COLUMNS).collect(),
            Write::DeleteRun => Vec::new(),
        }
    }

    /// Whether a column is raised by its parameter, not set to it.
    pub(in crate::backends) fn adds(self, column: &str) -> bool {
        match self {
            Write::Guard | Write::GuardHeader | Write::GuardMissed => column == "version",
            Write::GuardCounters => column != "stamp",
            _ => false,
        }
    }

    /// The columns by which it finds a row, after the namespace.
    pub(in crate::backends) const fn key(self) -> &'static [&'static str] {
        match self {
            Write::InsertJob
            | Write::Guard
            | Write::GuardCounters
            | Write::GuardHeader
            | Write::GuardMissed => &["job", "version"],
            _ => &["job", "slot", "is_manual"],
        }
    }

    /// Whether it inserts: then every row has values of its own.
    pub(in crate::backends) const fn inserts(self) -> bool {
        matches!(self, Write::InsertJob | Write::InsertRun)
    }

    /// Whether several rows can go into one statement, given that they are set to the same.
    pub(super) const fn may_be_many(self) -> bool {
        matches!(
            self,
            Write::InsertJob
                | Write::InsertRun
                | Write::Guard
                | Write::GuardCounters
                | Write::RenewRun
                | Write::EndRun
                | Write::DeleteRun
        )
    }

    /// The statement for so many rows, with `?` for every parameter.
    pub(super) fn text(self, tables: &Tables, rows: usize) -> String {
        let is_job = self.key().contains(&"version");
        let table = if is_job { &tables.jobs } else { &tables.runs };
        if self.inserts() {
            let mut columns = self.set();
            columns.push("namespace");
            columns.extend(self.key());
            let row = format!("({})", vec!["?"; columns.len()].join(", "));
            let values = vec![row; rows].join(", ");
            return format!("INSERT INTO {table} ({}) VALUES {values}", columns.join(", "));
        }
        // The namespace stands in each alternative: only then every one of them is looked up.
        let key = ["namespace"].iter().chain(self.key()).map(|column| format!("{column} = ?"));
        let key = key.collect::<Vec<String>>().join(" AND ");
        let found = match rows {
            1 => format!("WHERE {key}"),
            _ => format!("WHERE {}", vec![format!("({key})"); rows].join(" OR ")),
        };
        if self == Write::DeleteRun {
            return format!("DELETE FROM {table} {found}");
        }
        let set = self.set().into_iter().map(|column| match self.adds(column) {
            true => format!("{column} = {column} + ?"),
            false => format!("{column} = ?"),
        });
        let set: Vec<String> = set.collect();
        format!("UPDATE {table} SET {} {found}", set.join(", "))
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
