//! The scheduler: when to claim, run, renew, back up, catch up and stop.

mod answer;
mod backup;
pub mod context;
mod driver;
mod ending;
mod explain;
mod heartbeat;
pub mod job;
mod manual;
mod missed;
pub mod options;
mod outbox;
mod reading;
mod record;
mod registering;
mod registry;
mod run;
mod slot;
mod start;
mod state;
mod stop;
mod timers;
mod trouble;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::Serialize;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::backend::contract::{Backend, JobLimits, RunRecord};
use crate::backend::guard::Guard;
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::events::Event;
use crate::lease::model::{MissedRange, RunKey};
use crate::random::Random;
use crate::scheduler::driver::{Mailbox, Message};
use crate::scheduler::registry::{Registered, Registry};
use crate::scheduler::state::{Job, JobSpec, unknown_job};

pub use context::{Cancellation, Handler, HandlerEnd, JobContext};
pub use job::{JobDefinition, When};
pub use options::{BackendSource, JobOptions, Retries, SchedulerOptions, SharedBackend};
pub(crate) use start::check_namespace;

/// One replica's scheduler. Cloning gives another handle of the same one.
#[derive(Clone)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

/// What all handles of a scheduler share.
struct Inner {
    guard: Guard,
    shared: Arc<SharedBackend>,
    clock: Arc<dyn Clock>,
    random: Arc<Random>,
    namespace: String,
    timezone: String,
    defaults: JobOptions,
    naming: crate::host::names::Naming,
    places: i64,
    start_timeout_ms: i64,
    given_instance_id: Option<String>,
    notice: Option<String>,
    listeners: RwLock<Vec<Listener>>,
    state: Mutex<State>,
    /// Woken when a job's registration has an answer, or the scheduler stops.
    registrations: Notify,
    /// Runs whose handlers run in this process, held or not.
    here: Mutex<HashSet<(Arc<str>, RunKey)>>,
    /// Whether a reader has opened the store without a start.
    reading: tokio::sync::Mutex<bool>,
}

#[derive(Default)]
struct State {
    jobs: Registry,
    started: Option<Started>,
    instance_id: Option<String>,
}

/// A start that has not been stopped.
#[derive(Clone)]
struct Started {
    mailbox: Mailbox,
    /// Whether jobs may be handed to the driver: the store has been reached.
    open: bool,
    /// Ends the tries to reach the store.
    cancel: CancellationToken,
    /// The process that started it.
    pid: u32,
}

impl Inner {
    fn emit(&self, event: &Event) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(event);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store's word on a job.
    fn registered(&self, name: &str, answer: Result<()>) {
        let mut state = self.state();
        if let Some(job) = state.jobs.get_mut(name) {
            job.answer = Some(answer);
        }
        drop(state);
        self.registrations.notify_waiters();
    }
}

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

impl Scheduler {
    /// Checks a job as [`Scheduler::add`] does, but for the store's own `checkJob`, and answers
    /// what the store will be told of it.
    ///
    /// # Errors
    /// As [`Scheduler::add`].
    pub fn check(&self, job: &JobDefinition) -> Result<JobLimits> {
        self.judge(job).map(|(_, limits)| limits)
    }

    fn judge(&self, job: &JobDefinition) -> Result<(JobSpec, JobLimits)> {
        let inner = &self.inner;
        job::check_name(&job.name)?;
        let named = |error: Error| error.in_context(&format!("job {:?}", job.name));
        let options = job.options.or(&inner.defaults);
        let timezone = job.options.timezone.clone().or_else(|| inner.defaults.timezone.clone());
        let timezone = timezone.unwrap_or_else(|| inner.timezone.clone());
        let schedule = job::read_schedule(&job.when, &job.options, &timezone, inner.naming);
        let schedule = schedule.map_err(named)?;
        let leases = inner.guard.has_leases();
        let now = inner.clock.wall_ms();
        let settings =
            options::JobSettings::resolve(&options, &schedule, leases, now, inner.naming);
        let settings = settings.map_err(named)?;
        let limits = settings.limits(&job.name, &schedule, leases);
        options::JobSettings::check_window(inner.guard.backend().as_ref(), &limits, inner.naming)?;
        let spec = JobSpec {
            name: Arc::from(job.name.as_str()),
            timezone: schedule.zone().unwrap_or(&timezone).to_owned(),
            schedule,
            settings,
            handler: job.handler.clone(),
        };
        Ok((spec, limits))
    }

