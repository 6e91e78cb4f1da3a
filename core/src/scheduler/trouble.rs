//! What can befall a run: a lost lease, a time-out, a cancellation.

use crate::backend::contract::RunRecord;
use crate::error::{Code, Error, Result};
use crate::events::Event;
use crate::lease::model::{RunKey, Status};
use crate::scheduler::driver::{Driver, Message};
use crate::scheduler::heartbeat::BeatNews;
use crate::scheduler::run::StoreSide;
use crate::scheduler::timers::{RunId, Timer};

impl Driver {
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

    pub(super) fn lose_and_cancel(&mut self, id: RunId, reason: Error) {
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

    pub(super) fn lose(&mut self, id: RunId) {
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

    pub(super) fn abandoned_one_ended(&mut self, id: RunId) {
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

    pub(super) fn tell_overdue(&self, id: RunId) {
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
