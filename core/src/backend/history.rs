//! From what is stored to what `history()` shows.

use std::collections::BTreeMap;

use crate::backend::contract::{ClaimRecord, RunRecord, StoredResult};
use crate::lease::model::{Run, RunKey, Status};

/// The record of a run as a lease store keeps it, at the store's time `now` (ms).
pub fn stored_record(job: &str, run: &Run, result: Option<&StoredResult>, now: i64) -> RunRecord {
    let claimed = RunRecord {
        job: job.to_owned(),
        slot: run.slot,
        manual: run.manual,
        by: run.by.clone(),
        at: run.at,
        status: run.shown_status(now),
        attempt: (run.attempt > 0).then_some(run.attempt),
        fence: (run.fence > 0).then_some(run.fence),
        started_at: None,
        ended_at: run.shown_ended_at(now),
        duration_ms: None,
        error: None,
        output: None,
        output_truncated: None,
        abandoned: None,
    };
    // A body that was stored by a holder before this one says nothing about the run as it stands.
    match result.filter(|_| run.status.is_some()) {
        Some(result) => RunRecord { status: claimed.status, ..with_result(claimed, result) },
        None => claimed,
    }
}

fn with_result(claimed: RunRecord, result: &StoredResult) -> RunRecord {
    RunRecord {
        status: result.status,
        attempt: claimed.attempt.or(result.attempt),
        started_at: Some(result.started_at),
        ended_at: claimed.ended_at.or(Some(result.ended_at)),
        duration_ms: Some((result.ended_at - result.started_at).max(0)),
        error: result.error.clone(),
        output: result.output.clone(),
        output_truncated: result.output_truncated,
        abandoned: result.abandoned,
        ..claimed
    }
}

/// Merges claims and results into records, newest slot first, at most `limit`.
///
/// There is one record per run; a manual and a scheduled run of the same slot are two. A claim
/// without a result is `unfinished`; a result without a claim is shown as well.
pub fn build_history(
    job: &str,
    claims: &[ClaimRecord],
    results: &[StoredResult],
    limit: usize,
) -> Vec<RunRecord> {
    let mut records: BTreeMap<RunKey, RunRecord> = BTreeMap::new();
    for claim in claims {
        let key = RunKey { slot: claim.slot, manual: claim.manual };
        records.insert(key, bare_record(job, key, &claim.by, claim.at));
    }
    for result in results {
        let key = RunKey { slot: result.slot, manual: result.manual };
        let claimed = records
            .remove(&key)
            .unwrap_or_else(|| bare_record(job, key, &result.by, result.started_at));
        // A run that was taken over has several results: the last one stands.
        let fresh = RunRecord { ended_at: None, attempt: None, ..claimed };
        records.insert(key, with_result(fresh, result));
    }
    records.into_values().rev().take(limit).collect()
}

fn bare_record(job: &str, key: RunKey, by: &str, at: i64) -> RunRecord {
    RunRecord {
        job: job.to_owned(),
        slot: key.slot,
        manual: key.manual,
        by: by.to_owned(),
        at,
        status: Status::Unfinished,
        attempt: None,
        fence: None,
        started_at: None,
        ended_at: None,
        duration_ms: None,
        error: None,
        output: None,
        output_truncated: None,
        abandoned: None,
    }
}
