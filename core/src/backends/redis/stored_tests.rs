use super::{parse_key, parse_missed, parse_run};
use crate::lease::model::{RunKey, Status};

#[test]
fn keys_say_the_slot_and_whether_the_run_is_manual() {
    assert_eq!(parse_key("-5").expect("a key"), RunKey::scheduled(-5));
    assert_eq!(parse_key("2147483648000m").expect("a key"), RunKey::manual(2_147_483_648_000));
    for wrong in ["", "m", "1x", "1 m", "1mm"] {
        assert!(parse_key(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_run_is_read_with_spaces_in_both_of_its_texts() {
    let line = "10 2 3 1 40 30 2 1 failed 50 7 a b  c  host one";
    let run = parse_run("7m", line).expect("a run");
    assert_eq!((run.token.as_str(), run.by.as_str()), ("a b  c ", "host one"));
    assert_eq!((run.at, run.attempt, run.fence, run.crashes), (10, 2, 3, 1));
    assert_eq!((run.lease_until, run.lease_ms, run.max_takeovers), (40, 30, 2));
    assert_eq!((run.status, run.ended_at), (Some(Status::Failed), Some(50)));
    assert!(run.released && run.manual && run.slot == 7);
}

#[test]
fn a_run_without_token_and_end_is_read() {
    let run = parse_run("7", "10 1 0 0 0 0 0 0 - - 0  host").expect("a run");
    assert_eq!((run.token.as_str(), run.by.as_str()), ("", "host"));
    assert_eq!((run.status, run.ended_at), (None, None));
}

#[test]
fn what_something_else_wrote_is_told_and_never_taken_for_a_run() {
    for line in ["", "hello", "10 1 0 0 0 0 0 0 - - 9 a b", "10 1 0 0 0 0 0 0 odd - 1 a b"] {
        let error = parse_run("7", line).expect_err(line);
        assert!(error.message().contains("cannot be read"), "{error}");
    }
    assert!(parse_missed("1 2 3").is_err());
}
