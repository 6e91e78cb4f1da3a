//! Which failures of a call are worth another try.
//!
//! Drivers of users do not tell in one way what is for now and what is for good, and the engine
//! knows none of them. So it goes by two signs. What says of itself that it is for now (a lock, a
//! conflict, a connection) is tried until the call's deadline. What says the same thing a few times
//! in a row, and nothing of that kind, would say it until the deadline: it is told at once. Either
//! way it stays unknown what became of the call, and whoever made it may make it again.

use crate::error::{Code, Error, HostError};

/// So often in a row the same words are believed.
const BELIEVED: u32 = 3;

/// What the words of a failure have in common that another try can mend: locks, conflicts of
/// transactions and of those who create or insert the same, connections, servers that come or go.
const FOR_NOW: [&str; 25] = [
    "lock",
    "busy",
    "conflict",
    "concurren",
    "serializ",
    "duplicate",
    "unique",
    "retry",
    "again",
    "timeout",
    "timed out",
    "connect",
    "econn",
    "ehost",
    "epipe",
    "broken pipe",
    "reset by peer",
    "socket",
    "network",
    "too many",
    "unavailable",
    "starting up",
    "shut",
    "terminat",
    "in progress",
];

/// The failures of one call so far.
#[derive(Debug, Default)]
pub(super) struct Failures {
    said: Option<(String, String)>,
    times: u32,
}

impl Failures {
    /// Takes note of the next failure; whether it is the last one, for no other try can help.
    pub(super) fn end_with(&mut self, error: &Error) -> bool {
        match error {
            _ if is_for_now(error) => {
                *self = Failures::default();
                false
            }
            Error::Coded { .. } => true,
            Error::Host(thrown) => {
                let says = Some((thrown.name.clone(), thrown.message.clone()));
                self.times = if self.said == says { self.times + 1 } else { 1 };
                self.said = says;
                self.times >= BELIEVED
            }
        }
    }
}

/// Whether a failure says of itself that another try may mend it.
pub(super) fn is_for_now(error: &Error) -> bool {
    match error {
        Error::Coded { code, .. } => *code == Code::BackendUnavailable,
        Error::Host(thrown) => says_so(thrown),
    }
}

fn says_so(thrown: &HostError) -> bool {
    // Node's error of a connection that was refused on every address of a host has no words.
    if thrown.message.is_empty() {
        return true;
    }
    // Further lines show the statement, some drivers show it in the first; ours read the clock.
    let first = thrown.message.lines().next().unwrap_or_default();
    let said = format!("{}: {first}", thrown.name).to_ascii_lowercase().replace("clock", "");
    FOR_NOW.iter().any(|word| said.contains(word))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Failures;
    use crate::error::{Code, Error, HostError};

    fn thrown(name: &str, message: &str) -> Error {
        let (name, message) = (name.to_owned(), message.to_owned());
        Error::Host(HostError { object: Arc::new(()), name, message, stack: None })
    }

    /// How many times a call that always fails so is tried, up to a hundred.
    fn tries(error: &Error) -> usize {
        let mut failures = Failures::default();
        (1..100).find(|_| failures.end_with(error)).unwrap_or(100)
    }

    #[test]
    fn what_is_for_good_is_told_after_it_has_been_said_three_times() {
        for (name, message) in [
            ("OperationalError", "no such table: anarchon_runs"),
            ("UndefinedTableError", "relation \"anarchon_runs\" does not exist"),
            ("InsufficientPrivilege", "permission denied for table anarchon_jobs"),
            ("SyntaxError", "syntax error at or near \"FORM\""),
            ("ProgrammingError", "Cannot operate on a closed database."),
            ("TypeError", "tx.query is not a function"),
            ("Down", "the disk is on fire"),
            (
                "SyntaxError",
                "syntax error at or near \"SELEKT\"\nLINE 1: SELEKT \"lock\" FROM jobs",
            ),
            ("ProgrammingError", "error in your SQL syntax near 'SELEKT clock_timestamp()'"),
        ] {
            assert_eq!(tries(&thrown(name, message)), 3, "{name}: {message}");
        }
    }

    #[test]
    fn what_is_for_now_is_tried_until_the_deadline() {
        for (name, message) in [
            ("OperationalError", "database is locked"),
            ("SqliteError", "SQLITE_BUSY: somebody writes"),
            ("DeadlockDetectedError", "deadlock detected"),
            ("SerializationFailure", "could not serialize access due to concurrent update"),
            ("LockNotAvailable", "canceling statement due to lock timeout"),
            ("TransactionException", "TransactionContext Error: Conflict on update!"),
            ("UniqueViolation", "duplicate key value violates unique constraint \"jobs_pkey\""),
            ("ConnectionRefusedError", "[Errno 111] Connect call failed ('127.0.0.1', 5432)"),
            ("Error", "connect ECONNREFUSED 127.0.0.1:5432"),
            ("error", "terminating connection due to administrator command"),
            ("CannotConnectNowError", "the database system is starting up"),
            ("PoolTimeout", "couldn't get a connection after 30.00 sec"),
            ("AggregateError", ""),
            ("PoolTimeoutError", "no place"),
            ("InterfaceError", "cannot perform operation: another operation is in progress"),
            ("BrokenPipeError", "[Errno 32] Broken pipe"),
        ] {
            assert_eq!(tries(&thrown(name, message)), 100, "{name}: {message}");
        }
    }

    #[test]
    fn what_says_something_else_each_time_is_tried_on() {
        let mut failures = Failures::default();
        for number in 0..100 {
            assert!(!failures.end_with(&thrown("Error", &format!("error number {number}"))));
        }
    }

    #[test]
    fn of_ours_only_no_answer_is_tried_again() {
        assert_eq!(tries(&Error::unavailable("no answer")), 100);
        assert_eq!(tries(&Error::new(Code::BackendRefused, "no rows")), 1);
    }
}
