//! A run in our hands, from its grant to the handler's being entered.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::backend::contract::{ClaimKind, Heartbeat, RunRecord, StoredResult};
use crate::clock::busy;
use crate::error::{Error, Result};
use crate::events::{Event, RunInfo, Trigger};
use crate::lease::model::{RunKey, Status};
use crate::scheduler::context::{Cancellation, Entering, HandlerEnd, JobContext};
use crate::scheduler::driver::{Driver, Message};
use crate::scheduler::heartbeat::Held;
use crate::scheduler::record::bare_record;
use crate::scheduler::state::JobSpec;
use crate::scheduler::timers::{JobId, RunId, Timer};

/// What a store granted.
pub(super) struct Grant {
    pub(super) key: RunKey,
    pub(super) token: String,
    /// The monotonic instant just before the claim was sent (ms).
    pub(super) sent: i64,
    /// Why it was asked for; `None` for a manual run.
    pub(super) kind: Option<ClaimKind>,
    pub(super) attempt: i64,
    pub(super) fence: i64,
    /// The run's own policy, where the store tells.
    pub(super) max_takeovers: Option<i64>,
    /// When it was granted (ms, the store's clock), where the store tells.
    pub(super) at: Option<i64>,
}

/// Who waits for a manual run.
pub(super) struct Waiter {
    pub(super) reply: oneshot::Sender<Result<RunRecord>>,
    /// Wants to hear of the end; else of the start.
    pub(super) until_end: bool,
}

/// How far a run has come with the store.
pub(super) enum StoreSide {
    /// We hold it.
    Held,
    /// Its end is on its way.
    Ending { status: Status, result: Box<StoredResult>, failures: u32, saving: bool },
    /// It is being given back.
    Releasing { failures: u32 },
    /// The store has nothing more to hear of it.
    Closed,
}

/// A run that this instance holds.
pub(super) struct HeldRun {
    pub(super) job: Option<JobId>,
    pub(super) spec: Arc<JobSpec>,
    pub(super) grant: Grant,
    pub(super) trigger: Trigger,
    pub(super) cancellation: Cancellation,
    pub(super) retry: i64,
    /// When the first try was entered (ms, our clock).
    pub(super) started_at: Option<i64>,
    /// When the first try began (ms, monotonic).
    pub(super) began: i64,
    pub(super) handler_runs: bool,
    pub(super) store: StoreSide,
    /// Lost to another holder: nothing is sent for a handler that ends because of it.
    pub(super) lost: bool,
    pub(super) abandoned: bool,
    pub(super) has_place: bool,
    pub(super) thrown: Option<Error>,
    pub(super) waiter: Option<Waiter>,
}

impl HeldRun {
    pub(super) fn info(&self, instance_id: &str) -> RunInfo {
        RunInfo {
            job: self.spec.name.to_string(),
            slot: self.grant.key.slot,
            manual: self.grant.key.manual,
            instance_id: instance_id.to_owned(),
            attempt: self.grant.attempt,
            fence: self.grant.fence,
            trigger: self.trigger,
        }
    }

    /// Whether another instance may take the run over after a release.
    pub(super) fn may_be_handed_over(&self) -> bool {
        let takeovers = self.grant.max_takeovers.unwrap_or(self.spec.settings.max_takeovers);
        !self.grant.key.manual && takeovers > 0
    }

    /// Whether the run is still in our hands, as far as the store goes.
    pub(super) fn is_held(&self) -> bool {
        !matches!(self.store, StoreSide::Closed)
    }

    /// Whether nothing is left but telling the store.
    pub(super) fn only_the_store_waits(&self) -> bool {
        !self.handler_runs && self.is_held()
    }
}

impl Driver {
    /// Whether a run of this job is in our hands.
    pub(super) fn holds(&self, name: &Arc<str>, key: RunKey) -> bool {
        let ours = |run: &HeldRun| run.spec.name == *name && run.grant.key == key && run.is_held();
        self.runs.values().any(ours)
    }

    /// Whether any run of this job is in our hands.
    pub(super) fn holds_any(&self, name: &Arc<str>) -> bool {
        self.runs.values().any(|run| run.spec.name == *name && run.is_held())
    }

    // ---- beginning

