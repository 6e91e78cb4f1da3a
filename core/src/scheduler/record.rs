//! From a run in our hands to the record that everybody sees.

use crate::backend::contract::{ErrorInfo, RunRecord, StoredResult};
use crate::error::Error;
use crate::lease::model::Status;
use crate::scheduler::run::HeldRun;

/// The longest output and stack that are kept (bytes).
const KEPT_BYTES: usize = 8 * 1024;

pub(super) fn bare_record(run: &HeldRun, instance_id: &str, status: Status) -> RunRecord {
    RunRecord {
        job: run.spec.name.to_string(),
        slot: run.grant.key.slot,
        manual: run.grant.key.manual,
        by: instance_id.to_owned(),
        at: run.grant.at.or(run.started_at).unwrap_or(run.grant.key.slot),
        status,
        attempt: Some(run.grant.attempt),
        fence: (run.grant.fence > 0).then_some(run.grant.fence),
        started_at: run.started_at,
        ended_at: None,
        duration_ms: None,
        error: None,
        output: None,
        output_truncated: None,
        abandoned: None,
    }
}

pub(super) fn ended_record(
    run: &HeldRun,
    instance_id: &str,
    status: Status,
    result: &StoredResult,
) -> RunRecord {
    RunRecord {
        started_at: Some(result.started_at),
        ended_at: Some(result.ended_at),
        duration_ms: Some((result.ended_at - result.started_at).max(0)),
        error: result.error.clone(),
        output: result.output.clone(),
        output_truncated: result.output_truncated,
        abandoned: result.abandoned,
        ..bare_record(run, instance_id, status)
    }
}

pub(super) fn error_info(error: &Error) -> ErrorInfo {
    match error {
        Error::Host(host) => ErrorInfo {
            name: host.name.clone(),
            message: cut(host.message.clone()).0.unwrap_or_default(),
            stack: host.stack.clone().and_then(|stack| cut(stack).0),
        },
        Error::Coded { code, message } => ErrorInfo {
            name: code.as_str().to_owned(),
            message: cut(message.clone()).0.unwrap_or_default(),
            stack: None,
        },
    }
}

/// At most so much of a text as is kept, and whether it was cut.
pub(super) fn cut(mut text: String) -> (Option<String>, bool) {
    if text.len() <= KEPT_BYTES {
        return (Some(text), false);
    }
    let mut end = KEPT_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    (Some(text), true)
}
