//! From changes to guarded statements, and how they are applied in a transaction.

use std::sync::{Arc, Mutex, PoisonError};

use super::client::{Row, SqlClient, SqlQueryable, SqlValue};
use super::decide::{Verdict, Written};
use super::load::Loaded;
use super::statements::{LONGEST, Scope, Statements, padded};
use crate::error::{Error, Result};
use crate::lease::model::{JobHeader, Run, RunKey};
use crate::random::Random;

/// A statement with its parameters.
#[derive(Clone, Debug)]
pub struct Step {
    /// The statement, in the form of the dialect.
    pub sql: Arc<str>,
    /// Its parameters.
    pub params: Vec<SqlValue>,
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
    /// What is written if the guard holds.
    pub rest: Vec<Step>,
}

/// The guarded change of one job.
pub(super) fn unit(
    statements: &Statements,
    namespace: &str,
    job: &str,
    loaded: &Loaded,
    scope: Scope,
    verdict: Verdict,
    stamp: String,
) -> Result<Unit> {
    let of_job = [SqlValue::Text(namespace.to_owned()), SqlValue::Text(job.to_owned())];
    let guard = guard(statements, &of_job, loaded, scope, &verdict, stamp)?;
    let mut rest = Vec::with_capacity(verdict.runs.len());
    for (key, written) in verdict.runs {
        let known = loaded.state.runs.contains_key(&key);
        let of_run = of_job.clone().into_iter().chain(run_key(key));
        let step = match written {
            Some(Written { run, result }) => {
                let body = match &result {
                    Some(result) => Some(body(result)?),
                    None => None,
                };
                let sql = match (known, body.is_some()) {
                    (false, _) => &statements.insert_run,
                    (true, false) => &statements.update_run,
                    (true, true) => &statements.update_run_body,
                };
                let empty = (!known).then(|| vec![SqlValue::Null; 6]);
                let body = body.or(empty).into_iter().flatten();
                let params = decided(&run).into_iter().chain(body).chain(of_run).collect();
                Step { sql: sql.clone(), params }
            }
            None if known => Step { sql: statements.delete_run.clone(), params: of_run.collect() },
            None => continue,
        };
        rest.push(step);
    }
    Ok(Unit { job: job.to_owned(), guard, rest })
}

fn guard(
    statements: &Statements,
    of_job: &[SqlValue],
    loaded: &Loaded,
    scope: Scope,
    verdict: &Verdict,
    stamp: String,
) -> Result<Step> {
    let (before, after) = (&loaded.state.header, &verdict.header);
    let only_grants = JobHeader { fence: after.fence, ..before.clone() } == *after;
    let mut params = vec![SqlValue::Text(stamp)];
    let sql = match loaded.version {
        None => &statements.insert_job,
        Some(_) if only_grants && before.fence == after.fence && loaded.ended == verdict.ended => {
            &statements.guard
        }
        Some(_) if only_grants => {
            params.extend([SqlValue::Int(after.fence), SqlValue::Int(verdict.ended)]);
            &statements.guard_grant
        }
        Some(_) if scope.missed && before.missed != after.missed => &statements.guard_missed,
        Some(_) => &statements.guard_header,
    };
    let inserts = loaded.version.is_none();
    let sets_missed = inserts || Arc::ptr_eq(sql, &statements.guard_missed);
    if sets_missed || Arc::ptr_eq(sql, &statements.guard_header) {
        params.extend(header(after, verdict.ended)?);
    }
    if sets_missed {
        let some = (!after.missed.is_empty()).then_some(&after.missed);
        params.push(SqlValue::optional_text(some.map(|missed| json(missed)).transpose()?));
    }
    params.extend_from_slice(of_job);
    params.push(SqlValue::Int(loaded.version.unwrap_or(1)));
    Ok(Step { sql: sql.clone(), params })
}

/// In the order of [`super::statements::HEADER_SET`].
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
        SqlValue::optional_text(header.paused.as_ref().map(|paused| json(paused)).transpose()?),
    ])
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::unavailable(format!("a value cannot be written as JSON: {error}")))
}

fn run_key(key: RunKey) -> [SqlValue; 2] {
    [SqlValue::Int(key.slot), SqlValue::Int(i64::from(key.manual))]
}

