//! The end of a run: of its tries, and how it reaches the store.

use std::sync::Arc;

use crate::backend::contract::{Finish, StoredResult};
use crate::clock::busy;
use crate::error::{Code, Error, Result};
use crate::events::Event;
use crate::lease::model::Status;
use crate::scheduler::context::HandlerEnd;
use crate::scheduler::driver::{Driver, Message};
use crate::scheduler::record::{bare_record, cut, ended_record, error_info};
use crate::scheduler::run::{HeldRun, StoreSide, Waiter, run_ref};
use crate::scheduler::state::JobSpec;
use crate::scheduler::timers::{RunId, Timer};

impl Driver {
    // ---- the handler's end

    pub(super) fn ended(&mut self, id: RunId, end: HandlerEnd) {
        for timer in [Timer::TryTimeout(id), Timer::Abandon(id)] {
            self.timers.clear(timer);
        }
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
            (HandlerEnd::Threw(error), None) => {
                self.try_failed(id, Status::Failed, Some(error), None);
            }
        }
    }

    /// A handler that ended because the scheduler stops: a backup starts the run anew.
    pub(super) fn hand_over(&mut self, id: RunId) {
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
    pub(super) fn try_failed(
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

    pub(super) fn hand_over_or(&mut self, id: RunId, status: Status, output: Option<String>) {
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

    pub(super) fn end(&mut self, id: RunId, status: Status, output: Option<String>) {
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

    pub(super) fn send_end(&mut self, id: RunId) {
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

    pub(super) fn send_result(&self, id: RunId, result: Box<StoredResult>, spec: Arc<JobSpec>) {
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
    pub(super) fn end_failed(&mut self, id: RunId, error: Error) {
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
    pub(super) fn told(&mut self, id: RunId) {
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

    pub(super) fn send_release(&self, id: RunId) {
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
    pub(super) fn close(&mut self, id: RunId) {
        self.heart.let_go(id);
        for timer in [Timer::Overdue(id), Timer::Finish(id), Timer::Retry(id)] {
            self.timers.clear(timer);
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.store = StoreSide::Closed;
        self.drop_if_over(id);
    }

    pub(super) fn drop_if_over(&mut self, id: RunId) {
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
    pub(super) fn answer_with_stored(&self, run: &HeldRun, waiter: Waiter) {
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

    pub(super) fn free_place(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && std::mem::take(&mut run.has_place)
        {
            self.places_used -= 1;
        }
    }
}
