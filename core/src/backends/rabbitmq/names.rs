//! The names of queues: for people, and never the same for two things.

use sha2::{Digest, Sha256};

/// What a name is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The scheduled run of a slot.
    Claim(i64),
    /// A manual run of a slot.
    Manual(i64),
    /// The records of a job.
    Records,
}

/// Where the queues of a job are.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) prefix: &'a str,
    pub(super) namespace: &'a str,
    pub(super) job: &'a str,
}

impl Place<'_> {
    /// The name of a queue: `prefix.namespace.claim.job.slot.hash`, at most 254 bytes. What people
    /// read of the job is shortened; the hash, of all of it, tells the names apart.
    pub(super) fn queue(self, about: About) -> String {
        let Place { prefix, namespace, job } = self;
        let (kind, slot) = match about {
            About::Claim(slot) => ("claim", Some(slot)),
            About::Manual(slot) => ("manual", Some(slot)),
            About::Records => ("records", None),
        };
        let when = slot.map(|slot| format!("{slot}.")).unwrap_or_default();
        let plain: String = job.chars().take(READABLE).map(readable).collect();
        // A length before each part, so that no two lists of parts are one text.
        let slot = slot.map(|slot| slot.to_string()).unwrap_or_default();
        let parts = [namespace, kind, job, &slot].map(|part| format!("{}:{part}", part.len()));
        let hash = Sha256::digest(parts.concat());
        let hash = hash.iter().take(16).fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
        format!("{prefix}.{namespace}.{kind}.{plain}.{when}{hash:032x}")
    }
}

/// The queue whose presence says that there is a store, and of which version.
pub(super) fn of_schema(prefix: &str) -> String {
    format!("{prefix}.schema")
}

/// A queue that is used once, to see whether the server does what claims need.
pub(super) fn of_probe(prefix: &str, token: &str) -> String {
    format!("{prefix}.probe.{token}")
}

/// How many characters of a job's name are shown.
const READABLE: usize = 60;

fn readable(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || "_-".contains(letter) { letter } else { '_' }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
