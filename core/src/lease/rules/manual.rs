//! Runs that a person asks for.

use crate::backend::contract::{ClaimInput, ClaimOutcome, OutcomeKind, Overlap};
use crate::lease::model::{Run, RunKey};
use crate::lease::rules::Answer;
use crate::lease::rules::draft::Draft;
use crate::lease::rules::grant::{first_grant, lease_of, renew, running, without_lease, won};

impl Draft<'_> {
    pub(super) fn claim_manual(&mut self, input: &ClaimInput) -> Answer {
        self.settle();
        self.remember_history_limits(input);
        let known = self.all().into_iter().find(|run| run.manual && run.token == input.token);
        let (mut outcome, about) = match known.cloned() {
            Some(run) => (self.repeat_manual(&run, input), Some(run.slot)),
            None => self.start_manual(input),
        };
        outcome.now_ms = Some(self.now);
        outcome.next_ms = self.next_ms(about.map(RunKey::manual));
        Answer::Outcome(outcome)
    }

    /// The same request again: the same slot, and the lease is renewed. If that run has ended or
    /// was given back, the answer says so and the caller starts nothing.
    fn repeat_manual(&mut self, run: &Run, input: &ClaimInput) -> ClaimOutcome {
        let without_lease = run.lease_ms == 0 && run.status.is_none();
        let mut outcome = if without_lease {
            won(run)
        } else if !run.is_unfinished() {
            ClaimOutcome::of(OutcomeKind::Done)
        } else if run.released {
            running(run, self.now)
        } else {
            let mut run = run.clone();
            renew(&mut run, self.now, lease_of(input));
            let outcome = won(&run);
            self.put(run);
            outcome
        };
        outcome.slot = Some(run.slot);
        outcome
    }

    /// The answer, and the slot of the run that it is about if one was started.
    fn start_manual(&mut self, input: &ClaimInput) -> (ClaimOutcome, Option<i64>) {
        // A duplicate that arrives after its record was trimmed must not become a ghost.
        let asked_at = input.asked_at.unwrap_or(input.slot);
        let keep_ms = self.header.keep_ms;
        if keep_ms > 0 && asked_at.saturating_add(keep_ms) <= self.now {
            return (ClaimOutcome::of(OutcomeKind::Late), None);
        }
        if input.overlap == Some(Overlap::Skip)
            && input.force != Some(true)
            && let Some(outcome) = self.in_the_way()
        {
            return (outcome, None);
        }
        let mut slot = input.slot;
        while self.run(RunKey::manual(slot)).is_some() {
            slot += 1;
        }
        let mut run = without_lease(input, true, slot, self.now);
        if input.lease_ms.is_some_and(|lease_ms| lease_ms > 0) {
            let fence = self.next_fence();
            run = first_grant(run, lease_of(input), fence, 0, self.now);
        }
        let mut outcome = won(&run);
        outcome.slot = Some(slot);
        self.put(run);
        (outcome, Some(slot))
    }
}
