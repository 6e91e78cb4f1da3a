//! The one SQL engine: read without a lock, decide, apply under a guard.
//!
//! **Losers do not write.** One statement brings the job's version, the runs that matter and the
//! store's clock. If the rules change nothing, its answer is the answer. Else a transaction begins
//! with an update that only goes through while the version is the one that was read; every change
//! raises the version, heartbeats too, so that no decision is ever applied to another state than
//! the one it was made on.
//!
//! An error inside an apply leaves unknown whether it went through. The call is then made again
//! with the same token, which the rules answer as they would have, until the call's deadline.

use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;

use super::apply::{self, Unit};
use super::client::{Lane, SqlClient, SqlValue};
use super::decide::{Verdict, decide, lease_of, scope_of, slot_of};
use super::dialect::SqlDialect;
use super::load::{self, Loaded, Read};
use super::schema::{DEFAULT_TABLE, Tables};
use super::statements::{LONGEST, Runs, Scope, Statements, padded};
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Error, Result};
use crate::lease::rules::{Answer, Call};
use crate::random::Random;

/// How long a call is tried again where nothing else says so (ms).
pub const CALL_TIMEOUT_MS: i64 = 5_000;

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading what is there. Creates nothing: no file, no table.
    Reader,
    /// Everything.
    Full,
}

/// An open client.
pub struct Connected {
    /// The client.
    pub client: Arc<dyn SqlClient>,
    /// Whether the engine closes it.
    pub owned: bool,
}

/// One kind of SQL store: how it is reached, and what differs.
#[async_trait]
pub trait SqlStore: Send + Sync {
    /// Shown as `scheduler.backend.name`.
    fn name(&self) -> String;

    /// What differs from other databases.
    fn dialect(&self) -> Arc<dyn SqlDialect>;

    /// Connects.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE` if the server cannot be reached, `BACKEND_REFUSED` if it is of no use.
    async fn connect(&self, access: Access) -> Result<Connected>;

    /// Refuses settings that break the promise.
    ///
    /// # Errors
    /// `BACKEND_REFUSED`, saying which setting and what to do.
    async fn check_server(&self, _client: &Arc<dyn SqlClient>) -> Result<()> {
        Ok(())
    }
}

/// How the engine is set up.
#[derive(Clone)]
pub struct EngineOptions {
    /// The name of the runs table.
    pub table: String,
    /// Whether missing tables are created.
    pub create_tables: bool,
    /// How long a call is tried again (ms); a call with a lease at most a sixth of it.
    pub call_timeout_ms: i64,
    /// A clock in place of the store's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            table: DEFAULT_TABLE.to_owned(),
            create_tables: true,
            call_timeout_ms: CALL_TIMEOUT_MS,
            clock: None,
        }
    }
}

/// A SQL store with leases.
pub struct SqlEngine<S: SqlStore + ?Sized = dyn SqlStore> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) namespace: String,
    /// A view of another namespace closes nothing.
    pub(super) is_view: bool,
}

/// What the views of all namespaces have in common.
pub(super) struct Shared<S: SqlStore + ?Sized> {
    pub(super) options: EngineOptions,
    pub(super) random: Arc<Random>,
    pub(super) live: RwLock<Option<Arc<Live>>>,
    /// Held while opening and closing.
    pub(super) opening: tokio::sync::Mutex<()>,
    pub(super) store: S,
}

/// An open store.
pub(super) struct Live {
    pub(super) client: Arc<dyn SqlClient>,
    pub(super) owned: bool,
    pub(super) access: Access,
    pub(super) statements: Arc<Statements>,
}

/// A call on a job.
pub(super) struct Ask {
    pub(super) job: String,
    pub(super) call: Call,
}

/// The calls on one job, by their place in the batch.
struct Group {
    job: String,
    calls: Vec<usize>,
}

