//! The one SQL engine: read without a lock, decide, apply under a guard.
//!
//! **Losers do not write.** One statement brings the job's version, the runs that matter and the
//! store's clock. If the rules change nothing, its answer is the answer. Else a transaction begins
//! with an update that only goes through while the version is the one that was read; every change
//! raises the version, heartbeats too, so that no decision is ever applied to another state than
//! the one it was made on.
//!
//! An error inside an apply leaves unknown whether it went through. The call is then made again
//! with the same token, which the rules answer as they would have, until the call's deadline or
//! until another try cannot help (see `failures.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;

use super::apply;
use super::batch::{Batch, chunks};
use super::client::{Lane, SqlClient, SqlValue};
use super::dialect::SqlDialect;
use super::failures::Failures;
use super::load::{self, Loaded, Read};
use super::plan::Unit;
use super::schema::{DEFAULT_TABLE, Tables};
use super::statements::{Runs, Scope, Statements, padded};
use crate::backend::contract::{Wake, WakeListener};
use crate::backends::own::Owns;
use crate::backends::reading::{Last, OLDEST_MS, Reading};
use crate::clock::{Clock, SystemClock, sleep_for};
use crate::error::{Error, Result};
use crate::lease::rules::{Answer, Call};
use crate::random::Random;

/// How long a call is tried again where nothing else says so (ms).
pub const CALL_TIMEOUT_MS: i64 = 5_000;

/// Of how many jobs the oldest runs are read in one statement.
const OLDEST_JOBS: usize = 16;

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

    /// Calls `listener` when a run of this namespace was given back or has ended, where the
    /// database can push.
    fn watch(&self, _namespace: &str, _listener: &Arc<WakeListener>) {}

    /// Tells the listeners of all replicas, where the database can push. Must return at once.
    fn wake(&self, _namespace: &str, _jobs: Vec<String>, _wake: Wake) {}
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
    /// What was written here.
    pub(super) owns: Owns<Loaded>,
    /// The database's clock.
    pub(super) time: Mutex<Last>,
}

impl Live {
    pub(super) fn time(&self) -> MutexGuard<'_, Last> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call on a job.
pub(super) struct Ask {
    pub(super) job: String,
    pub(super) call: Call,
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
        let batch = Batch { engine: self, live: &live, lane, asks: &asks };
        for groups in chunks(&asks) {
            batch.run(groups, &mut answers).await;
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
        let mut params: Vec<SqlValue> = self.of_jobs(jobs, lead).collect();
        if scope.runs.by_slot() {
            let slot = |i: usize| slots.get(i).or(slots.last()).copied().unwrap_or(0);
            params.extend((0..slot_count).map(|i| SqlValue::Int(slot(i))));
            if scope.runs == Runs::OfSlotsAndOpen && lead == 1 {
                params.extend_from_within(..);
            }
        }
        let earliest = SystemClock.mono_ms();
        let rows = live.client.all_in(lane, &sql, &params).await;
        let rows = rows.inspect_err(|_| live.time().doubt())?;
        let latest = SystemClock.mono_ms();
        let mut read = load::read_rows(scope, rows)?;
        let reading = Reading { shown: read.now, earliest, latest, given: false };
        live.time().keep(reading, latest, 0);
        if let Some(clock) = &self.shared.options.clock {
            read.now = clock.wall_ms();
        }
        Ok(read)
    }

    /// The database's time for a decision on a state that was decided at `decided_at`, unread; none
    /// if it was not read for a while.
    pub(super) fn now_unread(&self, live: &Live, decided_at: i64) -> Option<i64> {
        if let Some(clock) = &self.shared.options.clock {
            return Some(clock.wall_ms());
        }
        let mono = SystemClock.mono_ms();
        let reading = live.time().fresh(mono, OLDEST_MS, 0)?;
        Some(reading.now(mono, Some(decided_at)))
    }

    /// Adds to what was read the outlines of all runs of some jobs.
    pub(super) async fn read_outlines(
        &self,
        live: &Live,
        lane: Lane,
        read: &mut Read,
        jobs: &[&str],
    ) -> Result<()> {
        let length = padded(jobs.len());
        let sql = live.statements.outlines(length);
        let params = self.of_jobs(jobs, length).collect::<Vec<_>>();
        let rows = live.client.all_in(lane, &sql, &params).await?;
        load::add_outlines(&mut read.jobs, jobs, rows)
    }

    /// Adds to what was read the outlines of the oldest ended runs of some jobs.
    pub(super) async fn read_oldest(
        &self,
        live: &Live,
        lane: Lane,
        read: &mut Read,
        jobs: &[&str],
        oldest: usize,
    ) -> Result<()> {
        for chunk in jobs.chunks(OLDEST_JOBS) {
            let sql = live.statements.oldest(chunk.len(), oldest);
            let mut params = Vec::with_capacity(chunk.len() * 6);
            for job in chunk {
                let of_job =
                    [SqlValue::Text(self.namespace.clone()), SqlValue::Text((*job).to_owned())];
                for _ in 0..3 {
                    params.extend(of_job.iter().cloned());
                }
            }
            let rows = live.client.all_in(lane, &sql, &params).await?;
            load::add_oldest(&mut read.jobs, chunk, rows)?;
        }
        Ok(())
    }

    /// The namespace and so many jobs, the last one repeated.
    fn of_jobs(&self, jobs: &[&str], length: usize) -> impl Iterator<Item = SqlValue> {
        let last = jobs.len() - 1;
        let names = (0..length).map(move |i| SqlValue::Text(jobs[i.min(last)].to_owned()));
        [SqlValue::Text(self.namespace.clone())].into_iter().chain(names)
    }

    /// Repeats a read that failed, until the call's deadline or until it would not help.
    pub(super) async fn patiently<T, F>(&self, read: impl Fn() -> F + Send + Sync) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let deadline = SystemClock.mono_ms() + self.shared.options.call_timeout_ms;
        let mut failures = Failures::default();
        let mut round = 0;
        loop {
            let error = match read().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = self.pause_ms(round, true);
            if failures.end_with(&error) || SystemClock.mono_ms() + pause >= deadline {
                return Err(error);
            }
            sleep_for(&SystemClock, pause).await;
            round += 1;
        }
    }

    /// A lost guard says that somebody else got on: it is tried again at once, and only a crowd
    /// waits a little. After an error the wait doubles.
    pub(super) fn pause_ms(&self, round: u32, after_error: bool) -> i64 {
        let random = &self.shared.random;
        match (after_error, round) {
            (true, _) => 1 + random.up_to((4 << round.min(6)).min(250)),
            (false, 0..3) => 0,
            (false, _) => random.up_to((1 << round.min(5)).min(25)),
        }
    }

    /// Applies guarded changes; for each whether its guard held.
    pub(super) async fn apply(
        &self,
        live: &Live,
        lane: Lane,
        units: Vec<Unit>,
    ) -> Result<Vec<bool>> {
        let units: Arc<[Unit]> = units.into();
        if let Some(held) = live.client.apply(lane, &units).await {
            return held;
        }
        let (client, random) = (live.client.as_ref(), &self.shared.random);
        apply::apply_in_transaction(client, &live.statements, random, &units).await
    }
}
