//! Races about leases: what must be one step of the store, tried by several clients at once.

use futures_util::future::{join, join_all};

use crate::backend::contract::{ClaimKind, ClaimOutcome, OutcomeKind, Overlap, RunClaim};
use crate::error::Result;
use crate::lease::model::Status;
use crate::testing::conformance::bed::{Bed, LONG, SHORT, instance};
use crate::testing::conformance::{Case, CaseEnd, Halt, case, demand};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(true, "leases, the race: exactly one wins, the others hear who runs", race),
        case!(
            true,
            "leases, the race: a lease that is over is taken over by exactly one",
            take_over
        ),
        case!(true, "leases, the race: a heartbeat and a takeover are never both granted", beat),
        case!(true, "leases, the race: a finish and a takeover are never both granted", finish),
        case!(true, "leases, the race: of two slots that skip each other one starts", overlap),
        case!(true, "leases, the race: every grant has a fence of its own", fences),
        case!(
            true,
            "leases: one given back is taken over at once, and no crash is counted",
            released
        ),
        case!(true, "leases: what is left of a lease is never more than was asked for", left),
        case!(true, "leases: the store's clock does not run back", clock),
    ]
}

async fn claim_at_once(
    bed: &Bed,
    claims: &[RunClaim],
) -> std::result::Result<Vec<ClaimOutcome>, Halt> {
    let calls = claims.iter().enumerate().map(|(number, claim)| bed.runs_of(number).claim(claim));
    Ok(join_all(calls).await.into_iter().collect::<Result<Vec<ClaimOutcome>>>()?)
}

fn kinds(outcomes: &[ClaimOutcome]) -> Vec<&str> {
    outcomes.iter().map(|outcome| outcome.kind.as_str()).collect()
}

fn winner(outcomes: &[ClaimOutcome]) -> Option<usize> {
    outcomes.iter().position(|outcome| outcome.kind == OutcomeKind::Won)
}

fn winners(outcomes: &[ClaimOutcome]) -> usize {
    outcomes.iter().filter(|outcome| outcome.kind == OutcomeKind::Won).count()
}

fn slot_of(base: i64, round: usize) -> i64 {
    base + 1_000 * i64::try_from(round).unwrap_or(0)
}

async fn race(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let slot = slot_of(base, round);
        let claims: Vec<RunClaim> =
            (0..bed.clients.len()).map(|number| bed.run_claim(&job, slot, number, LONG)).collect();
        let outcomes = claim_at_once(&bed, &claims).await?;
        let seen = kinds(&outcomes);
        demand(winners(&outcomes) == 1, || {
            format!(
                "several clients claimed a slot at once and were answered {seen:?}; one must win"
            )
        })?;
        let holder = instance(winner(&outcomes).unwrap_or_default());
        for outcome in outcomes.iter().filter(|outcome| outcome.kind != OutcomeKind::Won) {
            let named = outcome.by.as_ref().is_none_or(|by| *by == holder);
            demand(outcome.kind == OutcomeKind::Running && named, || {
                format!(
                    "{holder} won; a loser was answered `{}` by {:?} instead of `running` by the \
                     holder",
                    outcome.kind.as_str(),
                    outcome.by
                )
            })?;
        }
    }
    Ok(())
}

/// A run whose lease is over, and the token that held it.
async fn stalled(bed: &Bed, job: &str, slot: i64) -> std::result::Result<String, Halt> {
    let claim = bed.run_claim(job, slot, 9, SHORT);
    let outcome = bed.runs().claim(&claim).await?;
    demand(outcome.kind == OutcomeKind::Won, || {
        format!("the first claim of a slot was answered `{}`", outcome.kind.as_str())
    })?;
    bed.outlast_short_leases().await?;
    Ok(claim.input.token)
}

fn backup(bed: &Bed, job: &str, slot: i64, number: usize) -> RunClaim {
    RunClaim { kind: ClaimKind::Backup, ..bed.run_claim(job, slot, number, LONG) }
}

async fn take_over(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let slot = slot_of(base, round);
        stalled(&bed, &job, slot).await?;
        let claims: Vec<RunClaim> =
            (0..bed.clients.len()).map(|number| backup(&bed, &job, slot, number)).collect();
        let outcomes = claim_at_once(&bed, &claims).await?;
        let seen = kinds(&outcomes);
        demand(winners(&outcomes) == 1, || {
            format!(
                "a lease was over and several backups claimed the run at once; they were answered \
                 {seen:?}, exactly one must win"
            )
        })?;
        let attempt = winner(&outcomes).and_then(|number| outcomes[number].attempt);
        demand(attempt.is_none_or(|attempt| attempt == 2), || {
            format!("the first takeover of a run was answered as attempt {attempt:?}, 2 is right")
        })?;
    }
    Ok(())
}

