//! The one task that owns everything a started scheduler knows.
//!
//! Timers and messages come in, store calls and handlers go out as tasks of their own whose answers
//! are messages again. So there is no lock, no two things happen at once, and what falls due
//! together is sent together.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::backend::contract::{
    ClaimKind, ClaimOutcome, JobLimits, RunRecord, Survey, Wake as StoreWake, WakeListener,
};
use crate::backend::guard::Guard;
use crate::clock::{ActivityGuard, Clock, busy, sleep_for};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::lease::model::RunKey;
use crate::random::Random;
use crate::scheduler::context::HandlerEnd;
use crate::scheduler::heartbeat::{BeatNews, Heart};
use crate::scheduler::manual::ManualAsk;
use crate::scheduler::outbox::Outbox;
use crate::scheduler::run::HeldRun;
use crate::scheduler::state::Job;
use crate::scheduler::stop::Stopping;
use crate::scheduler::timers::{JobId, RunId, Timer, Timers};
use crate::scheduler::{Inner, RunNow, StopReport};

/// Everything that can happen to a started scheduler.
pub(super) enum Message {
    Add(Box<Job>),
    Remove(Arc<str>),
    Prepared(Vec<(JobId, Result<()>)>),
    Surveyed(Vec<(JobId, Result<Survey>)>),
    Claimed(Vec<Claimed>),
    Entered(RunId),
    Ended(RunId, HandlerEnd),
    Finished(Vec<(RunId, Result<bool>)>),
    Saved(RunId, Result<()>),
    Released(RunId, Result<bool>),
    Beat(RunId, BeatNews),
    LookedUp(RunId, Result<Option<RunRecord>>),
    RunNow { name: String, how: RunNow, reply: oneshot::Sender<Result<RunRecord>> },
    ManualClaimed { ask: u64, sent: i64, answer: Result<ClaimOutcome> },
    CancelRun { name: String, key: Option<RunKey>, reason: Error },
    Sweep(String),
    Woken(String, StoreWake),
    Failed { job: Option<Arc<str>>, error: Error },
    Stop { grace_ms: i64, reply: oneshot::Sender<Result<StopReport>> },
    Abort,
}

/// A claim that is on its way.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) job: JobId,
    pub(super) slot: i64,
    pub(super) kind: ClaimKind,
    pub(super) token: String,
}

/// A claim that came back.
pub(super) struct Claimed {
    pub(super) claim: Pending,
    /// The monotonic instant just before it was sent (ms).
    pub(super) sent: i64,
    pub(super) answer: Result<ClaimOutcome>,
}

/// Where messages go. A manual clock counts each until it has been dealt with.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: mpsc::UnboundedSender<Envelope>,
    clock: Arc<dyn Clock>,
}

pub(super) struct Envelope {
    message: Message,
    busy: Option<ActivityGuard>,
}

impl Mailbox {
    pub(super) fn new(clock: Arc<dyn Clock>) -> (Mailbox, mpsc::UnboundedReceiver<Envelope>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Mailbox { sender, clock }, receiver)
    }

    /// Whether two handles lead to the same scheduler.
    pub(super) fn is_same(&self, other: &Mailbox) -> bool {
        self.sender.same_channel(&other.sender)
    }

    /// Sends a message; false if the scheduler is gone.
    pub(super) fn post(&self, message: Message) -> bool {
        let busy = busy(&*self.clock);
        self.sender.send(Envelope { message, busy }).is_ok()
    }
}

/// The clocks as they were when the driver went to sleep.
#[derive(Clone, Copy)]
struct Asleep {
    wall: i64,
    mono: i64,
    /// When it meant to wake, on the monotonic clock.
    until: i64,
}

/// A step of the wall clock against the monotonic one, or a late awakening, that counts (ms).
const STEP_MS: i64 = 1_000;
/// Waking later than this is an oversleep (ms).
const OVERSLEEP_MS: i64 = 2_000;

