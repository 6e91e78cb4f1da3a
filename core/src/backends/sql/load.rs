//! From rows to the state that is decided upon.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use super::client::{Row, SqlValue};
use super::schema::{BODY_COLUMNS, RUN_COLUMNS};
use super::statements::{OLDEST, OUTLINES, Runs, Scope};
use crate::backend::contract::{ErrorInfo, StoredResult};
use crate::error::{Code, Error, Result};
use crate::lease::model::{JobHeader, JobState, MissedRange, Paused, Run, RunKey, Status};
use crate::lease::rules::Unseen;

/// What a read brought of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Loaded {
    /// The version that a change is guarded by; `None` if the job has no row.
    pub(super) version: Option<i64>,
    /// How many of its records have ended, whether they have been read or not.
    pub(super) ended: i64,
    /// The same number as it stands in the job's row.
    pub(super) stored_ended: i64,
    /// What has been read of its state.
    pub(super) state: JobState,
    /// What is known of the rest.
    pub(super) unseen: Unseen,
    /// It was changed between two reads: what was read of it does not belong together.
    pub(super) torn: bool,
}

impl Loaded {
    /// What is known after a decision on it has been applied: the unfinished runs that were known
    /// before, and of the ended ones those that trimming comes to next. `step` is what the version
    /// was raised by.
    pub(super) fn after(&self, mut state: JobState, ended: i64, step: i64) -> Loaded {
        let mut unseen = self.unseen;
        state.runs.retain(|key, run| {
            let is_kept = run.is_unfinished() || unseen.newer_than >= Some(*key);
            unseen.ended += i64::from(!is_kept);
            unseen.scheduled += i64::from(!is_kept && !key.manual);
            is_kept
        });
        if unseen.newer_than.is_none() {
            unseen = Unseen::default();
        }
        let version = Some(self.version.unwrap_or(0).saturating_add(step));
        Loaded { version, ended, stored_ended: ended, state, unseen, torn: false }
    }

    /// How many of the oldest ended runs are known.
    pub(super) fn oldest(&self) -> usize {
        let newest = self.unseen.newer_than;
        let runs = self.state.runs.values();
        runs.filter(|run| !run.is_unfinished() && Some(run.key()) <= newest).count()
    }

    /// Once all runs are here, they are counted afresh.
    fn count_ended(&mut self) {
        self.ended = count(self.state.runs.values().filter(|run| !run.is_unfinished()));
        self.unseen = Unseen::default();
    }

    /// Adds what trimming goes by, unless the run has been read already.
    fn add(&mut self, outline: Run) {
        self.state.runs.entry(outline.key()).or_insert(outline);
    }
}

fn count<'a>(runs: impl Iterator<Item = &'a Run>) -> i64 {
    i64::try_from(runs.count()).unwrap_or(i64::MAX)
}

/// Adds the outlines of all runs of some jobs.
pub(super) fn add_outlines(
    read: &mut HashMap<String, Loaded>,
    jobs: &[&str],
    rows: Vec<Row>,
) -> Result<()> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for row in rows {
        let values = row.into_order(&OUTLINES)?;
        let mut cells = Cells::new(&OUTLINES, &values);
        let job = cells.text()?;
        let Some(loaded) = read.get_mut(job.as_ref()) else { continue };
        loaded.add(read_outline(&mut cells)?);
        loaded.torn |= loaded.version != Some(cells.whole()?);
        match seen.get_mut(job.as_ref()) {
            Some(count) => *count += 1,
            None => drop(seen.insert(job.into_owned(), 1)),
        }
    }
    for job in jobs {
        if let Some(loaded) = read.get_mut(*job) {
            // A run that was read before and is not there any more has been dropped since.
            loaded.torn |= loaded.state.runs.len() != seen.get(*job).copied().unwrap_or(0);
            loaded.count_ended();
        }
    }
    Ok(())
}

/// Adds the outlines of the oldest ended runs of some jobs and of all their unfinished ones. Should
/// a job have been changed since the first read, its version was raised, and no guard holds.
pub(super) fn add_oldest(
    read: &mut HashMap<String, Loaded>,
    jobs: &[&str],
    rows: Vec<Row>,
) -> Result<()> {
    let mut totals: HashMap<String, (i64, i64)> = HashMap::new();
    for row in rows {
        let values = row.into_order(&OLDEST)?;
        let mut cells = Cells::new(&OLDEST, &values);
        let job = cells.text()?;
        let Some(loaded) = read.get_mut(job.as_ref()) else { continue };
        let outline = read_outline(&mut cells)?;
        if !outline.is_unfinished() {
            loaded.unseen.newer_than = loaded.unseen.newer_than.max(Some(outline.key()));
        }
        loaded.add(outline);
        if !totals.contains_key(job.as_ref()) {
            totals.insert(job.into_owned(), (cells.whole()?, cells.whole()?));
        }
    }
    for job in jobs {
        let Some(loaded) = read.get_mut(*job) else { continue };
        let (total, scheduled) = totals.get(*job).copied().unwrap_or_default();
        let runs = &loaded.state.runs;
        loaded.ended = total - count(runs.values().filter(|run| run.is_unfinished()));
        loaded.unseen.ended = total - count(runs.values());
        loaded.unseen.scheduled = scheduled - count(runs.values().filter(|run| !run.manual));
        loaded.torn |= loaded.unseen.ended < 0;
    }
    Ok(())
}