async fn beat(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let slot = slot_of(base, round);
        let token = stalled(&bed, &job, slot).await?;
        let claim = backup(&bed, &job, slot, 1);
        let heartbeat = bed.runs_of(0).heartbeat(&job, slot, &token, LONG);
        // Whoever is first differs from round to round.
        let (renewed, outcome) = if round % 2 == 0 {
            join(heartbeat, bed.runs_of(1).claim(&claim)).await
        } else {
            let (outcome, renewed) = join(bed.runs_of(1).claim(&claim), heartbeat).await;
            (renewed, outcome)
        };
        let (renewed, outcome) = (renewed?, outcome?);
        demand(renewed != (outcome.kind == OutcomeKind::Won), || {
            format!(
                "a lease was over; its holder's heartbeat was answered {renewed} and a backup's \
                 claim at the same time `{}`: one of the two must be granted, and never both",
                outcome.kind.as_str()
            )
        })?;
    }
    Ok(())
}

async fn finish(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let slot = slot_of(base, round);
        let token = stalled(&bed, &job, slot).await?;
        let claim = backup(&bed, &job, slot, 1);
        let finish = bed.runs_of(0).finish(&job, slot, &token, Status::Succeeded, None);
        let (ended, outcome) = join(finish, bed.runs_of(1).claim(&claim)).await;
        let (ended, outcome) = (ended?, outcome?);
        demand(ended != (outcome.kind == OutcomeKind::Won), || {
            format!(
                "a lease was over; its holder's finish was answered {ended} and a backup's claim at \
                 the same time `{}`: one of the two must be granted, and never both",
                outcome.kind.as_str()
            )
        })?;
    }
    Ok(())
}

async fn overlap(bed: Bed) -> CaseEnd {
    let base = bed.now().await? - 1_000_000;
    for round in 0..bed.options.rounds {
        let job = bed.job().await?;
        let claims: Vec<RunClaim> = (0..bed.clients.len())
            .map(|number| {
                let slot = slot_of(base, round) + i64::try_from(number).unwrap_or(0);
                let mut claim = bed.run_claim(&job, slot, number, LONG);
                claim.input.overlap = Some(Overlap::Skip);
                claim
            })
            .collect();
        let outcomes = claim_at_once(&bed, &claims).await?;
        let seen = kinds(&outcomes);
        demand(winners(&outcomes) == 1, || {
            format!(
                "different slots of a job with overlap `skip` were claimed at once and answered \
                 {seen:?}: only one run of the job may be unfinished"
            )
        })?;
    }
    Ok(())
}

async fn fences(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let base = bed.now().await? - 1_000_000;
    let mut greatest = 0;
    for round in 0..bed.options.rounds {
        let claims: Vec<RunClaim> = (0..bed.clients.len())
            .map(|number| {
                let slot = slot_of(base, round) + i64::try_from(number).unwrap_or(0);
                bed.run_claim(&job, slot, number, LONG)
            })
            .collect();
        let outcomes = claim_at_once(&bed, &claims).await?;
        let mut fences: Vec<i64> = outcomes.iter().filter_map(|outcome| outcome.fence).collect();
        if fences.is_empty() && !bed.options.complete {
            return Err(Halt::Skipped("the answers carry no `fence`".to_owned()));
        }
        fences.sort_unstable();
        let grown = fences.iter().all(|fence| *fence > greatest);
        let mut distinct = fences.clone();
        distinct.dedup();
        demand(grown && distinct.len() == claims.len(), || {
            format!(
                "{} slots were granted at once with the fences {fences:?}, after {greatest}: each \
                 grant of a job must have a greater one than all before",
                claims.len()
            )
        })?;
        greatest = fences.last().copied().unwrap_or(greatest);
    }
    Ok(())
}

async fn released(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    let claim = RunClaim { max_takeovers: 0, ..bed.run_claim(&job, slot, 0, LONG) };
    let outcome = bed.runs().claim(&claim).await?;
    demand(outcome.kind == OutcomeKind::Won, || {
        format!("the first claim of a slot was answered `{}`", outcome.kind.as_str())
    })?;
    let released = bed.runs().release(&job, slot, &claim.input.token).await?;
    demand(released, || "the holder's release was answered false".to_owned())?;
    let outcome = bed.runs_of(1).claim(&backup(&bed, &job, slot, 1)).await?;
    demand(outcome.kind == OutcomeKind::Won, || {
        format!(
            "a lease of an hour was given back, and a backup that asked then was answered `{}`: \
             release must end the lease now, without counting a crash",
            outcome.kind.as_str()
        )
    })
}

async fn left(bed: Bed) -> CaseEnd {
    let job = bed.job().await?;
    let slot = bed.now().await? - 5_000;
    bed.runs().claim(&bed.run_claim(&job, slot, 0, 60_000)).await?;
    let other = bed.runs_of(1).claim(&bed.run_claim(&job, slot, 1, LONG)).await?;
    let heard = [other.left_ms, bed.runs().active(&job).await?.first().map(|run| run.left_ms)];
    for left in heard.into_iter().flatten() {
        demand(left > 0 && left <= 60_000, || {
            format!("a lease of 60000 ms was granted, and {left} ms are said to be left of it")
        })?;
    }
    Ok(())
}

async fn clock(bed: Bed) -> CaseEnd {
    let mut before = bed.now().await?;
    for _ in 0..bed.options.rounds {
        let now = bed.now().await?;
        demand(now >= before, || format!("`nowMs` was {before} and then {now}"))?;
        before = now;
    }
    Ok(())
}