/// A started scheduler.
pub(super) struct Driver {
    pub(super) inner: Arc<Inner>,
    pub(super) guard: Guard,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<Random>,
    pub(super) instance_id: Arc<str>,
    pub(super) leases: bool,
    pub(super) mailbox: Mailbox,
    receiver: mpsc::UnboundedReceiver<Envelope>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) names: HashMap<Arc<str>, JobId>,
    pub(super) timers: Timers,
    pub(super) runs: BTreeMap<RunId, HeldRun>,
    pub(super) manual: BTreeMap<u64, ManualAsk>,
    pub(super) out: Outbox,
    pub(super) heart: Heart,
    pub(super) places_used: i64,
    pub(super) places: i64,
    /// Asks that wait for a place, oldest slot first.
    pub(super) waiting: BTreeSet<(i64, JobId)>,
    /// Runs without a holder that were seen while no place was free, oldest slot first.
    pub(super) starved: BTreeSet<(i64, JobId)>,
    /// Jobs whose sweep wanted a place.
    pub(super) hungry: BTreeSet<JobId>,
    /// One draw of the jitter per instant.
    fractions: HashMap<i64, f64>,
    pub(super) health: Health,
    pub(super) stopping: Option<Stopping>,
    pub(super) claims_in_flight: usize,
    next_id: u64,
    aborted: bool,
    /// Kept so that the store goes on telling us.
    watching: Option<Arc<WakeListener>>,
}

/// Whether the store answers.
#[derive(Default)]
pub(super) struct Health {
    failures: u32,
    down_since: Option<i64>,
    last_message: String,
    last_told: i64,
    /// The last offset of our clock that was told (ms), if it counted.
    pub(super) skew_told: bool,
}

impl Driver {
    pub(super) fn new(
        inner: Arc<Inner>,
        instance_id: Arc<str>,
        mailbox: Mailbox,
        receiver: mpsc::UnboundedReceiver<Envelope>,
    ) -> Driver {
        let clock = inner.clock.clone();
        let heart = Heart::start(inner.guard.clone(), clock.clone(), mailbox.clone());
        Driver {
            guard: inner.guard.clone(),
            random: inner.random.clone(),
            leases: inner.guard.has_leases(),
            places: inner.places,
            heart,
            clock,
            instance_id,
            mailbox,
            receiver,
            inner,
            jobs: BTreeMap::new(),
            names: HashMap::new(),
            timers: Timers::default(),
            runs: BTreeMap::new(),
            manual: BTreeMap::new(),
            out: Outbox::default(),
            places_used: 0,
            waiting: BTreeSet::new(),
            starved: BTreeSet::new(),
            hungry: BTreeSet::new(),
            fractions: HashMap::new(),
            health: Health::default(),
            stopping: None,
            claims_in_flight: 0,
            next_id: 1,
            aborted: false,
            watching: None,
        }
    }

    /// Lives until the scheduler is stopped and nothing is held any more.
    pub(super) async fn live(mut self) {
        self.watch_store();
        self.timers.at_mono(Timer::Hourly, self.clock.mono_ms() + HOUR_MS);
        let mut busy: Vec<ActivityGuard> = Vec::new();
        loop {
            self.fire_due();
            self.serve_waiting();
            self.flush();
            self.check_stopped();
            busy.clear();
            if self.aborted || self.is_over() {
                break;
            }
            let asleep = self.fall_asleep();
            let clock = self.clock.clone();
            tokio::select! {
                biased;
                envelope = self.receiver.recv() => {
                    self.notice_gap(asleep);
                    let Some(envelope) = envelope else { break };
                    busy.extend(self.take(envelope));
                    while let Ok(envelope) = self.receiver.try_recv() {
                        busy.extend(self.take(envelope));
                    }
                }
                guard = clock.sleep(self.timers.wake()) => {
                    busy.extend(guard);
                    self.notice_gap(asleep);
                }
            }
        }
        self.farewell(busy).await;
    }

    /// What a store can push only shortens a wait.
    fn watch_store(&mut self) {
        let Some(runs) = self.guard.backend().runs() else { return };
        let mailbox = self.mailbox.clone();
        let listener: Arc<WakeListener> = Arc::new(move |job: &str, wake: StoreWake| {
            mailbox.post(Message::Woken(job.to_owned(), wake));
        });
        runs.watch(&listener);
        self.watching = Some(listener);
    }

