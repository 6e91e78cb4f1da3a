//! What is written into the stream of a job, and how records are made of it.

use serde::{Deserialize, Serialize};

use crate::backend::contract::{ClaimInput, ClaimRecord, JobLimits, RunRecord, StoredResult};
use crate::backend::history::build_history;
use crate::lease::model::Status;

/// One message of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    /// What it tells.
    #[serde(flatten)]
    pub(super) told: Told,
    /// How many ended records are to be kept, as whoever wrote last sees it.
    pub(super) history_size: i64,
    /// How long they are to be kept (ms).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) history_ttl_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Told {
    /// A job was registered. A stream begins with it, and so is never empty.
    Job(String),
    /// A run was claimed.
    Claim(ClaimRecord),
    /// A run has ended.
    Result(StoredResult),
}

impl Message {
    pub(super) fn job(limits: &JobLimits) -> Message {
        Message {
            told: Told::Job(limits.name.clone()),
            history_size: limits.history_size,
            history_ttl_ms: limits.history_ttl_ms,
        }
    }

    pub(super) fn claim(input: &ClaimInput, slot: i64, manual: bool, at: i64) -> Message {
        let by = input.instance_id.clone();
        Message {
            told: Told::Claim(ClaimRecord { slot, by, at, manual }),
            history_size: input.history_size,
            history_ttl_ms: input.history_ttl_ms,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }
}

/// The records of a job, newest first, from the newest of its messages in the order in which they
/// were written.
pub(super) fn records(job: &str, messages: &[Vec<u8>], limit: usize, now: i64) -> Vec<RunRecord> {
    let (mut claims, mut results) = (Vec::new(), Vec::new());
    let (mut size, mut ttl_ms) = (i64::MAX, None);
    // What a later version writes, and this one does not know, is none of its business.
    let known = messages.iter().filter_map(|bytes| serde_json::from_slice::<Message>(bytes).ok());
    for message in known {
        (size, ttl_ms) = (message.history_size, message.history_ttl_ms);
        match message.told {
            Told::Job(_) => {}
            Told::Claim(claim) => claims.push(claim),
            Told::Result(result) => results.push(result),
        }
    }
    let mut left = size.max(0);
    let records = build_history(job, &claims, &results, usize::MAX).into_iter();
    let kept = records.filter(|record| {
        if record.status == Status::Unfinished {
            return left > 0;
        }
        let ended_at = record.ended_at.unwrap_or(record.at);
        let is_young = ttl_ms.is_none_or(|ttl_ms: i64| ended_at.saturating_add(ttl_ms) > now);
        left -= 1;
        left >= 0 && is_young
    });
    kept.take(limit).collect()
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
