//! What the store answered to an ask.

use std::sync::Arc;

use crate::backend::contract::{ClaimKind, ClaimOutcome, OutcomeKind};
use crate::error::Error;
use crate::events::{Event, MissedReason};
use crate::lease::hold;
use crate::lease::model::RunKey;
use crate::mends::{self, Mend};
use crate::scheduler::driver::{Claimed, Driver, Message, Pending};
use crate::scheduler::run::Grant;
use crate::scheduler::state::AskState;
use crate::scheduler::timers::{JobId, Timer};

impl Driver {
    // ---- answers

    pub(super) fn claimed(&mut self, claimed: Claimed) {
        self.claims_in_flight -= 1;
        self.places_used -= 1;
        let Claimed { claim, sent, answer } = claimed;
        if let Some(job) = self.jobs.get_mut(&claim.job) {
            job.asked.remove(&claim.slot);
        }
        match answer {
            Ok(outcome) => {
                self.store_answered();
                self.notice_skew(claim.job, &outcome);
                self.answered(&claim, sent, &outcome);
            }
            Err(error) => self.unanswered(&claim, error),
        }
        self.pump(claim.job);
    }

    /// Unknown: the same token again, with back-off. Our own clock only ends the single tries and
    /// leaves the slot to the next survey.
    pub(super) fn unanswered(&mut self, claim: &Pending, error: Error) {
        let wall = self.clock.wall_ms();
        let name = self.jobs.get(&claim.job).map(|job| job.name.clone());
        self.store_failed(name.as_deref(), error);
        let backoff = |failures| self.clock.mono_ms() + self.backoff(failures);
        let (at, first) = (backoff(1), claim.kind != ClaimKind::Slot);
        let Some(job) = self.jobs.get_mut(&claim.job) else { return };
        if first {
            if mends::is_out(Mend::F13) {
                job.tokens.remove(&claim.slot);
            }
            self.sweep_at(claim.job, at);
            return;
        }
        let overdue = wall > job.not_after(claim.slot);
        let Some(ask) = job.asks.get_mut(&claim.slot) else {
            self.survey_first(claim.job);
            return;
        };
        ask.failures += 1;
        ask.state = AskState::Later;
        let failures = ask.failures;
        if overdue {
            job.asks.remove(&claim.slot);
            job.missed.hint(claim.slot, MissedReason::StoreDown);
            self.survey_first(claim.job);
        } else {
            let at = self.clock.mono_ms() + self.backoff(failures);
            self.timers.at_mono(Timer::Ask(claim.job), at);
        }
    }

