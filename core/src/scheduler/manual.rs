//! Runs that a person asks for.

use tokio::sync::oneshot;

use crate::backend::contract::{ClaimInput, ClaimOutcome, OutcomeKind, RunRecord};
use crate::error::{Code, Error, Result};
use crate::lease::hold;
use crate::lease::model::{RunKey, Status};
use crate::mends::{self, Mend};
use crate::scheduler::RunNow;
use crate::scheduler::driver::{Driver, Message};
use crate::scheduler::run::{Grant, Waiter};
use crate::scheduler::state::{Phase, unknown_job};
use crate::scheduler::timers::{JobId, Timer};

/// A manual run that has not been granted yet.
pub(super) struct ManualAsk {
    job: JobId,
    how: RunNow,
    token: String,
    slot: i64,
    asked_at: i64,
    /// Until when it is tried (ms, monotonic).
    until: i64,
    failures: u32,
    reply: oneshot::Sender<Result<RunRecord>>,
}

/// For how long a store that does not answer is asked (ms).
const PATIENCE_MS: i64 = 10_000;

impl Driver {
    pub(super) fn run_now(
        &mut self,
        name: &str,
        how: RunNow,
        reply: oneshot::Sender<Result<RunRecord>>,
    ) {
        if self.stopping.is_some() {
            let _nobody_waits =
                reply.send(Err(Error::new(Code::Stopped, "the scheduler is stopping")));
            return;
        }
        let Some(id) = self.names.get(name).copied() else {
            let _nobody_waits = reply.send(Err(unknown_job(name)));
            return;
        };
        let (wall, mono) = (self.clock.wall_ms(), self.clock.mono_ms());
        let ask = ManualAsk {
            job: id,
            token: self.random.token(),
            slot: how.slot.unwrap_or(wall),
            asked_at: wall,
            until: mono + PATIENCE_MS,
            failures: 0,
            how,
            reply,
        };
        match self.jobs.get_mut(&id) {
            Some(job) if job.phase == Phase::Registering => job.manual.push(ask),
            _ => self.start_manual(ask),
        }
    }

    pub(super) fn start_manual(&mut self, ask: ManualAsk) {
        let id = self.fresh_id();
        self.manual.insert(id, ask);
        self.ask_manual(id);
    }

    pub(super) fn refuse_manual(&self, asks: Vec<ManualAsk>, error: &Error) {
        for ask in asks {
            let _nobody_waits = ask.reply.send(Err(error.clone()));
        }
    }

    pub(super) fn ask_manual(&mut self, id: u64) {
        let Some(ask) = self.manual.get(&id) else { return };
        let Some(job) = self.jobs.get(&ask.job) else {
            self.answer_manual(id, Err(Error::new(Code::UnknownJob, "the job was removed")));
            return;
        };
        let input = ClaimInput {
            force: Some(ask.how.force),
            asked_at: Some(ask.asked_at),
            ..self.claim_input(&job.spec, ask.slot, ask.token.clone())
        };
        let (guard, clock) = (self.guard.clone(), self.clock.clone());
        self.send(async move {
            let sent = clock.mono_ms();
            let answer = guard.claim_manual(&input).await;
            Message::ManualClaimed { ask: id, sent, answer }
        });
    }

    pub(super) fn manual_claimed(&mut self, id: u64, sent: i64, answer: Result<ClaimOutcome>) {
        match answer {
            Ok(outcome) => {
                self.store_answered();
                self.manual_answered(id, sent, &outcome);
            }
            Err(error) => self.manual_unanswered(id, error),
        }
    }

    fn manual_answered(&mut self, id: u64, sent: i64, outcome: &ClaimOutcome) {
        let Some(ask) = self.manual.get_mut(&id) else { return };
        match &outcome.kind {
            OutcomeKind::Won => self.manual_won(id, sent, outcome),
            OutcomeKind::Overlap => {
                let text = format!(
                    "a run of the job is unfinished (slot {}, held by {:?}); wait for its end, or \
                     pass force",
                    outcome.slot.unwrap_or(0),
                    outcome.by.as_deref().unwrap_or("?"),
                );
                self.answer_manual(id, Err(Error::new(Code::Overlap, text)));
            }
            OutcomeKind::Late => {
                // The store took it for a duplicate of long ago: ask by the store's clock.
                let now = outcome.now_ms.unwrap_or_else(|| self.clock.wall_ms());
                ask.asked_at = now;
                if ask.how.slot.is_none() {
                    ask.slot = now;
                }
                self.ask_manual(id);
            }
            _ => {
                let text = "the run was asked for, and had ended or been given back before its \
                            answer arrived; ask again";
                self.answer_manual(id, Err(Error::new(Code::LeaseLost, text)));
            }
        }
    }

