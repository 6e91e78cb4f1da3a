use std::collections::BTreeMap;

use super::{Stored, estimate, fitting};
use crate::error::Code;
use crate::lease::model::{JobHeader, JobState, MissedRange, Paused, Run, Status};

fn run(slot: i64, manual: bool) -> Run {
    Run {
        slot,
        manual,
        token: "f".repeat(32),
        by: "h\u{f6}st \"1\"".to_owned(),
        at: i64::MAX,
        attempt: i64::MAX,
        fence: i64::MAX,
        crashes: i64::MAX,
        lease_until: i64::MAX,
        lease_ms: i64::MAX,
        max_takeovers: i64::MAX,
        released: true,
        status: manual.then_some(Status::TimedOut),
        ended_at: manual.then_some(i64::MIN),
    }
}

fn stored() -> Stored {
    let runs = [run(i64::MIN, false), run(7, false), run(7, true)];
    let header = JobHeader {
        schedule: "cron * * * * *".to_owned(),
        since: 5,
        floor: -3,
        history_ttl_ms: Some(9),
        paused: Some(Paused { since: 1, by: "me".to_owned(), reason: None }),
        missed: vec![MissedRange {
            from: 1,
            to: 2,
            count: u64::MAX,
            reason: "paused".to_owned(),
            by: "me".to_owned(),
            at: 3,
        }],
        ..JobHeader::default()
    };
    let bodies = [(runs[2].key(), u64::MAX)].into();
    let runs = runs.into_iter().map(|run| (run.key(), run)).collect();
    let state = JobState { header, runs };
    let (archived, stamp) = (BTreeMap::new(), "abc".to_owned());
    Stored { state, bodies, archived, gone: vec![3, 4], stamp }
}

#[test]
fn what_is_written_is_read_again() {
    let stored = stored();
    let text = stored.encode().expect("writes");
    assert_eq!(Stored::decode("p.ns.job.j", &text).expect("reads"), stored);
    let empty = Stored::default();
    let text = empty.encode().expect("writes");
    assert_eq!(Stored::decode("p.ns.job.j", &text).expect("reads"), empty);
}

#[test]
fn what_is_not_ours_is_unknown_and_said_to_be_strange() {
    let error = Stored::decode("p.ns.job.j", b"hello").expect_err("not ours");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("it begins with \"hello\""), "{error}");
}

#[test]
fn the_estimate_is_above_what_the_longest_numbers_take() {
    let mut stored = stored();
    for slot in 0..1_000 {
        let mut run = run(i64::MAX - slot, true);
        run.by = "x".repeat(100);
        stored.bodies.insert(run.key(), u64::MAX);
        stored.state.runs.insert(run.key(), run);
    }
    let bytes = stored.encode().expect("writes").len();
    assert!(bytes < estimate(1_003), "{bytes}");
    assert_eq!(fitting(estimate(500)), 500);
}