/// In the order of [`super::schema::RUN_COLUMNS`], without the key.
fn decided(run: &Run) -> [SqlValue; 12] {
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
        SqlValue::optional_text(run.status.map(|status| status.as_str().to_owned())),
        SqlValue::optional_int(run.ended_at),
    ]
}

/// In the order of [`super::schema::BODY_COLUMNS`].
fn body(result: &crate::backend::contract::StoredResult) -> Result<Vec<SqlValue>> {
    let truth = |flag: Option<bool>| SqlValue::optional_int(flag.map(i64::from));
    let duration_ms = result.ended_at.saturating_sub(result.started_at).max(0);
    Ok(vec![
        SqlValue::Int(result.started_at),
        SqlValue::Int(duration_ms),
        truth(result.abandoned),
        truth(result.output_truncated),
        SqlValue::optional_text(result.error.as_ref().map(|error| json(error)).transpose()?),
        SqlValue::optional_text(result.output.clone()),
    ])
}

/// Applies units in one transaction of any client: first all guards, in the order of the jobs'
/// names; then the stamps are read back, for `all` gives no row counts; then the changes of those
/// whose guard held. Answers for each unit whether it did.
pub(super) async fn apply_in_transaction(
    client: &dyn SqlClient,
    statements: &Arc<Statements>,
    random: &Arc<Random>,
    units: &Arc<[Unit]>,
) -> Result<Vec<bool>> {
    let held: Arc<Mutex<Vec<bool>>> = Arc::default();
    let body = {
        let (statements, units, random) = (statements.clone(), units.clone(), random.clone());
        let held = held.clone();
        move |tx: Arc<dyn SqlQueryable>| {
            let (statements, units, random) = (statements.clone(), units.clone(), random.clone());
            let held = held.clone();
            let run = async move {
                let answers = apply_all(tx, &statements, &random, &units).await?;
                *held.lock().unwrap_or_else(PoisonError::into_inner) = answers;
                Ok(())
            };
            Box::pin(run) as futures_util::future::BoxFuture<'static, Result<()>>
        }
    };
    client.transaction(Arc::new(body)).await?;
    let held = std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner));
    if held.len() == units.len() {
        return Ok(held);
    }
    Err(Error::unavailable(
        "the database client's transaction() returned before its callback had ended; it must await \
         the callback, commit, and only then return",
    ))
}

async fn apply_all(
    tx: Arc<dyn SqlQueryable>,
    statements: &Statements,
    random: &Random,
    units: &[Unit],
) -> Result<Vec<bool>> {
    // A driver may run this again although an earlier commit went through: with a fresh stamp that
    // looks like somebody else's change, and everything is loaded again.
    let stamp = SqlValue::Text(random.token());
    for unit in units {
        statements.dialect.serialize(&tx, &unit.job).await?;
        let mut params = unit.guard.params.clone();
        params[0] = stamp.clone();
        tx.all(&unit.guard.sql, &params).await?;
    }
    let mut ours: Vec<String> = Vec::with_capacity(units.len());
    for chunk in units.chunks(LONGEST) {
        let length = padded(chunk.len());
        let mut params = vec![namespace_of(&chunk[0])];
        let last = chunk.len() - 1;
        params.extend((0..length).map(|i| SqlValue::Text(chunk[i.min(last)].job.clone())));
        for row in tx.all(&statements.stamps(length), &params).await? {
            ours.extend(stamped_by(row, &stamp)?);
        }
    }
    ours.sort_unstable();
    let mut held = Vec::with_capacity(units.len());
    for unit in units {
        let holds = ours.binary_search(&unit.job).is_ok();
        held.push(holds);
        if holds {
            for step in &unit.rest {
                tx.all(&step.sql, &step.params).await?;
            }
        }
    }
    Ok(held)
}

/// The job of a row, if the stamp on it is this one.
fn stamped_by(row: Row, stamp: &SqlValue) -> Result<Option<String>> {
    let values = row.into_order(&["job", "stamp"])?;
    let ours = values[1].text() == stamp.text();
    Ok(values[0].text().filter(|_| ours).map(std::borrow::Cow::into_owned))
}

/// The namespace among a guard's parameters: third from the end, before job and version.
fn namespace_of(unit: &Unit) -> SqlValue {
    let params = &unit.guard.params;
    params.get(params.len().wrapping_sub(3)).cloned().unwrap_or(SqlValue::Null)
}
