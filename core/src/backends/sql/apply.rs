//! How guarded changes are applied in a transaction of any client, in few statements.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use super::client::{Row, SqlClient, SqlQueryable, SqlValue};
use super::plan::{Step, Unit};
use super::statements::{LONGEST, Statements, padded};
use crate::error::{Error, Result};
use crate::random::Random;

/// Applies units in one transaction of any client: first all guards; then the stamps are read
/// back, for `all` gives no row counts; then the changes of those whose guard held. Answers for
/// each unit whether it did.
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
                let apply = Apply { tx, statements: &statements };
                let answers = apply.all(&units, random.token()).await?;
                *held.lock().unwrap_or_else(PoisonError::into_inner) = answers;
                Ok(())
            };
            Box::pin(run) as BoxFuture<'static, Result<()>>
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

/// Writes alike go into one statement in lots of these sizes: few texts, to be prepared once.
/// SQLite takes no more than 1,000 alternatives in one condition.
const LOTS: [usize; 4] = [128, 16, 4, 1];

struct Apply<'a> {
    tx: Arc<dyn SqlQueryable>,
    statements: &'a Statements,
}

impl Apply<'_> {
    /// A driver may run this again although an earlier commit went through: with a fresh stamp
    /// that looks like somebody else's change, and everything is loaded again.
    async fn all(&self, units: &[Unit], stamp: String) -> Result<Vec<bool>> {
        for unit in units {
            self.statements.dialect.serialize(&self.tx, &unit.job).await?;
        }
        if units.len() > 1 {
            self.lock(units).await?;
        }
        let stamp = SqlValue::Text(stamp);
        let mut guards: Vec<Step> = units.iter().map(|unit| unit.guard.clone()).collect();
        for guard in &mut guards {
            guard.params[0] = stamp.clone();
        }
        self.write(&guards.iter().collect::<Vec<_>>()).await?;
        let ours = self.stamped(units, &stamp).await?;
        let held: Vec<bool> =
            units.iter().map(|unit| ours.binary_search(&unit.job).is_ok()).collect();
        let holding = units.iter().zip(&held).filter(|(_, held)| **held);
        self.write(&holding.flat_map(|(unit, _)| &unit.rest).collect::<Vec<_>>()).await?;
        Ok(held)
    }

    /// Two batches that took their locks in different orders could wait for each other: so they
    /// are taken by name.
    async fn lock(&self, units: &[Unit]) -> Result<()> {
        for chunk in units.chunks(LONGEST) {
            let Some(sql) = self.statements.locks(padded(chunk.len())) else { return Ok(()) };
            self.tx.all(&sql, &of_jobs(chunk)).await?;
        }
        Ok(())
    }

    /// The jobs that carry this stamp, sorted.
    async fn stamped(&self, units: &[Unit], stamp: &SqlValue) -> Result<Vec<String>> {
        let mut ours: Vec<String> = Vec::with_capacity(units.len());
        for chunk in units.chunks(LONGEST) {
            let sql = self.statements.stamps(padded(chunk.len()));
            for row in self.tx.all(&sql, &of_jobs(chunk)).await? {
                ours.extend(stamped_by(row, stamp)?);
            }
        }
        ours.sort_unstable();
        Ok(ours)
    }

    /// Writes steps that have nothing to do with each other, those alike together.
    async fn write(&self, steps: &[&Step]) -> Result<()> {
        for mut alike in groups(steps) {
            while !alike.is_empty() {
                let fits = |size: &&usize| **size <= alike.len();
                let size = LOTS.iter().find(fits).copied().unwrap_or(1);
                let rest = alike.split_off(size);
                self.write_lot(&alike).await?;
                alike = rest;
            }
        }
        Ok(())
    }

    async fn write_lot(&self, lot: &[&Step]) -> Result<()> {
        if let [step] = lot {
            return self.tx.all(&step.sql, &step.params).await.map(drop);
        }
        let write = lot[0].write;
        let sql = self.statements.write(write, lot.len());
        let params: Vec<SqlValue> = if write.inserts() {
            lot.iter().flat_map(|step| step.params.iter().cloned()).collect()
        } else {
            let keys = lot.iter().flat_map(|step| step.key());
            lot[0].set().iter().chain(keys).cloned().collect()
        };
        self.tx.all(&sql, &params).await.map(drop)
    }
}

/// Steps that can be one statement, in the order of the first of each.
fn groups<'a>(steps: &[&'a Step]) -> Vec<Vec<&'a Step>> {
    let mut groups: Vec<Vec<&Step>> = Vec::new();
    for step in steps {
        let alike = |group: &&mut Vec<&Step>| {
            let first = group[0];
            first.write == step.write && (step.write.inserts() || first.set() == step.set())
        };
        let found = step.write.may_be_many().then(|| groups.iter_mut().rev().take(8).find(alike));
        match found.flatten() {
            Some(group) => group.push(step),
            None => groups.push(vec![step]),
        }
    }
    groups
}

/// The namespace and the jobs of some units, padded.
fn of_jobs(units: &[Unit]) -> Vec<SqlValue> {
    let last = units.len() - 1;
    let names = (0..padded(units.len())).map(|i| SqlValue::Text(units[i.min(last)].job.clone()));
    units[0].guard.key()[..1].iter().cloned().chain(names).collect()
}

/// The job of a row, if the stamp on it is this one.
fn stamped_by(row: Row, stamp: &SqlValue) -> Result<Option<String>> {
    let values = row.into_order(&["job", "stamp"])?;
    let ours = values[1].text() == stamp.text();
    Ok(values[0].text().filter(|_| ours).map(Cow::into_owned))
}
