//! Which servers are refused, and about which a word is said.

use super::{Server, is_recent, judged};
use crate::error::Code;

fn good() -> Server {
    Server {
        version: "10.11.6-MariaDB-0+deb12u1".to_owned(),
        only_reads: false,
        flush: 1,
        other_engines: 0,
        now_ms: 1_000_000,
    }
}

#[test]
fn the_versions_of_both_families_are_told_apart() {
    for recent in ["8.0.36", "8.4.0-commercial", "9.1.0", "10.5.0-MariaDB", "11.4.2-MariaDB-log"] {
        assert!(is_recent(recent), "{recent}");
    }
    for old in ["5.7.44", "10.4.33-MariaDB", "5.5.5-10.3.1-MariaDB", ""] {
        assert!(!is_recent(old), "{old}");
    }
}

#[test]
fn a_usual_server_gives_no_cause_for_a_word() {
    assert_eq!(
        judged(&good(), false, 1_000_000, 1_000_000).expect("is good"),
        Vec::<String>::new()
    );
}

#[test]
fn a_server_that_does_not_wait_for_its_disk_is_refused_unless_allowed() {
    let lazy = Server { flush: 0, ..good() };
    let error = judged(&lazy, false, 1_000_000, 1_000_000).expect_err("forgets claims");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("allowLazyFlush=true"), "{error}");
    let warned = judged(&lazy, true, 1_000_000, 1_000_000).expect("is allowed");
    assert!(warned.len() == 1 && warned[0].contains("or the server is killed"), "{warned:?}");
    let crash = judged(&Server { flush: 2, ..good() }, false, 1_000_000, 1_000_000);
    assert_eq!(crash.expect("is only warned about").len(), 1);
}

#[test]
fn tables_that_cannot_roll_back_are_refused_and_a_replica_may_still_become_one_that_writes() {
    let error = judged(&Server { other_engines: 1, ..good() }, false, 0, 0).expect_err("MyISAM");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    let error = judged(&Server { only_reads: true, ..good() }, false, 0, 0).expect_err("replica");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    let old = Server { version: "5.7.44".to_owned(), ..good() };
    let error = judged(&old, false, 0, 0).expect_err("too old");
    assert!(error.message().contains("5.7.44; wanted is MySQL 8.0"), "{error}");
}
