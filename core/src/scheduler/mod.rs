//! The scheduler: when to claim, run, renew, back up, catch up and stop.

pub mod context;
pub mod job;
pub mod options;

use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::backend::contract::{ActiveRun, RunRecord};
use crate::error::Result;
use crate::events::Event;
use crate::lease::model::{MissedRange, RunKey};

pub use context::{Cancellation, Handler, HandlerEnd, JobContext};
pub use job::{JobDefinition, When};
pub use options::{BackendSource, JobOptions, Retries, SchedulerOptions, SharedBackend};

/// One replica's scheduler. Cloning gives another handle of the same one.
#[derive(Clone)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

struct Inner {}

/// What a stop left behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StopReport {
    /// Runs that ended by themselves while stopping.
    pub finished: Vec<RunRef>,
    /// Runs that were cancelled and given back, for another instance to take over.
    pub released: Vec<RunRef>,
    /// Runs whose handlers ignore their cancellation; their leases are kept until they end.
    pub still_running: Vec<RunRef>,
}

/// A run of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRef {
    /// The job's name.
    pub job: String,
    /// The run.
    #[serde(flatten)]
    pub key: RunKey,
}

/// How a manual run is asked for.
#[derive(Clone, Debug, Default)]
pub struct RunNow {
    /// The instant that the handler sees (ms); now, if not given.
    pub slot: Option<i64>,
    /// Start although another run is unfinished.
    pub force: bool,
    /// Resolve when the run has ended; else as soon as it has been granted.
    pub no_wait: bool,
    /// Cancels the run.
    pub cancel: Option<CancellationToken>,
}

/// A line of the history: a run, or (if asked for) a range of missed slots.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum HistoryEntry {
    /// A run.
    Run(Box<RunRecord>),
    /// Slots that nobody ran.
    Missed {
        /// The range.
        missed: MissedRange,
    },
}

/// Why a slot did or did not run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `ran`, `running`, `skipped`, `lost`, `missed`, `paused`, `not_a_slot`, `not_yet`, `unknown`.
    pub outcome: String,
    /// Why, as a word.
    pub reason: String,
    /// The records of the slot.
    pub records: Vec<RunRecord>,
    /// All of it as a sentence.
    pub text: String,
}

/// A registered job, as a user sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInfo {
    /// The job's name.
    pub name: String,
    /// The schedule in words.
    pub schedule: String,
    /// The zone of a cron job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Whether the store knows the job.
    pub ready: bool,
}

/// Called for every event, from the scheduler's own task: it must return at once.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

#[expect(unused_variables, clippy::unused_async, reason = "the bodies follow")]
impl Scheduler {
    /// A scheduler that has not started. Touches no file, socket or thread.
    ///
    /// # Errors
    /// `INVALID_OPTION`, `BACKEND_REQUIRED`.
    pub fn new(options: SchedulerOptions) -> Result<Scheduler> {
        unimplemented!()
    }

    /// Adds a job, before or after the start.
    ///
    /// # Errors
    /// `INVALID_SCHEDULE`, `INVALID_OPTION`, `DUPLICATE_JOB`, `DEDUPE_WINDOW_TOO_SHORT`,
    /// `LEASES_REQUIRED`, and what the backend's `checkJob` says.
    pub fn add(&self, job: JobDefinition) -> Result<()> {
        unimplemented!()
    }

    /// Removes a job from this instance; a run of it that has begun goes on.
    ///
    /// # Errors
    /// `UNKNOWN_JOB`.
    pub fn remove(&self, name: &str) -> Result<()> {
        unimplemented!()
    }

    /// Calls `listener` for every event from now on.
    pub fn subscribe(&self, listener: Listener) {
        unimplemented!()
    }

    /// Starts. With `wait` false returns at once and goes on trying to reach the store.
    ///
    /// Must be called within a tokio runtime: everything runs on it but the heartbeats.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE`, `BACKEND_REFUSED`, `SCHEMA_TOO_NEW`, and what the backend says.
    pub async fn start(&self, wait: bool) -> Result<()> {
        unimplemented!()
    }

    /// Stops: no new claims, `grace_ms` (default 20 s) for handlers, then cancellation and at most
    /// 5 s more. Repeating it waits for the same stop. Also closes a reader that never started.
    ///
    /// # Errors
    /// What the backend's `close` says.
    pub async fn stop(&self, grace_ms: Option<i64>) -> Result<StopReport> {
        unimplemented!()
    }

    /// Waits until the store knows every job.
    ///
    /// # Errors
    /// What the store says of a job that it refuses; `STOPPED`.
    pub async fn ready(&self) -> Result<()> {
        unimplemented!()
    }

    /// Runs a job here and now, and answers its record whatever its status.
    ///
    /// # Errors
    /// `OVERLAP`, `UNKNOWN_JOB`, `STOPPED`.
    pub async fn run_now(&self, name: &str, how: RunNow) -> Result<RunRecord> {
        unimplemented!()
    }

    /// The latest runs from all instances, newest first; works without a start.
    ///
    /// # Errors
    /// What the store says.
    pub async fn history(
        &self,
        name: &str,
        limit: usize,
        missed: bool,
    ) -> Result<Vec<HistoryEntry>> {
        unimplemented!()
    }

    /// The unfinished runs from all instances; works without a start.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn active(&self, name: &str) -> Result<Vec<ActiveRun>> {
        unimplemented!()
    }

    /// Why a slot did or did not run; works without a start.
    ///
    /// # Errors
    /// What the store says.
    pub async fn explain(&self, name: &str, slot: i64) -> Result<Explanation> {
        unimplemented!()
    }

    /// Pauses a job on the whole fleet.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn pause(&self, name: &str, reason: Option<String>) -> Result<()> {
        unimplemented!()
    }

    /// Resumes a job on the whole fleet.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn resume(&self, name: &str) -> Result<()> {
        unimplemented!()
    }

    /// Cancels unfinished runs of a job (one slot, or all), whoever holds them; how many it were.
    ///
    /// # Errors
    /// What the store says; `LEASES_REQUIRED`.
    pub async fn cancel(&self, name: &str, slot: Option<i64>) -> Result<usize> {
        unimplemented!()
    }

    /// Drops a job's records and definition from the store.
    ///
    /// # Errors
    /// `OVERLAP` while a run is unfinished; what the store says; `LEASES_REQUIRED`.
    pub async fn forget(&self, name: &str) -> Result<()> {
        unimplemented!()
    }

    /// The next slots of a job, strictly after `from` (ms; default now).
    ///
    /// # Errors
    /// `UNKNOWN_JOB`.
    pub fn next_slots(&self, name: &str, count: usize, from: Option<i64>) -> Result<Vec<i64>> {
        unimplemented!()
    }

    /// The registered jobs, in the order of their registration.
    pub fn jobs(&self) -> Vec<JobInfo> {
        unimplemented!()
    }

    /// Whether the scheduler has been started and not stopped.
    pub fn running(&self) -> bool {
        unimplemented!()
    }

    /// The instance id; drawn by the start if none was given.
    pub fn instance_id(&self) -> Option<String> {
        unimplemented!()
    }

    /// The name of the backend, for example `sqlite`.
    pub fn backend_name(&self) -> String {
        unimplemented!()
    }

    /// The clock of this scheduler.
    pub fn clock(&self) -> Arc<dyn crate::clock::Clock> {
        unimplemented!()
    }

    /// Cuts everything off at once, without a word to the store, as the end of the process would:
    /// handlers are cancelled, nothing is released. For a host whose event loop is gone.
    pub fn abort(&self) {
        unimplemented!()
    }
}