    fn take(&mut self, envelope: Envelope) -> Option<ActivityGuard> {
        match envelope.message {
            Message::Add(job) => self.add_job(*job),
            Message::Remove(name) => self.remove_job(&name),
            Message::Prepared(answers) => self.prepared(answers),
            Message::Surveyed(answers) => self.surveyed_all(answers),
            Message::Claimed(answers) => answers.into_iter().for_each(|one| self.claimed(one)),
            Message::Entered(run) => self.entered(run),
            Message::Ended(run, end) => self.ended(run, end),
            Message::Finished(answers) => {
                answers.into_iter().for_each(|(run, answer)| self.finished(run, answer));
            }
            Message::Saved(run, answer) => self.saved(run, answer),
            Message::Released(run, answer) => self.released(run, answer),
            Message::Beat(run, news) => self.beat(run, news),
            Message::LookedUp(run, answer) => self.looked_up(run, answer),
            Message::RunNow { name, how, reply } => self.run_now(&name, how, reply),
            Message::ManualClaimed { ask, sent, answer } => self.manual_claimed(ask, sent, answer),
            Message::CancelRun { name, key, reason } => self.cancel_runs(&name, key, &reason),
            Message::Sweep(name) => self.survey_by_name(&name),
            Message::Woken(name, wake) => self.woken(&name, wake),
            Message::Failed { job, error } => self.tell_error(job.as_deref(), error),
            Message::Stop { grace_ms, reply } => self.stop(grace_ms, reply),
            Message::Abort => self.abort(),
        }
        envelope.busy
    }

    fn fire_due(&mut self) {
        let (wall, mono) = (self.clock.wall_ms(), self.clock.mono_ms());
        while let Some(timer) = self.timers.pop_due(wall, mono) {
            match timer {
                Timer::Slot(job) => self.slot_due(job),
                Timer::Ask(job) => self.ask_again(job),
                Timer::Sweep(job) => self.survey(job),
                Timer::Register(job) => self.register(job),
                Timer::Hourly => self.hourly(),
                Timer::TryTimeout(run) => self.try_timed_out(run),
                Timer::Abandon(run) => self.abandon(run),
                Timer::Retry(run) => self.next_try(run),
                Timer::Overdue(run) => self.overdue(run),
                Timer::Finish(run) => self.finish_again(run),
                Timer::Manual(ask) => self.ask_manual(ask),
                Timer::Grace => self.grace_over(),
                Timer::GiveUp => self.give_up_stopping(),
            }
        }
    }

    // ---- clocks

    fn fall_asleep(&self) -> Asleep {
        let (wall, mono) = (self.clock.wall_ms(), self.clock.mono_ms());
        let wake = self.timers.wake();
        let by_wall = wake.wall_ms.map_or(i64::MAX, |at| mono.saturating_add((at - wall).max(0)));
        let until = by_wall.min(wake.mono_ms.unwrap_or(i64::MAX)).min(i64::MAX - OVERSLEEP_MS);
        Asleep { wall, mono, until }
    }

    /// Compares the clocks after a sleep: a step back lets the cursors fall back, a step forward or
    /// an oversleep means acting as at a start.
    fn notice_gap(&mut self, asleep: Asleep) {
        let (wall, mono) = (self.clock.wall_ms(), self.clock.mono_ms());
        let step = (wall - asleep.wall) - (mono - asleep.mono);
        if step < -STEP_MS {
            let ids: Vec<JobId> = self.jobs.keys().copied().collect();
            for id in ids {
                self.fall_back(id, wall);
            }
        }
        if step > STEP_MS || mono > asleep.until + OVERSLEEP_MS {
            self.survey_everything();
        }
    }

