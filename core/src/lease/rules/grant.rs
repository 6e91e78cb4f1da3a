//! The forms that a run takes when it is granted, and how a grant is answered.

use crate::backend::contract::{ClaimInput, ClaimOutcome, OutcomeKind, StoredResult};
use crate::lease::model::{Run, RunKey, Status};

/// The length of a lease where a caller names none (ms).
pub const DEFAULT_LEASE_MS: i64 = 30_000;

/// The length of the lease that is asked for (ms): at least 1, for 0 would be no lease.
pub(super) fn lease_of(input: &ClaimInput) -> i64 {
    input.lease_ms.unwrap_or(DEFAULT_LEASE_MS).max(1)
}

pub(super) fn won(run: &Run) -> ClaimOutcome {
    let mut outcome = ClaimOutcome::of(OutcomeKind::Won);
    outcome.attempt = Some(run.attempt);
    outcome.fence = Some(run.fence);
    outcome.max_takeovers = Some(run.max_takeovers);
    outcome
}

pub(super) fn running(run: &Run, now: i64) -> ClaimOutcome {
    let mut outcome = ClaimOutcome::of(OutcomeKind::Running);
    outcome.by = Some(run.by.clone());
    outcome.left_ms = Some(run.left_ms(now));
    outcome.attempt = Some(run.attempt);
    outcome
}

/// The caller's own lease asked for once more: moved forward, never back.
pub(super) fn renew(run: &mut Run, now: i64, lease_ms: i64) {
    run.lease_until = run.lease_until.max(now.saturating_add(lease_ms));
    run.lease_ms = lease_ms;
}

/// A run that begins under a lease. `run` says whose it is, as [`without_lease`] makes it.
pub(super) fn first_grant(
    run: Run,
    lease_ms: i64,
    fence: i64,
    max_takeovers: i64,
    now: i64,
) -> Run {
    Run { fence, lease_until: now.saturating_add(lease_ms), lease_ms, max_takeovers, ..run }
}

pub(super) fn without_lease(input: &ClaimInput, manual: bool, slot: i64, now: i64) -> Run {
    Run {
        token: input.token.clone(),
        by: input.instance_id.clone(),
        at: now,
        attempt: 1,
        ..Run::blank(RunKey { slot, manual })
    }
}

pub(super) fn skipped(input: &ClaimInput, now: i64) -> Run {
    let mut run = without_lease(input, false, input.slot, now);
    run.attempt = 0;
    run.status = Some(Status::Skipped);
    run.ended_at = Some(now);
    run
}

/// A result whose claim is not here (it was made on another store, or has been trimmed).
pub(super) fn from_result(result: &StoredResult) -> Run {
    Run {
        by: result.by.clone(),
        at: result.started_at,
        attempt: result.attempt.unwrap_or(1),
        ..Run::blank(RunKey { slot: result.slot, manual: result.manual })
    }
}
