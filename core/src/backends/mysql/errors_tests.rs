//! Which numbers are unknown, which are refused, and which cost the connection.

use super::database;
use crate::backends::sql::pool::Fate;
use crate::error::Code;

#[test]
fn deadlocks_and_lock_waits_are_unknown() {
    let deadlock = database(1213, "Deadlock found", "here");
    assert_eq!(deadlock.error.code(), Some(Code::BackendUnavailable));
    assert_eq!(deadlock.conn, Fate::Usable);
    let waited = database(1205, "Lock wait timeout exceeded", "here");
    assert_eq!(waited.error.code(), Some(Code::BackendUnavailable));
    assert_eq!(waited.conn, Fate::Broken, "its transaction is still open");
}

#[test]
fn a_server_that_only_reads_or_goes_down_is_left() {
    for number in [1290, 1792, 1836, 1053, 2013] {
        let failure = database(number, "said", "here");
        assert_eq!(failure.error.code(), Some(Code::BackendUnavailable), "{number}");
        assert_eq!(failure.conn, Fate::ServerGone, "{number}");
    }
}

#[test]
fn what_asking_again_cannot_change_is_refused() {
    for number in [1044, 1045, 1049, 1054, 1064, 1142, 1146] {
        let failure = database(number, "said", "here");
        assert_eq!(failure.error.code(), Some(Code::BackendRefused), "{number}");
    }
    let denied = database(1045, "Access denied for user 'me'@'host'", "here");
    assert!(!denied.error.message().contains("'me'"), "{}", denied.error);
}
