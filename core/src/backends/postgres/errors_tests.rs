//! Which codes are unknown, which are refused, and which cost the connection.

use super::database;
use crate::backends::sql::pool::Fate;
use crate::error::Code;

#[test]
fn what_was_rolled_back_is_unknown_and_the_connection_is_used_again() {
    for code in ["40001", "40P01", "55P03", "57014", "23505", "42P07", "25P02"] {
        let failure = database(code, "said", "here");
        assert_eq!(failure.error.code(), Some(Code::BackendUnavailable), "{code}");
        assert_eq!(failure.conn, Fate::Usable, "{code}");
    }
}

#[test]
fn a_server_that_only_reads_or_goes_down_is_left() {
    for code in ["25006", "57P01", "57P02", "57P03", "08006"] {
        let failure = database(code, "said", "here");
        assert_eq!(failure.error.code(), Some(Code::BackendUnavailable), "{code}");
        assert_eq!(failure.conn, Fate::ServerGone, "{code}");
    }
}

#[test]
fn what_asking_again_cannot_change_is_refused() {
    for code in ["28P01", "3D000", "42501", "42P01", "42703", "3F000"] {
        let failure = database(code, "said", "here");
        assert_eq!(failure.error.code(), Some(Code::BackendRefused), "{code}");
    }
    let denied = database("28P01", "password authentication failed for user \"me\"", "here");
    assert!(!denied.error.message().contains("\"me\""), "{}", denied.error);
}
