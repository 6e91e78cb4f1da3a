//! The names of keys and channels.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a job's name keeps as it is; everything else is written as `%XX`, so that two names never
/// share a key and no name ends the hash tag.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// What a job has, in the order of KEYS in every script.
const PARTS: [&str; 5] = ["job", "records", "order", "bodies", "missed"];

/// The keys of a job. They share one hash tag, so that a cluster keeps them on one node.
pub(super) fn of_job(prefix: &str, namespace: &str, job: &str) -> [String; PARTS.len()] {
    let job = utf8_percent_encode(job, ENCODED);
    let tagged = format!("{prefix}:{{{namespace}:{job}}}:");
    PARTS.map(|part| format!("{tagged}{part}"))
}

/// The key that says in which form the data under the prefix is written.
pub(super) fn of_schema(prefix: &str) -> String {
    format!("{prefix}:schema")
}

/// The channel on which the ends of runs are told. Channels know no database numbers.
pub(super) fn of_wakes(prefix: &str, namespace: &str, db: i64) -> String {
    format!("{prefix}:{namespace}:wake:{db}")
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
