//! From a verdict to guarded writes.

use std::sync::Arc;

use super::client::SqlValue;
use super::decide::{Verdict, Written};
use super::load::Loaded;
use super::statements::{Scope, Statements};
use super::write::Write;
use crate::backend::contract::StoredResult;
use crate::error::{Error, Result};
use crate::lease::model::{JobHeader, Run, RunKey};

/// A statement with its parameters.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub write: Write,
    /// The statement for one row, in the form of the dialect.
    pub sql: Arc<str>,
    /// Its parameters: what it sets, the namespace, the rest of the key.
    pub params: Vec<SqlValue>,
}

impl Step {
    fn new(
        statements: &Statements,
        write: Write,
        set: impl IntoIterator<Item = SqlValue>,
        key: impl IntoIterator<Item = SqlValue>,
    ) -> Step {
        let params: Vec<SqlValue> = set.into_iter().chain(key).collect();
        Step { write, sql: statements.write(write, 1), params }
    }

    /// The values that it sets.
    pub(super) fn set(&self) -> &[SqlValue] {
        self.params.split_at(self.params.len() - 1 - self.write.key().len()).0
    }

    /// The namespace and the rest of the key.
    pub(super) fn key(&self) -> &[SqlValue] {
        self.params.split_at(self.params.len() - 1 - self.write.key().len()).1
    }
}

/// The change of one job, guarded by the version that was loaded.
///
/// `guard` raises the version, or inserts the job's row. It holds if it changed exactly one row.
/// Only then `rest` may run, in the same transaction.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The job.
    pub job: String,
    /// The guard; its first parameter is the stamp.
    pub guard: Step,
    /// What is written if the guard holds: every step changes exactly one row.
    pub rest: Vec<Step>,
}

/// Whose change is planned, and what was loaded for it.
pub(super) struct Plan<'a> {
    pub(super) statements: &'a Statements,
    pub(super) namespace: &'a str,
    pub(super) job: &'a str,
    pub(super) loaded: &'a Loaded,
    pub(super) scope: Scope,
}

impl Plan<'_> {
    /// The guarded change of one job.
    pub(super) fn unit(&self, verdict: &mut Verdict, stamp: String) -> Result<Unit> {
        let guard = self.guard(verdict, stamp)?;
        let mut rest = Vec::with_capacity(verdict.runs.len());
        for (key, written) in std::mem::take(&mut verdict.runs) {
            rest.extend(self.step(key, written)?);
        }
        Ok(Unit { job: self.job.to_owned(), guard, rest })
    }

    fn of_job(&self) -> [SqlValue; 2] {
        [SqlValue::Text(self.namespace.to_owned()), SqlValue::Text(self.job.to_owned())]
    }

    fn guard(&self, verdict: &Verdict, stamp: String) -> Result<Step> {
        let (loaded, after) = (self.loaded, &verdict.state.header);
        let before = &loaded.state.header;
        let counters_only = JobHeader { fence: after.fence, ..before.clone() } == *after
            && loaded.stored_ended == loaded.ended;
        let write = match loaded.version {
            None => Write::InsertJob,
            Some(_) if counters_only => {
                let same = before.fence == after.fence && loaded.ended == verdict.ended;
                if same { Write::Guard } else { Write::GuardCounters }
            }
            Some(_) if self.scope.missed && before.missed != after.missed => Write::GuardMissed,
            Some(_) => Write::GuardHeader,
        };
        let step = SqlValue::Int(self.statements.step);
        let mut set = vec![SqlValue::Text(stamp)];
        set.extend((write != Write::InsertJob).then(|| step.clone()));
        match write {
            Write::GuardCounters => set.extend([
                SqlValue::Int(after.fence - before.fence),
                SqlValue::Int(verdict.ended - loaded.ended),
            ]),
            Write::GuardHeader => set.extend(header(after, verdict.ended)?),
            Write::InsertJob | Write::GuardMissed => {
                set.extend(header(after, verdict.ended)?);
                let some = (!after.missed.is_empty()).then_some(&after.missed);
                set.push(SqlValue::optional_text(some.map(json).transpose()?));
            }
            _ => {}
        }
        let version = loaded.version.map_or(step, SqlValue::Int);
        Ok(Step::new(self.statements, write, set, self.of_job().into_iter().chain([version])))
    }

    /// What becomes of one run; nothing for one that came and went within the same calls.
    fn step(&self, key: RunKey, written: Option<Written>) -> Result<Option<Step>> {
        let before = self.loaded.state.runs.get(&key);
        let of_run = [SqlValue::Int(key.slot), SqlValue::Int(i64::from(key.manual))];
        let of_run = self.of_job().into_iter().chain(of_run);
        let Some(Written { run, result }) = written else {
            let step = || Step::new(self.statements, Write::DeleteRun, [], of_run);
            return Ok(before.map(|_| step()));
        };
        let body = result.as_deref().map(body).transpose()?;
        let (write, set) = match (before, body) {
            (None, body) => {
                let body = body.unwrap_or_else(|| vec![SqlValue::Null; 6]);
                (Write::InsertRun, [decided(&run).to_vec(), body].concat())
            }
            (Some(before), None) if renewed(before, &run) == run => {
                (Write::RenewRun, vec![SqlValue::Int(run.lease_until), SqlValue::Int(run.lease_ms)])
            }
            (Some(before), body) if ended(before, &run) == run => match body {
                None => (Write::EndRun, end(&run).to_vec()),
                Some(body) => (Write::EndRunBody, [end(&run).to_vec(), body].concat()),
            },
            (Some(_), None) => (Write::UpdateRun, decided(&run).to_vec()),
            (Some(_), Some(body)) => {
                (Write::UpdateRunBody, [decided(&run).to_vec(), body].concat())
            }
        };
        Ok(Some(Step::new(self.statements, write, set, of_run)))
    }
}

