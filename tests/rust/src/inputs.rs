//! Claims, results and limits as most tests want them.

use anarchon::backend::contract::{
    ClaimInput, ClaimKind, JobLimits, Overlap, RunClaim, StoredResult,
};
use anarchon::lease::model::Status;

/// A claim of `host-<token>` without anything special.
pub fn input(job: &str, slot: i64, token: &str) -> ClaimInput {
    ClaimInput {
        job: job.to_owned(),
        slot,
        token: token.to_owned(),
        instance_id: format!("host-{token}"),
        history_size: 100,
        history_ttl_ms: None,
        lease_ms: Some(30_000),
        overlap: Some(Overlap::Allow),
        force: None,
        max_early_ms: None,
        asked_at: None,
    }
}

/// The same with a lease of 30 s.
pub fn claim(job: &str, slot: i64, token: &str) -> RunClaim {
    RunClaim {
        input: input(job, slot, token),
        kind: ClaimKind::Slot,
        max_takeovers: 2,
        not_after_ms: None,
    }
}

/// The result of a scheduled run of `host-<token>` that succeeded; its output is `[<slot>]`.
pub fn result(slot: i64, token: &str) -> StoredResult {
    StoredResult {
        slot,
        manual: false,
        by: format!("host-{token}"),
        status: Status::Succeeded,
        started_at: 1,
        ended_at: 2,
        attempt: Some(1),
        error: None,
        output: Some(format!("[{slot}]")),
        output_truncated: None,
        abandoned: None,
    }
}

/// A job of every minute that keeps 100 records.
pub fn limits(job: &str) -> JobLimits {
    JobLimits {
        name: job.to_owned(),
        history_size: 100,
        schedule: Some("every:60000".to_owned()),
        ..JobLimits::default()
    }
}