    /// Adds a job, before or after the start. Answers warnings about its schedule.
    ///
    /// # Errors
    /// `INVALID_SCHEDULE`, `INVALID_OPTION`, `DUPLICATE_JOB`, `DEDUPE_WINDOW_TOO_SHORT`,
    /// `LEASES_REQUIRED`, and what the backend's `checkJob` says.
    pub fn add(&self, job: JobDefinition) -> Result<Vec<String>> {
        let (spec, limits) = self.judge(&job)?;
        self.inner.guard.backend().check_job(&limits)?;
        let warnings = spec.schedule.warnings().to_vec();
        let mut state = self.inner.state();
        if state.jobs.get(&spec.name).is_some() {
            return Err(Error::new(
                Code::DuplicateJob,
                format!("a job {:?} is registered already; give it another name", job.name),
            ));
        }
        if let Some(started) = state.started.as_ref().filter(|started| started.open) {
            let job = Job::new(spec.clone(), limits.clone());
            started.mailbox.post(Message::Add(Box::new(job)));
        }
        state.jobs.add(spec, limits);
        Ok(warnings)
    }

    /// Removes a job from this instance; a run of it that has begun goes on.
    ///
    /// # Errors
    /// `UNKNOWN_JOB`.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.inner.state();
        let job = state.jobs.remove(name).ok_or_else(|| unknown_job(name))?;
        if let Some(started) = &state.started {
            started.mailbox.post(Message::Remove(job.spec.name));
        }
        drop(state);
        self.inner.registrations.notify_waiters();
        Ok(())
    }

    /// Calls `listener` for every event from now on.
    pub fn subscribe(&self, listener: Listener) {
        self.inner.listeners.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Stops: no new claims, `grace_ms` (default 20 s) for handlers, then cancellation and at most
    /// 5 s more. Repeating it waits for the same stop. Also closes a reader that never started.
    ///
    /// # Errors
    /// What a user's own `close` throws, once everything has been stopped. What a store of ours says
    /// of it is an `error` event.
    pub async fn stop(&self, grace_ms: Option<i64>) -> Result<StopReport> {
        let started = self.inner.state().started.clone();
        let Some(started) = started else {
            self.stop_reading().await?;
            return Ok(StopReport::default());
        };
        check_process(&started)?;
        started.cancel.cancel();
        let (reply, answer) = oneshot::channel();
        let grace_ms = grace_ms.unwrap_or(GRACE_MS);
        started.mailbox.post(Message::Stop { grace_ms, reply });
        // A driver that is gone has stopped.
        let report = answer.await.unwrap_or_else(|_gone| Ok(StopReport::default()));
        {
            let mut state = self.inner.state();
            if state.started.as_ref().is_some_and(|now| now.mailbox.is_same(&started.mailbox)) {
                state.started = None;
            }
        }
        self.inner.registrations.notify_waiters();
        let read = self.stop_reading().await;
        let report = report?;
        read.map(|()| report)
    }

    /// Waits until the store knows every job.
    ///
    /// # Errors
    /// What the store says of a job that it refuses; `STOPPED`.
    pub async fn ready(&self) -> Result<()> {
        self.await_registrations(true).await
    }

    /// Runs a job here and now, and answers its record whatever its status.
    ///
    /// # Errors
    /// `OVERLAP`, `UNKNOWN_JOB`, `STOPPED`.
    pub async fn run_now(&self, name: &str, how: RunNow) -> Result<RunRecord> {
        let mailbox = {
            let state = self.inner.state();
            let started = state.started.as_ref().ok_or_else(not_started)?;
            check_process(started)?;
            if state.jobs.get(name).is_none() {
                return Err(unknown_job(name));
            }
            if self.inner.places == 0 {
                let option = self.inner.naming.write("maxConcurrentRuns");
                return Err(Error::option(format!(
                    "{option} is 0: this scheduler registers and reads only; give it at least 1"
                )));
            }
            if !started.open {
                return Err(Error::unavailable("the store has not been reached yet"));
            }
            started.mailbox.clone()
        };
        let (reply, answer) = oneshot::channel();
        mailbox.post(Message::RunNow { name: name.to_owned(), how, reply });
        answer.await.unwrap_or_else(|_gone| Err(not_started()))
    }

    /// The next slots of a job, strictly after `from` (ms; default now).
    ///
    /// # Errors
    /// `UNKNOWN_JOB`.
    pub fn next_slots(&self, name: &str, count: usize, from: Option<i64>) -> Result<Vec<i64>> {
        let state = self.inner.state();
        let job = state.jobs.get(name);
        let schedule = &job.ok_or_else(|| unknown_job(name))?.spec.schedule;
        let first = schedule.next(from.unwrap_or_else(|| self.inner.clock.wall_ms()));
        Ok(std::iter::successors(first, |slot| schedule.next(*slot)).take(count).collect())
    }

    /// The registered jobs, in the order of their registration.
    pub fn jobs(&self) -> Vec<JobInfo> {
        let state = self.inner.state();
        let info = |job: &Registered| JobInfo {
            name: job.spec.name.to_string(),
            schedule: job.spec.schedule.describe(),
            timezone: job.spec.schedule.zone().map(str::to_owned),
            ready: matches!(job.answer, Some(Ok(()))),
        };
        state.jobs.iter().map(info).collect()
    }

    /// Whether the scheduler has been started and not stopped.
    pub fn running(&self) -> bool {
        self.inner.state().started.is_some()
    }

    /// The instance id; drawn by the start if none was given.
    pub fn instance_id(&self) -> Option<String> {
        let state = self.inner.state();
        state.instance_id.clone().or_else(|| self.inner.given_instance_id.clone())
    }

    /// The name of the backend, for example `sqlite`.
    pub fn backend_name(&self) -> String {
        self.inner.guard.backend().name()
    }

    /// The backend as this scheduler uses it: under its own namespace.
    pub fn backend(&self) -> Arc<dyn Backend> {
        self.inner.guard.backend().clone()
    }

    /// The backend as it may be shared with another scheduler, under whatever namespace.
    pub fn shared(&self) -> Arc<SharedBackend> {
        self.inner.shared.clone()
    }

    /// The clock of this scheduler.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock.clone()
    }

    /// What a user should be warned of, if anything: the embedded default is in use.
    pub fn notice(&self) -> Option<&str> {
        self.inner.notice.as_deref()
    }

    /// One line for the log at a start: store, namespace, instance, capabilities.
    pub fn summary(&self) -> String {
        let leases = if self.inner.guard.has_leases() { "leases" } else { "claims without leases" };
        format!(
            "store {}, namespace {}, instance {}, {leases}",
            self.backend_name(),
            self.inner.namespace,
            self.instance_id().unwrap_or_default(),
        )
    }

    /// Cuts everything off at once, without a word to the store, as the end of the process would:
    /// handlers are cancelled, nothing is released. For a host whose event loop is gone.
    pub fn abort(&self) {
        let started = self.inner.state().started.take();
        if let Some(started) = started {
            started.cancel.cancel();
            started.mailbox.post(Message::Abort);
        }
        self.inner.registrations.notify_waiters();
    }
}

/// How long handlers have when a scheduler stops (ms).
const GRACE_MS: i64 = 20_000;

fn not_started() -> Error {
    Error::new(Code::Stopped, "the scheduler is not running; call start() first")
}

/// A started scheduler is of no use in a child process: its threads stayed behind.
fn check_process(started: &Started) -> Result<()> {
    if started.pid == std::process::id() {
        return Ok(());
    }
    Err(Error::new(
        Code::Forked,
        format!(
            "this scheduler was started in process {} and is used in its child {}; create it before \
             the fork, if you like, but start it after",
            started.pid,
            std::process::id()
        ),
    ))
}

#[cfg(test)]
mod tests;