    fn manual_won(&mut self, id: u64, sent: i64, outcome: &ClaimOutcome) {
        let Some(ask) = self.manual.remove(&id) else { return };
        let slot = outcome.slot.unwrap_or(ask.slot);
        let spec = self.jobs.get(&ask.job).map(|job| job.spec.clone());
        let too_late = self.leases
            && !mends::is_out(Mend::F10)
            && spec.as_ref().is_some_and(|spec| {
                self.clock.mono_ms() >= hold::deadline(sent, spec.settings.lease_ms)
            });
        let Some(spec) = spec.filter(|_| self.stopping.is_none() && !too_late) else {
            let why = if too_late {
                Error::new(Code::LeaseLost, "the store answered after the lease could have ended")
            } else {
                Error::new(Code::Stopped, "the scheduler is stopping")
            };
            self.give_manual_back(&ask, slot);
            let _nobody_waits = ask.reply.send(Err(why));
            return;
        };
        if let Some(cancel) = ask.how.cancel.clone() {
            self.cancel_with(cancel, spec.name.to_string(), RunKey::manual(slot));
        }
        let grant = Grant {
            key: RunKey::manual(slot),
            token: ask.token,
            sent,
            kind: None,
            attempt: outcome.attempt.unwrap_or(1),
            fence: outcome.fence.unwrap_or(0),
            max_takeovers: Some(0),
            at: outcome.now_ms,
        };
        let waiter = Waiter { reply: ask.reply, until_end: !ask.how.no_wait };
        self.start_run(Some(ask.job), spec, grant, Some(waiter));
    }

    /// The caller's own signal cancels the run.
    fn cancel_with(&self, cancel: tokio_util::sync::CancellationToken, name: String, key: RunKey) {
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            cancel.cancelled().await;
            let reason = Error::new(Code::Cancelled, "the caller cancelled the run");
            mailbox.post(Message::CancelRun { name, key: Some(key), reason });
        });
    }

    fn manual_unanswered(&mut self, id: u64, error: Error) {
        let now = self.clock.mono_ms();
        let stopping = self.stopping.is_some();
        let Some(ask) = self.manual.get_mut(&id) else { return };
        ask.failures += 1;
        let (failures, job) = (ask.failures, ask.job);
        // Asking again changes nothing about what a user's backend throws, or what it answers wrongly.
        let final_word =
            matches!(error, Error::Host(_)) || error.code() == Some(Code::BackendRefused);
        if now >= ask.until || stopping || final_word {
            if let Some(ask) = self.manual.remove(&id) {
                self.give_manual_back(&ask, ask.slot);
                let _nobody_waits = ask.reply.send(Err(error));
            }
            return;
        }
        let name = self.jobs.get(&job).map(|job| job.name.clone());
        self.store_failed(name.as_deref(), error);
        self.timers.at_mono(Timer::Manual(id), now + self.backoff(failures));
    }

    /// The store may hold a run that nobody starts: it is ended, as far as the store can be reached.
    fn give_manual_back(&self, ask: &ManualAsk, slot: i64) {
        let Some(job) = self.jobs.get(&ask.job) else { return };
        if !self.leases {
            return;
        }
        let (guard, name, token) = (self.guard.clone(), job.name.clone(), ask.token.clone());
        let working = crate::clock::busy(&*self.clock);
        tokio::spawn(async move {
            // If it does not arrive, the lease ends and the run is shown as lost.
            let _best_effort = guard.finish_run(&name, slot, &token, Status::Cancelled).await;
            drop(working);
        });
    }

    fn answer_manual(&mut self, id: u64, answer: Result<RunRecord>) {
        if let Some(ask) = self.manual.remove(&id) {
            let _nobody_waits = ask.reply.send(answer);
        }
    }
}
