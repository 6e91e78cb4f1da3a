//! The names of the stream and of subjects.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::lease::model::RunKey;

/// What a name keeps as it is; everything else is written as `%XX`, so that two names never share a
/// subject and none of them has a dot, a wildcard or a space in it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// All subjects that the stream of a prefix keeps.
pub(super) fn of_stream(prefix: &str) -> Vec<String> {
    vec![
        format!("{prefix}.*.job.*"),
        format!("{prefix}.*.body.*.*.*"),
        of_clock(prefix),
        of_schema(prefix),
    ]
}

/// The subject that says in which form the data under the prefix is written.
pub(super) fn of_schema(prefix: &str) -> String {
    format!("{prefix}.schema")
}

/// The subject whose only use is the time at which its last message was stored.
pub(super) fn of_clock(prefix: &str) -> String {
    format!("{prefix}.clock")
}

/// The subject of no stream on which the ends of runs are told.
pub(super) fn of_wakes(prefix: &str, namespace: &str) -> String {
    format!("{prefix}.{}.wake", encoded(namespace))
}

/// Where answers go that nobody waits for.
pub(super) fn of_nobody(prefix: &str) -> String {
    format!("{prefix}.nobody")
}

/// The subject of a job's state.
pub(super) fn of_job(prefix: &str, namespace: &str, job: &str) -> String {
    format!("{prefix}.{}.job.{}", encoded(namespace), encoded(job))
}

/// A subject of its own for one body of a run: who writes it in vain replaces nothing.
pub(super) fn of_body(prefix: &str, namespace: &str, job: &str, key: RunKey, once: &str) -> String {
    let manual = if key.manual { "m" } else { "" };
    let (namespace, job) = (encoded(namespace), encoded(job));
    format!("{prefix}.{namespace}.body.{job}.{}{manual}.{once}", key.slot)
}

/// A subject of its own for one archive of a job, among its bodies.
pub(super) fn of_archive(prefix: &str, namespace: &str, job: &str, once: &str) -> String {
    format!("{prefix}.{}.body.{}.archive.{once}", encoded(namespace), encoded(job))
}

/// All bodies and archives of a job.
pub(super) fn of_bodies(prefix: &str, namespace: &str, job: &str) -> String {
    format!("{prefix}.{}.body.{}.>", encoded(namespace), encoded(job))
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ENCODED).to_string()
}

#[cfg(test)]
#[path = "subjects_tests.rs"]
mod tests;
