//! Claims of scheduled runs: settling, then the first rule that fits.

use crate::backend::contract::{
    ClaimInput, ClaimKind, ClaimOutcome, OutcomeKind, Overlap, RunClaim,
};
use crate::lease::model::{Run, RunKey, Status};
use crate::lease::rules::Answer;
use crate::lease::rules::draft::Draft;
use crate::lease::rules::grant::{
    first_grant, lease_of, renew, running, skipped, without_lease, won,
};
use crate::mends::{self, Mend};

impl Draft<'_> {
    /// For every unfinished run: a lease that ends later than it can is cut (the store's clock was
    /// set back), and a run that nobody may take over and whose lease is over is lost. The policy
    /// is the one stored in the run, not the caller's.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        let open: Vec<Run> = self.unfinished().into_iter().cloned().collect();
        for mut run in open {
            let latest = now.saturating_add(run.lease_ms);
            if run.lease_until > latest && !mends::is_out(Mend::F19) {
                run.lease_until = latest;
                self.put(run.clone());
            }
            if run.is_lost(now) {
                run.status = Some(Status::Lost);
                run.ended_at = Some(run.lease_until);
                self.put(run);
            }
        }
    }

    pub(super) fn claim(&mut self, claim: &RunClaim) -> Answer {
        self.settle();
        self.remember_history_limits(&claim.input);
        let key = RunKey::scheduled(claim.input.slot);
        let mut outcome = match self.run(key).cloned() {
            Some(run) => self.claim_recorded(run, claim),
            None => self.claim_unrecorded(claim),
        };
        outcome.now_ms = Some(self.now);
        outcome.next_ms = self.next_ms(Some(key));
        Answer::Outcome(outcome)
    }

    fn claim_recorded(&mut self, mut run: Run, claim: &RunClaim) -> ClaimOutcome {
        // 1. It has ended (a claim without a lease counts as ended: nobody may start it again).
        if !run.is_unfinished() {
            return ClaimOutcome::of(OutcomeKind::Done);
        }
        let now = self.now;
        let lease_ms = lease_of(&claim.input);
        // 2. It is the caller's own. A released lease is spent: ask with a new token.
        if run.token == claim.input.token {
            if run.released && !mends::is_out(Mend::F08) {
                return running(&run, now);
            }
            if !mends::is_out(Mend::F01) {
                renew(&mut run, now, lease_ms);
            }
            run.released = false;
            let outcome = won(&run);
            self.put(run);
            return outcome;
        }
        // 3. Somebody holds it.
        if run.is_alive(now) {
            return running(&run, now);
        }
        // 4. Take it over. (One that nobody may take over has been settled as lost.)
        self.take_over(run, claim, lease_ms)
    }

    fn take_over(&mut self, mut run: Run, claim: &RunClaim, lease_ms: i64) -> ClaimOutcome {
        let lease_ms = if mends::is_out(Mend::T01) { run.lease_ms } else { lease_ms };
        run.crashes += i64::from(!run.released);
        run.attempt += 1;
        run.fence = self.next_fence();
        run.token.clone_from(&claim.input.token);
        run.by.clone_from(&claim.input.instance_id);
        run.at = self.now;
        run.released = false;
        run.lease_until = self.now.saturating_add(lease_ms);
        run.lease_ms = lease_ms;
        let outcome = won(&run);
        self.put(run);
        outcome
    }

    fn claim_unrecorded(&mut self, claim: &RunClaim) -> ClaimOutcome {
        let input = &claim.input;
        let (slot, now) = (input.slot, self.now);
        // 5. Its record may have been trimmed.
        if slot <= self.header.floor {
            return ClaimOutcome::of(OutcomeKind::Late);
        }
        // 6. A backup takes over, it never starts.
        if claim.kind == ClaimKind::Backup {
            return ClaimOutcome::of(OutcomeKind::None);
        }
        // 7. Before this definition existed nothing was missed.
        if claim.kind == ClaimKind::CatchUp && slot < self.header.since {
            return ClaimOutcome::of(OutcomeKind::None);
        }
        // 8. Too late, by the store's clock alone.
        if claim.kind == ClaimKind::Slot && claim.not_after_ms.is_some_and(|last| now > last) {
            return ClaimOutcome::of(OutcomeKind::Late);
        }
        // 8a. Paused: what has begun goes on, nothing begins.
        if self.header.paused.is_some() {
            return ClaimOutcome::of(OutcomeKind::Paused);
        }
        // 9. The caller's clock runs ahead.
        if slot > now.saturating_add(input.max_early_ms.unwrap_or(i64::MAX)) {
            return ClaimOutcome::of(OutcomeKind::Early);
        }
        // 10. Another run is in the way. A slot is not judged before its time.
        if input.overlap == Some(Overlap::Skip)
            && let Some(outcome) = self.in_the_way()
        {
            if slot > now {
                return ClaimOutcome::of(OutcomeKind::Early);
            }
            if claim.kind == ClaimKind::Slot {
                self.put(skipped(input, now));
            }
            return outcome;
        }
        // 11. Start it.
        let run = without_lease(input, false, slot, now);
        let fence = self.next_fence();
        let run = first_grant(run, lease_of(input), fence, claim.max_takeovers, now);
        let outcome = won(&run);
        self.put(run);
        outcome
    }

    /// The oldest unfinished run of the job, as an `overlap` answer. The slot asked for has no
    /// record here, so every unfinished run is another one.
    pub(super) fn in_the_way(&self) -> Option<ClaimOutcome> {
        let run = self.unfinished().into_iter().next()?;
        let mut outcome = ClaimOutcome::of(OutcomeKind::Overlap);
        outcome.slot = Some(run.slot);
        outcome.manual = Some(run.manual);
        outcome.by = Some(run.by.clone());
        outcome.left_ms = Some(run.left_ms(self.now));
        Some(outcome)
    }

    /// What is left of the earliest lease of the job's unfinished runs other than the one asked
    /// about.
    pub(super) fn next_ms(&self, about: Option<RunKey>) -> Option<i64> {
        if mends::is_out(Mend::G03) {
            return None;
        }
        let others = self.unfinished().into_iter().filter(|run| Some(run.key()) != about);
        others.map(|run| run.left_ms(self.now)).min()
    }

    pub(super) fn next_fence(&mut self) -> i64 {
        self.header.fence += 1;
        self.header.fence
    }

    /// A claim on a job that was never registered still says how much history to keep.
    pub(super) fn remember_history_limits(&mut self, input: &ClaimInput) {
        if self.header.since == 0 {
            self.header.history_size = input.history_size;
            self.header.history_ttl_ms = input.history_ttl_ms;
        }
    }

    pub(super) fn claim_only(&mut self, input: &ClaimInput) -> Answer {
        self.remember_history_limits(input);
        if let Some(run) = self.run(RunKey::scheduled(input.slot)) {
            return Answer::Bool(run.token == input.token);
        }
        let early = input.slot > self.now.saturating_add(input.max_early_ms.unwrap_or(i64::MAX));
        if input.slot <= self.header.floor || early {
            return Answer::Bool(false);
        }
        self.put(without_lease(input, false, input.slot, self.now));
        Answer::Bool(true)
    }
}
