//! Which servers are refused, and about which a word is said.

use super::{Server, judged};
use crate::error::Code;

fn good() -> Server {
    Server {
        version: 150_002,
        only_reads: false,
        synchronous_commit: "on".to_owned(),
        fsync: "on".to_owned(),
        unlogged: 0,
        now_ms: 1_000_000,
    }
}

fn warnings(server: &Server) -> Vec<String> {
    judged(server, 1_000_000, 1_000_010).expect("is not refused")
}

#[test]
fn a_usual_server_gives_no_cause_for_a_word() {
    assert_eq!(warnings(&good()), Vec::<String>::new());
    let local = Server { synchronous_commit: "local".to_owned(), ..good() };
    assert_eq!(warnings(&local), Vec::<String>::new());
}

#[test]
fn what_forgets_acknowledged_claims_is_warned_about() {
    let off = "off".to_owned();
    let lazy = warnings(&Server { synchronous_commit: off.clone(), ..good() });
    assert!(lazy.len() == 1 && lazy[0].starts_with("synchronous_commit is off"), "{lazy:?}");
    let unsafe_ = warnings(&Server { fsync: off, ..good() });
    assert!(unsafe_.len() == 1 && unsafe_[0].starts_with("fsync is off"), "{unsafe_:?}");
    let unlogged = warnings(&Server { unlogged: 1, ..good() });
    assert!(unlogged.len() == 1 && unlogged[0].contains("UNLOGGED"), "{unlogged:?}");
}

#[test]
fn a_clock_that_is_two_seconds_off_is_told() {
    let early = warnings(&Server { now_ms: 1_000_000 - 2_000, ..good() });
    assert!(early.len() == 1 && early[0].contains("2000 ms behind"), "{early:?}");
    let late = warnings(&Server { now_ms: 1_000_010 + 2_500, ..good() });
    assert!(late.len() == 1 && late[0].contains("2500 ms ahead"), "{late:?}");
}

#[test]
fn an_old_server_is_refused_and_a_standby_may_still_become_one() {
    let old = judged(&Server { version: 110_020, ..good() }, 0, 0).expect_err("too old");
    assert_eq!(old.code(), Some(Code::BackendRefused));
    assert!(old.message().contains("PostgreSQL 11; wanted is 12"), "{old}");
    let standby = judged(&Server { only_reads: true, ..good() }, 0, 0).expect_err("a standby");
    assert_eq!(standby.code(), Some(Code::BackendUnavailable));
}