/// The run as it was, with the lease of what it is now.
fn renewed(before: &Run, now: &Run) -> Run {
    Run { lease_until: now.lease_until, lease_ms: now.lease_ms, ..before.clone() }
}

/// The run as it was, with the end of what it is now.
fn ended(before: &Run, now: &Run) -> Run {
    Run { status: now.status, ended_at: now.ended_at, ..before.clone() }
}

fn header(header: &JobHeader, ended: i64) -> Result<[SqlValue; 13]> {
    Ok([
        SqlValue::Text(header.schedule.clone()),
        SqlValue::Text(header.schedule_prev.clone()),
        SqlValue::Text(header.zone_tables.clone()),
        SqlValue::Int(header.since),
        SqlValue::Int(header.floor),
        SqlValue::Int(header.fence),
        SqlValue::Int(header.keep_ms),
        SqlValue::Int(header.keep_slots),
        SqlValue::Int(header.keep_window_ms),
        SqlValue::Int(header.history_size),
        SqlValue::optional_int(header.history_ttl_ms),
        SqlValue::Int(ended),
        SqlValue::optional_text(header.paused.as_ref().map(json).transpose()?),
    ])
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::unavailable(format!("a value cannot be written as JSON: {error}")))
}

fn end(run: &Run) -> [SqlValue; 2] {
    let status = run.status.map(|status| status.as_str().to_owned());
    [SqlValue::optional_text(status), SqlValue::optional_int(run.ended_at)]
}

/// In the order of [`super::schema::RUN_COLUMNS`], without the key.
fn decided(run: &Run) -> [SqlValue; 12] {
    let [status, ended_at] = end(run);
    [
        SqlValue::Text(run.token.clone()),
        SqlValue::Text(run.by.clone()),
        SqlValue::Int(run.at),
        SqlValue::Int(run.attempt),
        SqlValue::Int(run.fence),
        SqlValue::Int(run.crashes),
        SqlValue::Int(run.lease_until),
        SqlValue::Int(run.lease_ms),
        SqlValue::Int(run.max_takeovers),
        SqlValue::Int(i64::from(run.released)),
        status,
        ended_at,
    ]
}

/// In the order of [`super::schema::BODY_COLUMNS`].
fn body(result: &StoredResult) -> Result<Vec<SqlValue>> {
    let truth = |flag: Option<bool>| SqlValue::optional_int(flag.map(i64::from));
    let duration_ms = result.ended_at.saturating_sub(result.started_at).max(0);
    Ok(vec![
        SqlValue::Int(result.started_at),
        SqlValue::Int(duration_ms),
        truth(result.abandoned),
        truth(result.output_truncated),
        SqlValue::optional_text(result.error.as_ref().map(json).transpose()?),
        SqlValue::optional_text(result.output.clone()),
    ])
}