    pub(super) fn ask_again(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            for ask in job.asks.values_mut().filter(|ask| ask.state == AskState::Later) {
                ask.state = AskState::Ready;
            }
        }
        self.pump(id);
    }

    pub(super) fn answered(&mut self, claim: &Pending, sent: i64, outcome: &ClaimOutcome) {
        let id = claim.job;
        let mono = self.clock.mono_ms();
        match &outcome.kind {
            OutcomeKind::Won => {
                self.settle_ask(claim, true);
                self.won(claim, sent, outcome);
            }
            OutcomeKind::Running => {
                let left = outcome.left_ms.unwrap_or_else(|| self.lease_of(id));
                // Nothing left: the token is spent; a sweep asks with a new one.
                self.settle_ask(claim, left <= 0);
                self.sweep_after_lease(id, left);
            }
            OutcomeKind::Overlap => self.overlapped(claim, outcome),
            OutcomeKind::Early => {
                self.wait_for_slot(claim, outcome, mono);
                return;
            }
            OutcomeKind::Late => {
                self.settle_ask(claim, true);
                if claim.kind == ClaimKind::CatchUp {
                    let now = outcome.now_ms.unwrap_or_else(|| self.clock.wall_ms());
                    self.floor_passed(id, claim.slot, now);
                } else if let Some(job) = self.jobs.get_mut(&id) {
                    job.missed.hint(claim.slot, MissedReason::TooLate);
                }
                self.sweep_soon(id, 0);
            }
            OutcomeKind::Paused => {
                self.settle_ask(claim, true);
                self.report_one(id, claim.slot, MissedReason::Paused);
            }
            OutcomeKind::Done | OutcomeKind::None | OutcomeKind::Unknown(_) => {
                self.settle_ask(claim, true);
            }
        }
        if let Some(next) = outcome.next_ms {
            self.sweep_after_lease(id, next);
        }
        if claim.kind == ClaimKind::CatchUp && outcome.kind != OutcomeKind::Overlap {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.catch_up.remove(&claim.slot);
            }
            self.next_catch_up(id);
        }
    }

    /// A slot has its answer. Its token is kept while a late duplicate of the ask may still find
    /// it: until the run has ended, or the token is spent.
    pub(super) fn settle_ask(&mut self, claim: &Pending, forget: bool) {
        let Some(job) = self.jobs.get_mut(&claim.job) else { return };
        if claim.kind == ClaimKind::Slot {
            job.asks.remove(&claim.slot);
        }
        if forget || mends::is_out(Mend::F13) {
            job.tokens.remove(&claim.slot);
        }
    }

    pub(super) fn overlapped(&mut self, claim: &Pending, outcome: &ClaimOutcome) {
        let id = claim.job;
        let left = outcome.left_ms.unwrap_or_else(|| self.lease_of(id));
        self.sweep_after_lease(id, left);
        if claim.kind == ClaimKind::CatchUp {
            return;
        }
        self.settle_ask(claim, true);
        let Some(job) = self.jobs.get(&id) else { return };
        self.emit(Event::Overlap {
            job: job.name.to_string(),
            slot: claim.slot,
            other_slot: outcome.slot,
            other_manual: outcome.manual,
            by: outcome.by.clone(),
        });
    }

    /// The store's clock has not come so far: ask again, with the same token, when it has.
    pub(super) fn wait_for_slot(&mut self, claim: &Pending, outcome: &ClaimOutcome, mono: i64) {
        let now = outcome.now_ms.unwrap_or_else(|| self.clock.wall_ms());
        let wait = (claim.slot - now).max(1);
        let Some(job) = self.jobs.get_mut(&claim.job) else { return };
        if let Some(ask) = job.asks.get_mut(&claim.slot) {
            ask.state = AskState::Later;
            self.timers.at_mono(Timer::Ask(claim.job), mono + wait);
        }
    }

    pub(super) fn won(&mut self, claim: &Pending, sent: i64, outcome: &ClaimOutcome) {
        let id = claim.job;
        let spec = self.jobs.get(&id).map(|job| job.spec.clone());
        let key = RunKey::scheduled(claim.slot);
        let stopping = self.stopping.is_some();
        // The answer travelled for too long: the lease may be over before the handler starts.
        let too_late = self.leases
            && !mends::is_out(Mend::F10)
            && spec.as_ref().is_some_and(|spec| {
                self.clock.mono_ms() >= hold::deadline(sent, spec.settings.lease_ms)
            });
        match spec {
            Some(spec) if !stopping && !too_late && !self.runs_here(&spec.name, key) => {
                let grant = Grant {
                    key,
                    token: claim.token.clone(),
                    sent,
                    kind: Some(claim.kind),
                    attempt: outcome.attempt.unwrap_or(1),
                    fence: outcome.fence.unwrap_or(0),
                    max_takeovers: outcome.max_takeovers,
                    at: outcome.now_ms,
                };
                self.start_run(Some(id), spec, grant, None);
            }
            Some(spec) => self.give_back(id, &spec.name, claim),
            // The job was removed while its claim was on its way.
            None => {}
        }
    }

    /// A win that is not used: the lease is given back, and a backup takes the run.
    pub(super) fn give_back(&mut self, id: JobId, name: &Arc<str>, claim: &Pending) {
        if !self.leases {
            return;
        }
        let (guard, name) = (self.guard.clone(), name.clone());
        let (slot, token) = (claim.slot, claim.token.clone());
        self.send(async move {
            match guard.release(&name, slot, &token).await {
                Ok(_) => Message::Sweep(name.to_string()),
                Err(error) => Message::Failed { job: Some(name), error },
            }
        });
        self.sweep_soon(id, 0);
    }

    /// Our clock against the store's: told when they are more than 2 s apart, or an early ask.
    pub(super) fn notice_skew(&mut self, id: JobId, outcome: &ClaimOutcome) {
        const COUNTS_MS: i64 = 2_000;
        let Some(now) = outcome.now_ms else { return };
        let offset_ms = self.clock.wall_ms() - now;
        let apart = offset_ms.abs() > COUNTS_MS;
        if apart && !self.health.skew_told {
            let job = self.jobs.get(&id).map(|job| job.name.to_string());
            self.emit(Event::Skew { offset_ms, job });
        }
        self.health.skew_told = apart;
    }

    pub(super) fn lease_of(&self, id: JobId) -> i64 {
        self.jobs.get(&id).map_or(30_000, |job| job.settings().lease_ms)
    }
}