    /// After a gap: every job is surveyed before anything of it is claimed.
    pub(super) fn survey_everything(&mut self) {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.survey_first(id);
        }
    }

    /// The jitter's draw for an instant: jobs that are due together are asked for together.
    pub(super) fn fraction(&mut self, instant: i64) -> f64 {
        const KEPT: usize = 4_096;
        if self.fractions.len() > KEPT {
            let wall = self.clock.wall_ms();
            self.fractions.retain(|at, _| *at >= wall);
            if self.fractions.len() > KEPT {
                self.fractions.clear();
            }
        }
        let random = &self.random;
        *self.fractions.entry(instant).or_insert_with(|| random.fraction())
    }

    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    // ---- telling

    pub(super) fn emit(&self, event: Event) {
        self.inner.emit(&event);
    }

    /// An error in the background: of a series of equal ones only the first is told.
    pub(super) fn tell_error(&mut self, job: Option<&str>, error: Error) {
        const SERIES_MS: i64 = 60_000;
        let now = self.clock.mono_ms();
        let message = format!("{}|{}", job.unwrap_or_default(), error.message());
        let fresh = now - self.health.last_told > SERIES_MS;
        if fresh || message != self.health.last_message {
            self.health.last_message = message;
            self.health.last_told = now;
            self.emit(Event::Error { error, job: job.map(str::to_owned) });
        }
    }

    /// The store gave no answer: unknown. The second time in a row it counts as down.
    pub(super) fn store_failed(&mut self, job: Option<&str>, error: Error) {
        self.health.failures += 1;
        let message = error.message().to_owned();
        self.tell_error(job, error);
        if self.health.failures >= 2 && self.health.down_since.is_none() {
            self.health.down_since = Some(self.clock.mono_ms());
            self.emit(Event::StoreDown { message });
        }
    }

    /// The store answered. After an outage every job is surveyed before it is claimed.
    pub(super) fn store_answered(&mut self) {
        self.health.failures = 0;
        if let Some(since) = self.health.down_since.take() {
            self.health.last_message.clear();
            self.emit(Event::StoreUp { down_ms: self.clock.mono_ms() - since });
            self.survey_everything();
        }
    }

    pub(super) fn store_is_down(&self) -> bool {
        self.health.failures > 0
    }

    /// A wait before the next try of something that failed: doubling, jittered, at most 5 s.
    pub(super) fn backoff(&self, failures: u32) -> i64 {
        let longest = (50_i64 << failures.min(7)).min(5_000);
        longest / 2 + self.random.up_to(longest / 2)
    }

    // ---- the end

    fn abort(&mut self) {
        for run in self.runs.values() {
            run.cancellation
                .cancel(Error::new(crate::error::Code::Stopped, "the event loop is gone"));
        }
        self.aborted = true;
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some()
            && self.runs.is_empty()
            && self.manual.is_empty()
            && self.claims_in_flight == 0
    }

    async fn farewell(mut self, busy: Vec<ActivityGuard>) {
        self.heart.stop();
        drop(busy);
        let clock = self.clock.clone();
        let closed = tokio::select! {
            biased;
            closed = self.inner.shared.leave() => closed,
            // A stop always returns, also where a store never answers.
            () = sleep_for(&*clock, CLOSING_MS) => {
                let text = format!("backend {:?}, close: no answer within {CLOSING_MS} ms",
                    self.guard.backend().name());
                Err(Error::unavailable(text))
            }
        };
        // What a user's own `close` throws reaches whoever asked for the stop, if anybody waits.
        let users_own = matches!(closed, Err(Error::Host(_)));
        let told = if users_own { closed.clone() } else { Ok(()) };
        let heard = self.stopping.take().is_some_and(|stopping| stopping.answer(&told));
        if let Err(error) = closed
            && !(users_own && heard)
        {
            self.emit(Event::Error { error, job: None });
        }
    }

    /// A run whose handler runs in this process, held or not, of this start or of one before.
    pub(super) fn runs_here(&self, job: &Arc<str>, key: RunKey) -> bool {
        self.here().contains(&(job.clone(), key))
    }

    pub(super) fn here(&self) -> std::sync::MutexGuard<'_, HashSet<(Arc<str>, RunKey)>> {
        self.inner.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits_of(&self, ids: &[JobId]) -> Vec<JobLimits> {
        ids.iter().filter_map(|id| self.jobs.get(id)).map(|job| job.limits.clone()).collect()
    }
}

/// How long a store may take to close (ms).
const CLOSING_MS: i64 = 5_000;

/// How often jobs that are rarely due are looked at (ms).
pub(super) const HOUR_MS: i64 = 3_600_000;
