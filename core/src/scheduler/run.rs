//! A run in our hands: its tries, its end, and how the end reaches the store.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::backend::contract::{
    ClaimInput, ClaimKind, ErrorInfo, Finish, Heartbeat, RunRecord, StoredResult,
};
use crate::clock::busy;
use crate::error::{Code, Error, Result};
use crate::events::{Event, RunInfo, Trigger};
use crate::lease::model::{RunKey, Status};
use crate::scheduler::context::{Cancellation, Entering, HandlerEnd, JobContext};
use crate::scheduler::driver::{Driver, Message};
use crate::scheduler::heartbeat::{BeatNews, Held};
use crate::scheduler::slot::JobSpec;
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
enum StoreSide {
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
    trigger: Trigger,
    pub(super) cancellation: Cancellation,
    retry: i64,
    /// When the first try was entered (ms, our clock).
    started_at: Option<i64>,
    /// When the first try began (ms, monotonic).
    began: i64,
    pub(super) handler_runs: bool,
    store: StoreSide,
    /// Lost to another holder: nothing is sent for a handler that ends because of it.
    lost: bool,
    abandoned: bool,
    has_place: bool,
    thrown: Option<Error>,
    waiter: Option<Waiter>,
}

/// The longest output and stack that are kept (bytes).
const KEPT_BYTES: usize = 8 * 1024;