impl<S: SqlStore> SqlEngine<S> {
    /// A store that is reached by `store`; nothing is opened.
    pub fn new(store: S, namespace: &str, options: EngineOptions) -> SqlEngine<S> {
        let shared = Shared {
            options,
            random: Arc::new(Random::system()),
            live: RwLock::new(None),
            opening: tokio::sync::Mutex::new(()),
            store,
        };
        SqlEngine { shared: Arc::new(shared), namespace: namespace.to_owned(), is_view: false }
    }
}

impl<S: SqlStore + ?Sized> SqlEngine<S> {
    /// The statements that create the tables.
    pub fn ddl(&self) -> Vec<String> {
        self.tables().ddl(self.shared.store.dialect().as_ref())
    }

    /// The tables.
    pub fn tables(&self) -> Tables {
        Tables::beside(&self.shared.options.table)
    }

    /// How the store is reached.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    pub(super) fn live(&self) -> Result<Arc<Live>> {
        let live = self.shared.live.read().unwrap_or_else(PoisonError::into_inner);
        live.clone().ok_or_else(|| {
            Error::unavailable(format!(
                "the {} store is not open: it was not initialised yet, or has been closed",
                self.shared.store.name()
            ))
        })
    }

    /// One call on one job.
    pub(super) async fn step(&self, lane: Lane, job: &str, call: Call) -> Result<Answer> {
        let ask = Ask { job: job.to_owned(), call };
        let mut answers = self.steps(lane, vec![ask]).await;
        answers.pop().unwrap_or_else(|| Err(Error::unavailable("a call got no answer")))
    }

    /// Several calls, which travel together; one answer each, in order.
    pub(super) async fn steps(&self, lane: Lane, asks: Vec<Ask>) -> Vec<Result<Answer>> {
        let live = match self.live() {
            Ok(live) => live,
            Err(error) => return asks.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut answers: Vec<Option<Result<Answer>>> = asks.iter().map(|_| None).collect();
        for groups in chunks(&asks) {
            Batch { engine: self, live: &live, lane, asks: &asks }.run(groups, &mut answers).await;
        }
        let unanswered = || Err(Error::unavailable("a call got no answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }

    /// Reads some jobs in one statement.
    pub(super) async fn read(
        &self,
        live: &Live,
        lane: Lane,
        scope: Scope,
        jobs: &[&str],
        slots: &[i64],
    ) -> Result<Read> {
        let (lead, slot_count) = (padded(jobs.len()), padded(slots.len().max(1)));
        let sql = live.statements.read(scope, lead, slot_count);
        let mut params = Vec::with_capacity(1 + lead + slot_count);
        params.push(SqlValue::Text(self.namespace.clone()));
        let last = jobs.len() - 1;
        params.extend((0..lead).map(|i| SqlValue::Text(jobs[i.min(last)].to_owned())));
        if scope.runs.by_slot() {
            let slot = |i: usize| slots.get(i).or(slots.last()).copied().unwrap_or(0);
            params.extend((0..slot_count).map(|i| SqlValue::Int(slot(i))));
        }
        let rows = live.client.all_in(lane, &sql, &params).await?;
        let mut read = load::read_rows(scope, rows)?;
        if let Some(clock) = &self.shared.options.clock {
            read.now = clock.wall_ms();
        }
        Ok(read)
    }

    /// Repeats a read that failed, until the call's deadline.
    pub(super) async fn patiently<T, F>(&self, read: impl Fn() -> F + Send + Sync) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let deadline = SystemClock.mono_ms() + self.shared.options.call_timeout_ms;
        let mut round = 0;
        loop {
            let error = match read().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = self.pause_ms(round, true);
            if !is_unknown(&error) || SystemClock.mono_ms() + pause >= deadline {
                return Err(error);
            }
            sleep_for(&SystemClock, pause).await;
            round += 1;
        }
    }

    /// A lost guard says that somebody else got on: it is tried again at once, and only a crowd
    /// waits a little. After an error the wait doubles.
    fn pause_ms(&self, round: u32, after_error: bool) -> i64 {
        let random = &self.shared.random;
        match (after_error, round) {
            (true, _) => 1 + random.up_to((4 << round.min(6)).min(250)),
            (false, 0..3) => 0,
            (false, _) => random.up_to((1 << round.min(5)).min(25)),
        }
    }

    async fn apply(&self, live: &Live, lane: Lane, units: Vec<Unit>) -> Result<Vec<bool>> {
        let units: Arc<[Unit]> = units.into();
        if let Some(held) = live.client.apply(lane, &units).await {
            return held;
        }
        let (client, random) = (live.client.as_ref(), &self.shared.random);
        apply::apply_in_transaction(client, &live.statements, random, &units).await
    }
}

/// The most different slots in one statement.
const MOST_SLOTS: usize = 64;

/// Groups calls by job, sorted by name (two batches that lock in the same order cannot block each
/// other), in pieces of a size that a statement can take.
fn chunks(asks: &[Ask]) -> Vec<Vec<Group>> {
    let mut order: Vec<usize> = (0..asks.len()).collect();
    order.sort_by(|a, b| asks[*a].job.cmp(&asks[*b].job));
    let mut groups: Vec<Group> = Vec::new();
    for index in order {
        match groups.last_mut() {
            Some(group) if group.job == asks[index].job => group.calls.push(index),
            _ => groups.push(Group { job: asks[index].job.clone(), calls: vec![index] }),
        }
    }
    let mut chunks: Vec<Vec<Group>> = Vec::new();
    let mut slots: Vec<i64> = Vec::new();
    for group in groups {
        let mut with_these = slots.clone();
        with_these.extend(group.calls.iter().filter_map(|call| slot_of(&asks[*call].call)));
        with_these.sort_unstable();
        with_these.dedup();
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < LONGEST && with_these.len() <= MOST_SLOTS => {
                chunk.push(group);
                slots = with_these;
            }
            _ => {
                slots = group.calls.iter().filter_map(|call| slot_of(&asks[*call].call)).collect();
                chunks.push(vec![group]);
            }
        }
    }
    chunks
}

/// Some calls on their way.
struct Batch<'a, S: SqlStore + ?Sized> {
    engine: &'a SqlEngine<S>,
    live: &'a Live,
    lane: Lane,
    asks: &'a [Ask],
}

