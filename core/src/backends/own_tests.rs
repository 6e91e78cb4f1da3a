use super::{Decided, IN_A_ROW, Mark, Owns};
use crate::backend::contract::{
    ClaimInput, ClaimKind, ClaimOutcome, OutcomeKind, RunClaim, StoredResult,
};
use crate::lease::model::{JobState, Run, RunKey, Status};
use crate::lease::rules::{Answer, Call};

fn claim(slot: i64) -> Call {
    Call::Claim(RunClaim {
        input: ClaimInput {
            job: "job".to_owned(),
            slot,
            token: format!("token-{slot}"),
            instance_id: "here".to_owned(),
            history_size: 100,
            history_ttl_ms: None,
            lease_ms: Some(30_000),
            overlap: None,
            force: None,
            max_early_ms: None,
            asked_at: None,
        },
        kind: ClaimKind::Slot,
        max_takeovers: 2,
        not_after_ms: None,
    })
}

fn heartbeat(slot: i64, token: &str) -> Call {
    Call::Heartbeat { slot, token: token.to_owned(), lease_ms: 30_000 }
}

fn finish(slot: i64, token: &str) -> Call {
    let result: Option<StoredResult> = None;
    Call::Finish { slot, token: token.to_owned(), status: Status::Succeeded, result }
}

/// A claim that was answered so, on version `on`, written as the one after it.
fn claimed(before: Option<Mark>, on: u64, slot: i64, kind: OutcomeKind) -> Mark {
    let (call, answers) = (claim(slot), [Answer::Outcome(ClaimOutcome::of(kind))]);
    let calls = [&call].into_iter();
    let decided =
        Decided { on: Some(on), is_whole: true, calls, answers: &answers, now: 1_000 + slot };
    Mark::of(decided, before, on + 1)
}

fn ended(before: Mark, slot: i64) -> Mark {
    let (call, answers) = (finish(slot, "any"), [Answer::Bool(true)]);
    let calls = [&call].into_iter();
    let on = Some(before.version);
    let decided = Decided { on, is_whole: true, calls, answers: &answers, now: 2_000 };
    Mark::of(decided, Some(before), before.version + 1)
}

/// After so many claims won, each of which has ended, with nobody's write between them.
fn won(count: u32) -> Mark {
    let mut mark = None;
    for slot in 1..=i64::from(count) {
        let on = mark.map_or(1, |mark: Mark| mark.version);
        mark = Some(ended(claimed(mark, on, slot, OutcomeKind::Won), slot));
    }
    mark.expect("at least one")
}

fn state(slot: i64, token: &str) -> JobState {
    let run =
        Run { token: token.to_owned(), lease_ms: 30_000, ..Run::blank(RunKey::scheduled(slot)) };
    JobState { runs: [(run.key(), run)].into(), ..JobState::default() }
}

fn serves(mark: Mark, state: &JobState, call: Call) -> bool {
    mark.serves(state, [&call].into_iter())
}

#[test]
fn a_claim_is_decided_unread_only_after_some_in_a_row() {
    for count in 1..IN_A_ROW {
        assert!(!serves(won(count), &JobState::default(), claim(9)), "after {count}");
    }
    assert!(serves(won(IN_A_ROW), &JobState::default(), claim(9)));
}

#[test]
fn a_write_by_somebody_else_ends_the_row() {
    let before = won(IN_A_ROW);
    let later = claimed(Some(before), before.version + 1, 9, OutcomeKind::Won);
    assert!(!serves(later, &JobState::default(), claim(10)));
}

#[test]
fn a_claim_that_was_not_won_ends_the_row() {
    let before = won(IN_A_ROW);
    let lost = claimed(Some(before), before.version, 9, OutcomeKind::Overlap);
    assert!(!serves(lost, &JobState::default(), claim(10)));
}

#[test]
fn of_a_slot_that_is_not_newer_than_all_claimed_the_state_may_not_tell() {
    let mark = won(IN_A_ROW);
    assert!(!serves(mark, &JobState::default(), claim(i64::from(IN_A_ROW))));
    assert!(!serves(mark, &JobState::default(), claim(1)));
}

#[test]
fn a_claim_wants_to_know_of_all_unfinished_runs() {
    let mark = Mark { is_whole: false, ..won(IN_A_ROW) };
    assert!(!serves(mark, &JobState::default(), claim(9)));
}

#[test]
fn a_holder_is_served_where_its_run_is_known_with_its_token() {
    let mark = Mark { is_whole: false, ..won(1) };
    let state = state(1, "mine");
    assert!(serves(mark, &state, heartbeat(1, "mine")));
    assert!(serves(mark, &state, finish(1, "mine")));
    assert!(serves(mark, &state, Call::Release { slot: 1, token: "mine".to_owned() }));
    assert!(!serves(mark, &state, heartbeat(1, "another")));
    assert!(!serves(mark, &state, heartbeat(2, "mine")));
}

#[test]
fn a_run_that_has_ended_is_read() {
    let mut state = state(1, "mine");
    for run in state.runs.values_mut() {
        run.status = Some(Status::Succeeded);
    }
    assert!(!serves(won(1), &state, finish(1, "mine")));
}

#[test]
fn what_others_may_have_changed_is_read() {
    let mark = won(IN_A_ROW);
    for call in [Call::Survey, Call::Forget, Call::SetPaused(None)] {
        assert!(!serves(mark, &JobState::default(), call));
    }
}

#[test]
fn of_several_calls_all_must_be_served() {
    let (mark, state) = (won(1), state(1, "mine"));
    let (one, other) = (heartbeat(1, "mine"), heartbeat(1, "another"));
    assert!(!mark.serves(&state, [&one, &other].into_iter()));
}

#[test]
fn what_was_written_a_minute_ago_serves_no_more() {
    let mark = won(IN_A_ROW);
    let old = Mark { written_at: mark.written_at - super::OLDEST_MS, ..mark };
    assert!(!serves(old, &state(1, "mine"), heartbeat(1, "mine")));
}

#[test]
fn a_state_is_taken_once() {
    let owns = Owns::of(8);
    owns.put("here", "job", ("state", won(1)));
    assert!(owns.take("elsewhere", "job").is_none());
    assert_eq!(owns.take("here", "job").map(|own| own.0), Some("state"));
    assert!(owns.take("here", "job").is_none());
}

#[test]
fn what_nobody_asks_for_is_forgotten_in_time() {
    let owns = Owns::of(8);
    for number in 0..=16 {
        owns.put("here", &format!("job-{number}"), (number, won(1)));
    }
    assert!(owns.take("here", "job-0").is_none());
    assert!(owns.take("here", "job-16").is_some());
}

#[test]
fn what_serves_no_more_is_forgotten_in_time() {
    let owns = Owns::of(8);
    let mark = won(1);
    for minute in 0..3 {
        let written_at = mark.written_at + minute * (super::OLDEST_MS + 1);
        owns.put("here", &format!("job-{minute}"), (minute, Mark { written_at, ..mark }));
    }
    assert!(owns.take("here", "job-0").is_none());
    assert!(owns.take("here", "job-1").is_some());
    assert!(owns.take("here", "job-2").is_some());
}