impl HeldRun {
    fn info(&self, instance_id: &str) -> RunInfo {
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
    fn may_be_handed_over(&self) -> bool {
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
    fn record_claim(&self, run: &HeldRun) {
        if run.grant.key.manual || !self.guard.backend().records_claims() {
            return;
        }
        let settings = &run.spec.settings;
        let input = ClaimInput {
            job: run.spec.name.to_string(),
            slot: run.grant.key.slot,
            token: run.grant.token.clone(),
            instance_id: self.instance_id.to_string(),
            history_size: settings.history_size,
            history_ttl_ms: settings.history_ttl_ms,
            lease_ms: self.leases.then_some(settings.lease_ms),
            overlap: None,
            force: None,
            max_early_ms: None,
            asked_at: None,
        };
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

    fn begin_try(&mut self, id: RunId) {
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

    fn answer_start(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if run.waiter.as_ref().is_some_and(|waiter| !waiter.until_end) {
            let record = bare_record(run, &self.instance_id, Status::Running);
            if let Some(waiter) = run.waiter.take() {
                let _nobody_waits = waiter.reply.send(Ok(record));
            }
        }
    }

    // ---- the handler's end

    pub(super) fn ended(&mut self, id: RunId, end: HandlerEnd) {
        for timer in [Timer::TryTimeout(id), Timer::Abandon(id)] {
            self.timers.clear(timer);
        }
        let stopping = self.stopping.is_some();
        let wall = self.clock.wall_ms();
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.handler_runs = false;
        run.started_at.get_or_insert(wall);
        let key = run.grant.key;
        let name = run.spec.name.clone();
        let reason = run.cancellation.reason().and_then(|reason| reason.code());
        let was_abandoned = run.abandoned;
        self.here().remove(&(name, key));
        if was_abandoned {
            self.abandoned_one_ended(id);
            return;
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        match (end, reason) {
            (HandlerEnd::Returned(output), Some(Code::Timeout)) => {
                self.try_failed(id, Status::TimedOut, None, output);
            }
            // One that returned is finished, whatever was asked of it meanwhile: the store decides.
            (HandlerEnd::Returned(output), _) => self.end(id, Status::Succeeded, output),
            (HandlerEnd::Threw(error), Some(Code::Timeout)) => {
                self.try_failed(id, Status::TimedOut, Some(error), None);
            }
            (HandlerEnd::Threw(error), Some(Code::LeaseLost)) => {
                run.thrown = Some(error);
                self.close(id);
            }
            (HandlerEnd::Threw(error), Some(Code::Cancelled)) => {
                run.thrown = Some(error);
                self.end(id, Status::Cancelled, None);
            }
            (HandlerEnd::Threw(error), Some(_)) => {
                run.thrown = Some(error);
                self.hand_over(id);
            }
            (HandlerEnd::Threw(error), None) if stopping && run.spec.settings.retries.is_some() => {
                self.try_failed(id, Status::Failed, Some(error), None);
            }
            (HandlerEnd::Threw(error), None) => {
                self.try_failed(id, Status::Failed, Some(error), None);
            }
        }
    }

    /// A handler that ended because the scheduler stops: a backup starts the run anew.
    fn hand_over(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !self.leases || !run.may_be_handed_over() {
            self.end(id, Status::Cancelled, None);
            return;
        }
        run.store = StoreSide::Releasing { failures: 0 };
        self.free_place(id);
        self.send_release(id);
    }

    /// A try that failed: the next one under the same claim, or the end.
    fn try_failed(
        &mut self,
        id: RunId,
        status: Status,
        error: Option<Error>,
        output: Option<String>,
    ) {
        let stopping = self.stopping.is_some();
        let now = self.clock.mono_ms();
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.thrown = error;
        let retries = run.spec.settings.retries.clone().filter(|r| run.retry < r.attempts);
        let Some(retries) = retries.filter(|_| !run.lost) else {
            self.end(id, status, output);
            return;
        };
        if stopping {
            // What is left of the tries is for whoever takes over.
            self.hand_over_or(id, status, output);
            return;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "bounded")]
        let wait = (retries.backoff_ms as f64
            * retries.factor.powi(i32::try_from(run.retry).unwrap_or(i32::MAX)))
        .min(retries.max_backoff_ms as f64) as i64;
        run.retry += 1;
        self.timers.at_mono(Timer::Retry(id), now + wait);
    }

    fn hand_over_or(&mut self, id: RunId, status: Status, output: Option<String>) {
        let Some(run) = self.runs.get(&id) else { return };
        if self.leases && run.may_be_handed_over() {
            self.hand_over(id);
        } else {
            self.end(id, status, output);
        }
    }

    pub(super) fn next_try(&mut self, id: RunId) {
        self.begin_try(id);
    }

    // ---- ending, and telling the store

    fn end(&mut self, id: RunId, status: Status, output: Option<String>) {
        let ended_at = self.clock.wall_ms();
        let Some(run) = self.runs.get_mut(&id) else { return };
        let (output, truncated) = match output.filter(|_| run.spec.settings.keep_output) {
            Some(text) => cut(text),
            None => (None, false),
        };
        let failed = matches!(status, Status::Failed | Status::TimedOut | Status::Cancelled);
        let thrown =
            run.thrown.clone().filter(|_| failed).or_else(|| {
                (status == Status::TimedOut).then(|| run.cancellation.reason()).flatten()
            });
        let result = StoredResult {
            slot: run.grant.key.slot,
            manual: run.grant.key.manual,
            by: self.instance_id.to_string(),
            status,
            started_at: run.started_at.unwrap_or(ended_at),
            ended_at,
            attempt: Some(run.grant.attempt),
            error: thrown.as_ref().map(error_info),
            output,
            output_truncated: truncated.then_some(true),
            abandoned: run.abandoned.then_some(true),
        };
        let saving = !self.leases;
        run.store = StoreSide::Ending { status, result: Box::new(result), failures: 0, saving };
        if !run.abandoned {
            self.free_place(id);
        }
        self.timers.clear(Timer::Overdue(id));
        self.send_end(id);
    }

    fn send_end(&mut self, id: RunId) {
        let Some(run) = self.runs.get(&id) else { return };
        let StoreSide::Ending { status, result, saving, .. } = &run.store else { return };
        if *saving {
            self.send_result(id, result.clone(), run.spec.clone());
            return;
        }
        let finish = Finish {
            job: run.spec.name.to_string(),
            slot: run.grant.key.slot,
            token: run.grant.token.clone(),
            status: *status,
            result: Some((**result).clone()),
        };
        self.out.finishes.push((id, finish));
    }

    fn send_result(&self, id: RunId, result: Box<StoredResult>, spec: Arc<JobSpec>) {
        let guard = self.guard.clone();
        let (size, ttl) = (spec.settings.history_size, spec.settings.history_ttl_ms);
        self.send(async move {
            Message::Saved(id, guard.save_result(&spec.name, &result, size, ttl).await)
        });
    }

    pub(super) fn finished(&mut self, id: RunId, answer: Result<bool>) {
        match answer {
            Ok(true) => {
                self.store_answered();
                let apart = self.guard.saves_results_apart();
                let Some(run) = self.runs.get_mut(&id) else { return };
                if let (true, StoreSide::Ending { saving, failures, .. }) = (apart, &mut run.store)
                {
                    (*saving, *failures) = (true, 0);
                    self.heart.let_go(id);
                    self.send_end(id);
                } else {
                    self.told(id);
                }
            }
            Ok(false) => {
                self.store_answered();
                self.lose(id);
                self.close(id);
            }
            Err(error) => self.end_failed(id, error),
        }
    }

    pub(super) fn saved(&mut self, id: RunId, answer: Result<()>) {
        match answer {
            Ok(()) => {
                self.store_answered();
                self.told(id);
            }
            Err(error) => self.end_failed(id, error),
        }
    }

    /// Unknown whether the end was stored: again, it is safe to repeat.
    fn end_failed(&mut self, id: RunId, error: Error) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let name = run.spec.name.clone();
        let failures = match &mut run.store {
            StoreSide::Ending { failures, .. } | StoreSide::Releasing { failures } => {
                *failures += 1;
                *failures
            }
            _ => return,
        };
        self.store_failed(Some(&name), error);
        let at = self.clock.mono_ms() + self.backoff(failures);
        self.timers.at_mono(Timer::Finish(id), at);
    }

    pub(super) fn finish_again(&mut self, id: RunId) {
        match self.runs.get(&id).map(|run| &run.store) {
            Some(StoreSide::Ending { .. }) => self.send_end(id),
            Some(StoreSide::Releasing { .. }) => self.send_release(id),
            _ => {}
        }
    }

    /// The store knows the end: everybody may know.
    fn told(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if let StoreSide::Ending { status, result, .. } = &run.store {
            let record = ended_record(run, &self.instance_id, *status, result);
            let error = run.thrown.clone();
            let waiter = run.waiter.take();
            if let Some(stopping) = &mut self.stopping {
                stopping.report.finished.push(run_ref(run));
            }
            self.inner.emit(&Event::Finished { record: Box::new(record.clone()), error });
            if let Some(waiter) = waiter {
                let _nobody_waits = waiter.reply.send(Ok(record));
            }
        }
        self.close(id);
    }

    fn send_release(&self, id: RunId) {
        let Some(run) = self.runs.get(&id) else { return };
        let (guard, name) = (self.guard.clone(), run.spec.name.clone());
        let (slot, token) = (run.grant.key.slot, run.grant.token.clone());
        self.send(async move { Message::Released(id, guard.release(&name, slot, &token).await) });
    }

    pub(super) fn released(&mut self, id: RunId, answer: Result<bool>) {
        match answer {
            Ok(given_back) => {
                self.store_answered();
                if let (Some(run), Some(stopping), true) =
                    (self.runs.get(&id), &mut self.stopping, given_back)
                {
                    stopping.report.released.push(run_ref(run));
                }
                self.close(id);
            }
            Err(error) => self.end_failed(id, error),
        }
    }

    /// The store has nothing more to hear of the run.
    fn close(&mut self, id: RunId) {
        self.heart.let_go(id);
        for timer in [Timer::Overdue(id), Timer::Finish(id), Timer::Retry(id)] {
            self.timers.clear(timer);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.store = StoreSide::Closed;
        self.drop_if_over(id);
    }

    fn drop_if_over(&mut self, id: RunId) {
        let over = self.runs.get(&id).is_some_and(|run| !run.handler_runs && !run.is_held());
        if !over {
            return;
        }
        self.free_place(id);
        let Some(mut run) = self.runs.remove(&id) else { return };
        if let Some(waiter) = run.waiter.take() {
            self.answer_with_stored(&run, waiter);
        }
        let Some(job) = run.job else { return };
        let waits = self.jobs.get(&job).is_some_and(|job| !job.catch_up.is_empty());
        // A backup may be needed where we gave up, and what was in the way may be gone.
        if run.lost || waits {
            self.sweep_soon(job, 0);
        }
        self.ask_again(job);
    }

    /// Somebody else ended the run: the store's record is the answer.
    fn answer_with_stored(&self, run: &HeldRun, waiter: Waiter) {
        let local = bare_record(run, &self.instance_id, Status::Lost);
        let (guard, name, key) = (self.guard.clone(), run.spec.name.clone(), run.grant.key);
        let working = busy(&*self.clock);
        tokio::spawn(async move {
            let stored = guard.record(&name, key).await;
            let answer = stored.map(|record| record.unwrap_or(local));
            let _nobody_waits = waiter.reply.send(answer);
            drop(working);
        });
    }

    fn free_place(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && std::mem::take(&mut run.has_place)
        {
            self.places_used -= 1;
        }
    }

    // ---- trouble

    pub(super) fn beat(&mut self, id: RunId, news: BeatNews) {
        let Some(run) = self.runs.get(&id) else { return };
        // Once an end has been sent a heartbeat's `false` means nothing.
        if !matches!(run.store, StoreSide::Held) {
            return;
        }
        let (guard, name, key) = (self.guard.clone(), run.spec.name.clone(), run.grant.key);
        match news {
            BeatNews::Refused => {
                self.send(async move { Message::LookedUp(id, guard.record(&name, key).await) });
            }
            BeatNews::Expired => {
                let text = "no heartbeat was answered before the lease could end";
                self.lose_and_cancel(id, Error::new(Code::LeaseLost, text));
            }
            BeatNews::Failed(error) => self.store_failed(Some(&name), error),
        }
    }

    /// A heartbeat was refused, and this is what the store shows of the run.
    pub(super) fn looked_up(&mut self, id: RunId, record: Result<Option<RunRecord>>) {
        let Some(run) = self.runs.get(&id) else { return };
        if !matches!(run.store, StoreSide::Held) {
            return;
        }
        let name = run.spec.name.clone();
        let slot = run.grant.key.slot;
        let reason = match record {
            Ok(Some(record)) if record.status == Status::Cancelled => {
                Error::new(Code::Cancelled, "the run was cancelled")
            }
            Ok(Some(record)) => {
                Error::new(Code::LeaseLost, format!("the run is held by {:?} now", record.by))
            }
            Ok(None) => {
                let text = format!(
                    "job {name:?}: the store has no record of the run of slot {slot} that it had \
                     granted: it lost writes; see its page in the documentation for the settings \
                     that prevent this"
                );
                self.tell_error(Some(&name), Error::unavailable(text));
                Error::new(Code::LeaseLost, "the store lost the record of the run")
            }
            Err(error) => {
                self.store_failed(Some(&name), error);
                Error::new(Code::LeaseLost, "the lease was refused")
            }
        };
        self.lose_and_cancel(id, reason);
    }

    fn lose_and_cancel(&mut self, id: RunId, reason: Error) {
        if reason.code() == Some(Code::LeaseLost) {
            self.lose(id);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.cancellation.cancel(reason);
        if !run.handler_runs {
            // Between two tries there is nobody to cancel.
            self.close(id);
        }
    }

    fn lose(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !std::mem::replace(&mut run.lost, true) {
            let info = run.info(&self.instance_id);
            let job = run.job;
            self.emit(Event::LeaseLost(info));
            if let Some(job) = job {
                self.sweep_soon(job, 0);
            }
        }
    }

    pub(super) fn try_timed_out(&mut self, id: RunId) {
        let now = self.clock.mono_ms();
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !run.handler_runs {
            return;
        }
        let settings = &run.spec.settings;
        let text = format!("the try took longer than {} ms", settings.timeout_ms.unwrap_or(0));
        self.timers.at_mono(Timer::Abandon(id), now + settings.abandon_after_ms);
        run.cancellation.cancel(Error::new(Code::Timeout, text));
    }

    /// The handler ignores its cancellation: the run is ended without it, and this process takes no
    /// run of the job until the handler ends.
    pub(super) fn abandon(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !run.handler_runs || run.abandoned || !matches!(run.store, StoreSide::Held) {
            return;
        }
        run.abandoned = true;
        let job = run.job.and_then(|job| self.jobs.get_mut(&job));
        if let Some(job) = job {
            job.abandoned += 1;
        }
        self.tell_overdue(id);
        self.end(id, Status::TimedOut, None);
    }

    fn abandoned_one_ended(&mut self, id: RunId) {
        let job = self.runs.get(&id).and_then(|run| run.job);
        self.free_place(id);
        self.drop_if_over(id);
        let Some(job) = job else { return };
        if let Some(job) = self.jobs.get_mut(&job) {
            job.abandoned -= 1;
        }
        self.sweep_soon(job, 0);
        self.pump(job);
    }

    pub(super) fn overdue(&mut self, id: RunId) {
        if self.runs.get(&id).is_some_and(|run| run.handler_runs) {
            self.tell_overdue(id);
        }
    }

    fn tell_overdue(&self, id: RunId) {
        let Some(run) = self.runs.get(&id) else { return };
        let running_ms = self.clock.mono_ms() - run.began;
        self.emit(Event::Overdue { run: run.info(&self.instance_id), running_ms });
    }

    /// Cancels runs of a job that run here.
    pub(super) fn cancel_runs(&mut self, name: &str, key: Option<RunKey>, reason: &Error) {
        let hit = self.runs.iter().filter(|(_, run)| *run.spec.name == *name);
        let hit = hit.filter(|(_, run)| key.is_none_or(|key| run.grant.key == key));
        let hit: Vec<RunId> = hit.map(|(id, _)| *id).collect();
        for id in hit {
            let Some(run) = self.runs.get_mut(&id) else { continue };
            run.cancellation.cancel(reason.clone());
            if !run.handler_runs && matches!(run.store, StoreSide::Held) {
                self.end(id, Status::Cancelled, None);
            }
        }
    }

    /// Runs that wait for their next try: whoever takes them over has all tries again.
    pub(super) fn hand_over_between_tries(&mut self) {
        let between = self
            .runs
            .iter()
            .filter(|(_, run)| !run.handler_runs && matches!(run.store, StoreSide::Held));
        let between: Vec<RunId> = between.map(|(id, _)| *id).collect();
        for id in between {
            self.timers.clear(Timer::Retry(id));
            self.hand_over_or(id, Status::Failed, None);
        }
    }

    /// Cancels everything that runs, for the end of a stop's grace.
    pub(super) fn cancel_everything(&mut self, reason: &Error) {
        let ids: Vec<RunId> = self.runs.keys().copied().collect();
        for id in ids {
            let Some(run) = self.runs.get_mut(&id) else { continue };
            run.cancellation.cancel(reason.clone());
            if !run.handler_runs && matches!(run.store, StoreSide::Held) {
                self.hand_over(id);
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

fn bare_record(run: &HeldRun, instance_id: &str, status: Status) -> RunRecord {
    RunRecord {
        job: run.spec.name.to_string(),
        slot: run.grant.key.slot,
        manual: run.grant.key.manual,
        by: instance_id.to_owned(),
        at: run.grant.at.or(run.started_at).unwrap_or(run.grant.key.slot),
        status,
        attempt: Some(run.grant.attempt),
        fence: (run.grant.fence > 0).then_some(run.grant.fence),
        started_at: run.started_at,
        ended_at: None,
        duration_ms: None,
        error: None,
        output: None,
        output_truncated: None,
        abandoned: None,
    }
}

fn ended_record(
    run: &HeldRun,
    instance_id: &str,
    status: Status,
    result: &StoredResult,
) -> RunRecord {
    RunRecord {
        started_at: Some(result.started_at),
        ended_at: Some(result.ended_at),
        duration_ms: Some((result.ended_at - result.started_at).max(0)),
        error: result.error.clone(),
        output: result.output.clone(),
        output_truncated: result.output_truncated,
        abandoned: result.abandoned,
        ..bare_record(run, instance_id, status)
    }
}

fn error_info(error: &Error) -> ErrorInfo {
    match error {
        Error::Host(host) => ErrorInfo {
            name: host.name.clone(),
            message: cut(host.message.clone()).0.unwrap_or_default(),
            stack: host.stack.clone().and_then(|stack| cut(stack).0),
        },
        Error::Coded { code, message } => ErrorInfo {
            name: code.as_str().to_owned(),
            message: cut(message.clone()).0.unwrap_or_default(),
            stack: None,
        },
    }
}

/// At most so much of a text as is kept, and whether it was cut.
fn cut(mut text: String) -> (Option<String>, bool) {
    if text.len() <= KEPT_BYTES {
        return (Some(text), false);
    }
    let mut end = KEPT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    (Some(text), true)
}