    pub(super) fn start_run(
        &mut self,
        job: Option<JobId>,
        spec: Arc<JobSpec>,
        grant: Grant,
        waiter: Option<Waiter>,
    ) {
        let id = self.fresh_id();
        let trigger = match grant.kind {
            None => Trigger::Manual,
            Some(_) if grant.attempt > 1 => Trigger::Takeover,
            Some(ClaimKind::CatchUp) => Trigger::CatchUp,
            Some(_) => Trigger::Slot,
        };
        if self.leases {
            let beat = Heartbeat {
                job: spec.name.to_string(),
                slot: grant.key.slot,
                token: grant.token.clone(),
                lease_ms: spec.settings.lease_ms,
            };
            self.heart.hold(id, Held::new(beat, grant.sent));
        }
        let run = HeldRun {
            job,
            spec,
            grant,
            trigger,
            cancellation: Cancellation::default(),
            retry: 0,
            started_at: None,
            began: self.clock.mono_ms(),
            handler_runs: false,
            store: StoreSide::Held,
            lost: false,
            abandoned: false,
            has_place: true,
            thrown: None,
            waiter,
        };
        self.places_used += 1;
        let info = run.info(&self.instance_id);
        self.emit(Event::Won(info.clone()));
        if trigger == Trigger::Takeover {
            self.emit(Event::Takeover(info));
        }
        self.record_claim(&run);
        self.timers.at_mono(Timer::Overdue(id), run.began + overdue_after(&run.spec, &run.grant));
        self.runs.insert(id, run);
        self.begin_try(id);
        self.answer_start(id);
    }

    /// For stores whose claims are not history records already.
    pub(super) fn record_claim(&self, run: &HeldRun) {
        if run.grant.key.manual || !self.guard.backend().records_claims() {
            return;
        }
        let (slot, token) = (run.grant.key.slot, run.grant.token.clone());
        let input = self.claim_input(&run.spec, slot, token);
        let (guard, name) = (self.guard.clone(), run.spec.name.clone());
        let mailbox = self.mailbox.clone();
        let working = busy(&*self.clock);
        tokio::spawn(async move {
            if let Err(error) = guard.record_claim(&input).await {
                mailbox.post(Message::Failed { job: Some(name), error });
            }
            drop(working);
        });
    }

    pub(super) fn begin_try(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.cancellation = Cancellation::default();
        run.handler_runs = true;
        run.thrown = None;
        let mailbox = self.mailbox.clone();
        let notify = Box::new(move || {
            mailbox.post(Message::Entered(id));
        });
        let context = Arc::new(JobContext {
            job: run.spec.name.to_string(),
            slot: run.grant.key.slot,
            timezone: run.spec.timezone.clone(),
            instance_id: self.instance_id.to_string(),
            attempt: run.grant.attempt,
            retry: run.retry,
            fence: run.grant.fence,
            token: run.grant.token.clone(),
            trigger: run.trigger,
            cancellation: run.cancellation.clone(),
            clock: self.clock.clone(),
            entering: Mutex::new(Some(Entering { busy: busy(&*self.clock), notify })),
        });
        if let Some(timeout) = run.spec.settings.timeout_ms {
            self.timers.at_mono(Timer::TryTimeout(id), self.clock.mono_ms() + timeout);
        }
        let key = run.grant.key;
        let (name, handler) = (run.spec.name.clone(), run.spec.handler.clone());
        self.here().insert((name, key));
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            let entered = context.clone();
            // A panic of a handler fails its run and nothing else.
            let end = match tokio::spawn(async move { handler.run(context).await }).await {
                Ok(end) => end,
                Err(error) => {
                    HandlerEnd::Threw(Error::unavailable(format!("the handler panicked: {error}")))
                }
            };
            entered.entered();
            mailbox.post(Message::Ended(id, end));
        });
    }

    pub(super) fn entered(&mut self, id: RunId) {
        let wall = self.clock.wall_ms();
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.started_at.is_none() {
            run.started_at = Some(wall);
            let info = run.info(&self.instance_id);
            self.emit(Event::Started(info));
        }
    }

    pub(super) fn answer_start(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.waiter.as_ref().is_some_and(|waiter| !waiter.until_end) {
            let record = bare_record(run, &self.instance_id, Status::Running);
            if let Some(waiter) = run.waiter.take() {
                let _nobody_waits = waiter.reply.send(Ok(record));
            }
        }
    }
}

/// A run of a job, for the report of a stop.
pub(super) fn run_ref(run: &HeldRun) -> crate::scheduler::RunRef {
    crate::scheduler::RunRef { job: run.spec.name.to_string(), key: run.grant.key }
}

/// After how long a run is suspiciously long (ms): far over its period, or over ten leases.
fn overdue_after(spec: &JobSpec, grant: &Grant) -> i64 {
    let lease = spec.settings.lease_ms;
    let ten_periods =
        spec.schedule.period(grant.key.slot).map_or(i64::MAX, |p| p.saturating_mul(10));
    let tries = spec.settings.timeout_ms.map_or(0, |timeout| timeout.saturating_mul(2));
    (lease * 10).min(ten_periods.max(lease)).max(tries)
}
