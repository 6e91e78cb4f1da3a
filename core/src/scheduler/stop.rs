//! Stopping: nothing new begins, what runs gets its grace, and what is held is handed over.

use tokio::sync::oneshot;

use crate::error::{Code, Error, Result};
use crate::scheduler::StopReport;
use crate::scheduler::driver::Driver;
use crate::scheduler::run::run_ref;
use crate::scheduler::timers::{JobId, Timer};

/// A stop under way.
pub(super) struct Stopping {
    pub(super) report: StopReport,
    replies: Vec<oneshot::Sender<Result<StopReport>>>,
}

impl Stopping {
    /// Answers everybody who waits for the stop; false if nobody does.
    pub(super) fn answer(self, closed: &Result<()>) -> bool {
        let waited_for = !self.replies.is_empty();
        for reply in self.replies {
            let answer = closed.clone().map(|()| self.report.clone());
            let _nobody_waits = reply.send(answer);
        }
        waited_for
    }
}

/// How long a stop waits after its grace (ms).
const AFTER_GRACE_MS: i64 = 5_000;
/// For how long the store is told of ends after a stop was answered (ms).
const TELLING_MS: i64 = 60_000;

impl Driver {
    pub(super) fn stop(&mut self, grace_ms: i64, reply: oneshot::Sender<Result<StopReport>>) {
        if let Some(stopping) = &mut self.stopping {
            stopping.replies.push(reply);
            return;
        }
        self.stopping = Some(Stopping { report: StopReport::default(), replies: vec![reply] });
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            for timer in [Timer::Slot(id), Timer::Ask(id), Timer::Sweep(id), Timer::Register(id)] {
                self.timers.clear(timer);
            }
            let waiting = self.jobs.get_mut(&id).map(|job| std::mem::take(&mut job.manual));
            let stopped = Error::new(Code::Stopped, "the scheduler is stopping");
            self.refuse_manual(waiting.unwrap_or_default(), &stopped);
        }
        self.timers.clear(Timer::Hourly);
        self.waiting.clear();
        self.hungry.clear();
        self.starved.clear();
        // Claims that have gathered but were not sent are not made at all.
        let unsent = std::mem::take(&mut self.out.claims);
        self.places_used -= i64::try_from(unsent.len()).unwrap_or(0);
        self.out.prepares.clear();
        self.out.surveys.clear();
        self.hand_over_between_tries();
        self.timers.at_mono(Timer::Grace, self.clock.mono_ms() + grace_ms.max(0));
    }

    /// The grace is over: handlers are cancelled.
    pub(super) fn grace_over(&mut self) {
        let reason = Error::new(Code::Stopped, "the scheduler stops and the grace is over");
        self.cancel_everything(&reason);
        self.timers.at_mono(Timer::GiveUp, self.clock.mono_ms() + AFTER_GRACE_MS);
    }

    /// A stop always returns. What still runs keeps its lease until it ends or the process does.
    pub(super) fn give_up_stopping(&mut self) {
        let running: Vec<_> =
            self.runs.values().filter(|run| run.handler_runs).map(run_ref).collect();
        let Some(stopping) = &mut self.stopping else { return };
        if stopping.replies.is_empty() {
            // The second time: whatever the store has not heard by now it will not hear from us.
            self.runs.retain(|_, run| !run.only_the_store_waits());
            self.manual.clear();
        } else {
            stopping.report.still_running = running;
            let answered = Stopping {
                report: stopping.report.clone(),
                replies: std::mem::take(&mut stopping.replies),
            };
            answered.answer(&Ok(()));
        }
        self.timers.at_mono(Timer::GiveUp, self.clock.mono_ms() + TELLING_MS);
    }

    /// No handler runs any more: no need to wait for the grace. A store that does not answer is
    /// not waited for as long as a handler is.
    pub(super) fn check_stopped(&mut self) {
        let handlers = self.runs.values().any(|run| run.handler_runs);
        if self.stopping.is_some() && !handlers {
            self.timers.clear(Timer::Grace);
            let latest = self.clock.mono_ms() + AFTER_GRACE_MS;
            self.timers.at_mono_or_before(Timer::GiveUp, latest);
        }
    }
}
