//! Store calls that fall together travel together.

use crate::backend::contract::{ClaimInput, Finish, RunClaim};
use crate::clock::busy;
use crate::scheduler::driver::{Claimed, Driver, Message, Pending};
use crate::scheduler::timers::{JobId, RunId};

/// What is to be sent with the next flush.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) prepares: Vec<JobId>,
    pub(super) surveys: Vec<JobId>,
    pub(super) claims: Vec<Pending>,
    pub(super) finishes: Vec<(RunId, Finish)>,
}

impl Driver {
    /// Runs a store call as a task of its own; its answer is a message.
    pub(super) fn send(&self, call: impl Future<Output = Message> + Send + 'static) {
        let guard = busy(&*self.clock);
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            let message = call.await;
            mailbox.post(message);
            drop(guard);
        });
    }

    /// Sends what has gathered.
    pub(super) fn flush(&mut self) {
        let size = self.guard.sent_together();
        for ids in chunks(std::mem::take(&mut self.out.prepares), size) {
            self.send_prepares(ids);
        }
        for ids in chunks(std::mem::take(&mut self.out.surveys), size) {
            self.send_surveys(ids);
        }
        for claims in chunks(std::mem::take(&mut self.out.claims), size) {
            self.send_claims(claims);
        }
        for ends in chunks(std::mem::take(&mut self.out.finishes), size) {
            self.send_finishes(ends);
        }
    }

    fn send_prepares(&mut self, mut ids: Vec<JobId>) {
        ids.retain(|id| self.jobs.contains_key(id));
        let limits = self.limits_of(&ids);
        let guard = self.guard.clone();
        self.send(async move {
            let answers = guard.prepare_jobs(&limits).await;
            Message::Prepared(ids.into_iter().zip(answers).collect())
        });
    }

    fn send_surveys(&mut self, mut ids: Vec<JobId>) {
        ids.retain(|id| self.jobs.contains_key(id));
        let names: Vec<String> = ids.iter().map(|id| self.jobs[id].name.to_string()).collect();
        let guard = self.guard.clone();
        self.send(async move {
            let answers = guard.surveys(&names).await;
            Message::Surveyed(ids.into_iter().zip(answers).collect())
        });
    }

    fn send_claims(&mut self, claims: Vec<Pending>) {
        self.claims_in_flight += claims.len();
        let (guard, clock) = (self.guard.clone(), self.clock.clone());
        if self.leases {
            let asked: Vec<RunClaim> = claims.iter().map(|claim| self.run_claim(claim)).collect();
            self.send(async move {
                let sent = clock.mono_ms();
                let answers = guard.claim_runs(&asked).await;
                Message::Claimed(claimed(claims, sent, answers))
            });
        } else {
            let asked: Vec<ClaimInput> =
                claims.iter().map(|claim| self.run_claim(claim).input).collect();
            self.send(async move {
                let sent = clock.mono_ms();
                let answers = guard.claim_slots(&asked).await;
                Message::Claimed(claimed(claims, sent, answers))
            });
        }
    }

    fn send_finishes(&mut self, ends: Vec<(RunId, Finish)>) {
        let (ids, ends): (Vec<RunId>, Vec<Finish>) = ends.into_iter().unzip();
        let guard = self.guard.clone();
        self.send(async move {
            let answers = guard.finish_runs(&ends).await;
            Message::Finished(ids.into_iter().zip(answers).collect())
        });
    }
}

fn claimed(
    claims: Vec<Pending>,
    sent: i64,
    answers: Vec<crate::error::Result<crate::backend::contract::ClaimOutcome>>,
) -> Vec<Claimed> {
    let pairs = claims.into_iter().zip(answers);
    pairs.map(|(claim, answer)| Claimed { claim, sent, answer }).collect()
}

pub(super) fn chunks<T>(all: Vec<T>, size: usize) -> Vec<Vec<T>> {
    let mut chunks = Vec::with_capacity(all.len().div_ceil(size));
    let mut rest = all.into_iter();
    loop {
        let chunk: Vec<T> = rest.by_ref().take(size).collect();
        if chunk.is_empty() {
            return chunks;
        }
        chunks.push(chunk);
    }
}