/// In the order of [`OUTLINES`] and [`OLDEST`], behind the job.
fn read_outline(cells: &mut Cells<'_>) -> Result<Run> {
    let key = RunKey { slot: cells.whole()?, manual: cells.truth()? };
    Ok(Run {
        status: cells.optional_status()?,
        ended_at: cells.optional_whole()?,
        at: cells.whole()?,
        lease_ms: cells.whole()?,
        ..Run::blank(key)
    })
}

/// What a read brought.
#[derive(Debug)]
pub(super) struct Read {
    /// The store's clock (ms).
    pub(super) now: i64,
    /// The jobs that have a row.
    pub(super) jobs: HashMap<String, Loaded>,
}

impl Read {
    /// Before anything was read.
    pub(super) fn nothing() -> Read {
        Read { now: i64::MIN, jobs: HashMap::new() }
    }

    /// What was read of a job; an empty state if it has no row.
    pub(super) fn job(&self, job: &str) -> &Loaded {
        static NOTHING: LazyLock<Loaded> = LazyLock::new(Loaded::default);
        self.jobs.get(job).unwrap_or(&NOTHING)
    }
}

/// Reads the rows of a statement of [`super::statements::Statements::read`].
pub(super) fn read_rows(scope: Scope, rows: Vec<Row>) -> Result<Read> {
    let columns = scope.columns();
    let mut now = None;
    let mut jobs: HashMap<String, Loaded> = HashMap::new();
    let mut rows: Vec<Vec<SqlValue>> =
        rows.into_iter().map(|row| row.into_order(&columns)).collect::<Result<_>>()?;
    // The rows come in any order; one without the header of its job is read after the header.
    rows.sort_by_key(|values| values[2].is_null());
    for values in rows {
        let mut cells = Cells::new(&columns, &values);
        now = cells.optional_whole()?.or(now);
        if values[1].is_null() {
            continue;
        }
        let job = cells.text()?;
        match jobs.get_mut(job.as_ref()) {
            Some(loaded) => read_run_into(loaded, scope, &mut cells.behind_header(scope))?,
            None if values[2].is_null() => {}
            None => {
                let mut loaded = read_header(scope, &mut cells)?;
                read_run_into(&mut loaded, scope, &mut cells)?;
                jobs.insert(job.into_owned(), loaded);
            }
        }
    }
    if scope.runs == Runs::All {
        jobs.values_mut().for_each(Loaded::count_ended);
    }
    let now = now.ok_or_else(|| {
        Error::unavailable("the database answered a read with no row at all; at least one was due")
    })?;
    Ok(Read { now, jobs })
}

fn read_header(scope: Scope, cells: &mut Cells<'_>) -> Result<Loaded> {
    let version = Some(cells.whole()?);
    let mut header = JobHeader {
        schedule: cells.text()?.into_owned(),
        schedule_prev: cells.text()?.into_owned(),
        zone_tables: cells.text()?.into_owned(),
        since: cells.whole()?,
        floor: cells.whole()?,
        fence: cells.whole()?,
        keep_ms: cells.whole()?,
        keep_slots: cells.whole()?,
        keep_window_ms: cells.whole()?,
        history_size: cells.whole()?,
        history_ttl_ms: cells.optional_whole()?,
        paused: None,
        missed: Vec::new(),
    };
    let ended = cells.whole()?;
    header.paused = cells.optional_json::<Paused>()?;
    if scope.missed {
        header.missed = cells.optional_json::<Vec<MissedRange>>()?.unwrap_or_default();
    }
    let stored_ended = ended;
    let state = JobState { header, ..JobState::default() };
    Ok(Loaded { version, ended, stored_ended, state, ..Loaded::default() })
}

fn read_run_into(loaded: &mut Loaded, scope: Scope, cells: &mut Cells<'_>) -> Result<()> {
    if scope.runs == Runs::None || cells.peek().is_null() {
        return Ok(());
    }
    let run = read_run(cells)?;
    loaded.state.runs.insert(run.key(), run);
    Ok(())
}