impl<S: SqlStore + ?Sized> Batch<'_, S> {
    /// Tries until all are answered or the deadline has come.
    async fn run(&self, mut pending: Vec<Group>, answers: &mut [Option<Result<Answer>>]) {
        let clock = SystemClock;
        let deadline = clock.mono_ms() + self.patience_ms(&pending);
        let mut failed = false;
        for round in 0_u32.. {
            // After an error each job goes alone: one that cannot be written must not keep the
            // others from it.
            let lots = if failed { 1 } else { pending.len() };
            let mut rest = Vec::new();
            let mut last_error = None;
            while !pending.is_empty() {
                let lot: Vec<Group> = pending.drain(..lots.min(pending.len())).collect();
                match self.attempt(&lot).await {
                    Ok(answered) => {
                        for (group, answered) in lot.into_iter().zip(answered) {
                            match answered {
                                Some(given) => {
                                    for (call, answer) in group.calls.iter().zip(given) {
                                        answers[*call] = Some(Ok(answer));
                                    }
                                }
                                None => rest.push(group),
                            }
                        }
                    }
                    Err(error) => {
                        let final_now = !is_unknown(&error) || clock.mono_ms() >= deadline;
                        for call in lot.iter().flat_map(|group| &group.calls) {
                            answers[*call] = final_now.then(|| Err(error.clone()));
                        }
                        if !final_now {
                            rest.extend(lot);
                            last_error = Some(error);
                        }
                    }
                }
            }
            if rest.is_empty() {
                return;
            }
            failed |= last_error.is_some();
            let pause = self.engine.pause_ms(round, last_error.is_some());
            if clock.mono_ms() + pause >= deadline {
                let error = last_error.unwrap_or_else(|| contended(&rest[0].job));
                for call in rest.iter().flat_map(|group| &group.calls) {
                    answers[*call] = Some(Err(error.clone()));
                }
                return;
            }
            if pause > 0 {
                sleep_for(&clock, pause).await;
            }
            pending = rest;
        }
    }

    fn patience_ms(&self, groups: &[Group]) -> i64 {
        let calls = groups.iter().flat_map(|group| &group.calls);
        let leases = calls.filter_map(|call| lease_of(&self.asks[*call].call));
        let sixth = leases.map(|lease_ms| lease_ms / 6).min().unwrap_or(i64::MAX);
        self.engine.shared.options.call_timeout_ms.min(sixth)
    }

    /// Reads, decides and applies once. `None` for a group whose guard did not hold.
    async fn attempt(&self, groups: &[Group]) -> Result<Vec<Option<Vec<Answer>>>> {
        let wanted = groups.iter().flat_map(|group| &group.calls);
        let scope = wanted.map(|call| scope_of(&self.asks[*call].call)).reduce(Scope::and);
        let scope = scope.unwrap_or(Scope::of(Runs::None));
        let everyone: Vec<&Group> = groups.iter().collect();
        let mut decided = self.decide(&everyone, scope).await?;
        let short: Vec<usize> = (0..groups.len()).filter(|i| decided[*i].is_none()).collect();
        if !short.is_empty() {
            let some: Vec<&Group> = short.iter().map(|index| &groups[*index]).collect();
            let all = scope.and(Scope::of(Runs::All));
            for (index, found) in short.into_iter().zip(self.decide(&some, all).await?) {
                decided[index] = found;
            }
        }
        let mut answered: Vec<Option<Vec<Answer>>> = Vec::with_capacity(groups.len());
        let mut units = Vec::new();
        let mut unit_of = Vec::new();
        for (index, found) in decided.into_iter().enumerate() {
            let Some((mut verdict, loaded, scope)) = found else {
                answered.push(None);
                continue;
            };
            answered.push(Some(std::mem::take(&mut verdict.answers)));
            if verdict.changes {
                let (statements, namespace) = (&self.live.statements, &self.engine.namespace);
                let stamp = self.engine.shared.random.token();
                let job = &groups[index].job;
                let unit = apply::unit(statements, namespace, job, &loaded, scope, verdict, stamp)?;
                units.push(unit);
                unit_of.push(index);
            }
        }
        if !units.is_empty() {
            let held = self.engine.apply(self.live, self.lane, units).await?;
            for (index, held) in unit_of.into_iter().zip(held) {
                if !held {
                    answered[index] = None;
                }
            }
        }
        Ok(answered)
    }

    async fn decide(
        &self,
        groups: &[&Group],
        scope: Scope,
    ) -> Result<Vec<Option<(Verdict, Loaded, Scope)>>> {
        let jobs: Vec<&str> = groups.iter().map(|group| group.job.as_str()).collect();
        let mut slots: Vec<i64> = Vec::new();
        if scope.runs.by_slot() {
            let calls = groups.iter().flat_map(|group| &group.calls);
            slots.extend(calls.filter_map(|call| slot_of(&self.asks[*call].call)));
            slots.sort_unstable();
            slots.dedup();
        }
        let mut read = self.engine.read(self.live, self.lane, scope, &jobs, &slots).await?;
        let decide_one = |group: &&Group| {
            let loaded = read.jobs.remove(&group.job).unwrap_or_default();
            let calls: Vec<&Call> = group.calls.iter().map(|c| &self.asks[*c].call).collect();
            decide(&loaded, scope, &calls, read.now).map(|verdict| (verdict, loaded, scope))
        };
        Ok(groups.iter().map(decide_one).collect())
    }
}

/// Whether it is unknown what became of a call that failed so. What we refuse ourselves is known.
fn is_unknown(error: &Error) -> bool {
    matches!(error.code(), None | Some(crate::error::Code::BackendUnavailable))
}

fn contended(job: &str) -> Error {
    Error::unavailable(format!(
        "the job {job:?} was changed by others each time it was about to be changed here, until \
         the call's deadline"
    ))
}