fn read_run(cells: &mut Cells<'_>) -> Result<Run> {
    Ok(Run {
        slot: cells.whole()?,
        manual: cells.truth()?,
        token: cells.text()?.into_owned(),
        by: cells.text()?.into_owned(),
        at: cells.whole()?,
        attempt: cells.whole()?,
        fence: cells.whole()?,
        crashes: cells.whole()?,
        lease_until: cells.whole()?,
        lease_ms: cells.whole()?,
        max_takeovers: cells.whole()?,
        released: cells.truth()?,
        status: cells.optional_status()?,
        ended_at: cells.optional_whole()?,
    })
}

/// The columns of a row of the history, in order.
pub(super) fn history_columns() -> Vec<&'static str> {
    let shown = RUN_COLUMNS.iter().map(|(name, _)| *name).chain(BODY_COLUMNS);
    ["now_ms"].into_iter().chain(shown).collect()
}

/// One row of the history: the store's clock, the run, and its body if it has one.
pub(super) fn read_history_row(row: Row) -> Result<(i64, Run, Option<StoredResult>)> {
    let columns = history_columns();
    let values = row.into_order(&columns)?;
    let mut cells = Cells::new(&columns, &values);
    let now = cells.whole()?;
    let run = read_run(&mut cells)?;
    let started_at = cells.optional_whole()?;
    let duration_ms = cells.optional_whole()?.unwrap_or(0);
    let abandoned = cells.optional_truth()?;
    let output_truncated = cells.optional_truth()?;
    let error = cells.optional_json::<ErrorInfo>()?;
    let output = cells.optional_text()?.map(Cow::into_owned);
    let result = started_at.map(|started_at| StoredResult {
        slot: run.slot,
        manual: run.manual,
        by: run.by.clone(),
        status: run.status.unwrap_or(Status::Unfinished),
        started_at,
        ended_at: started_at.saturating_add(duration_ms),
        attempt: None,
        error,
        output,
        output_truncated,
        abandoned,
    });
    Ok((now, run, result))
}

/// The values of a row, read one after the other.
struct Cells<'a> {
    columns: &'a [&'static str],
    values: &'a [SqlValue],
    next: usize,
}

impl<'a> Cells<'a> {
    fn new(columns: &'a [&'static str], values: &'a [SqlValue]) -> Cells<'a> {
        Cells { columns, values, next: 0 }
    }

    fn peek(&self) -> &'a SqlValue {
        &self.values[self.next]
    }

    fn skip(&mut self, count: usize) {
        self.next += count;
    }

    /// The cells of the run, after those of the job, the first of which has been read.
    fn behind_header(mut self, scope: Scope) -> Self {
        self.skip(super::schema::JOB_COLUMNS.len() + usize::from(scope.missed));
        self
    }

    fn take<T>(
        &mut self,
        wanted: &str,
        read: impl FnOnce(&'a SqlValue) -> Option<T>,
    ) -> Result<Option<T>> {
        let (value, column) = (self.peek(), self.columns[self.next]);
        self.next += 1;
        if value.is_null() {
            return Ok(None);
        }
        let refused = || {
            Error::new(
                Code::BackendRefused,
                format!("the column {column} of the database holds {value:?}; wanted is {wanted}"),
            )
        };
        read(value).map(Some).ok_or_else(refused)
    }

    fn required<T>(&self, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            let column = self.columns[self.next - 1];
            Error::new(
                Code::BackendRefused,
                format!("the column {column} of the database is empty, which it must not be"),
            )
        })
    }

    fn optional_whole(&mut self) -> Result<Option<i64>> {
        self.take("a whole number", SqlValue::whole)
    }

    fn whole(&mut self) -> Result<i64> {
        let value = self.optional_whole()?;
        self.required(value)
    }

    fn optional_truth(&mut self) -> Result<Option<bool>> {
        self.take("true or false", SqlValue::truth)
    }

    fn truth(&mut self) -> Result<bool> {
        let value = self.optional_truth()?;
        self.required(value)
    }

    fn optional_text(&mut self) -> Result<Option<Cow<'a, str>>> {
        self.take("text", SqlValue::text)
    }

    fn text(&mut self) -> Result<Cow<'a, str>> {
        let value = self.optional_text()?;
        self.required(value)
    }

    fn optional_status(&mut self) -> Result<Option<Status>> {
        self.take("the status of a run", |value| Status::parse(&value.text()?))
    }

    fn optional_json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>> {
        self.take("JSON text", |value| serde_json::from_str(&value.text()?).ok())
    }
}
