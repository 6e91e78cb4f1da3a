use fastrand::Rng;

use super::super::stored::Stored;
use super::brief;
use crate::lease::model::{Run, RunKey, Status};
use crate::lease::rules::Call;
use crate::random::Random;

const SUBJECT: &str = "p.ns.job.j";

fn ended(key: RunKey, ended_at: i64) -> Run {
    let (token, by) = (format!("token-{}", key.slot), "host".to_owned());
    let status = Some(Status::Succeeded);
    Run { token, by, attempt: 1, fence: 7, status, ..brief(key, ended_at) }
}

fn with(runs: impl IntoIterator<Item = Run>) -> Stored {
    let mut stored = Stored::default();
    stored.state.runs = runs.into_iter().map(|run| (run.key(), run)).collect();
    stored
}

/// What is read of a state whose oldest runs were archived under this number.
fn archived(stored: &Stored, keys: &[RunKey], number: u64) -> (Stored, Vec<u8>) {
    let text = stored.encode_archive(keys).expect("writes");
    let mut next = stored.clone();
    next.archived.extend(keys.iter().map(|key| (*key, number)));
    let state = next.encode().expect("writes");
    (Stored::decode(SUBJECT, &state).expect("reads"), text)
}

fn finish(slot: i64) -> Call {
    let (token, status) = (format!("token-{slot}"), Status::Succeeded);
    Call::Finish { slot, token, status, result: None }
}

fn extreme(random: &mut Rng) -> i64 {
    match random.u8(..4) {
        0 => random.i64(..),
        1 => [i64::MIN, i64::MAX, 0][random.usize(..3)],
        _ => random.i64(1_000_000..1_001_000),
    }
}

fn drawn(random: &mut Rng) -> Stored {
    let mut stored = Stored::default();
    for _ in 0..random.usize(..40) {
        let key = RunKey { slot: extreme(random), manual: random.bool() };
        let mut run = ended(key, extreme(random));
        run.fence = extreme(random);
        if random.bool() {
            stored.bodies.insert(key, random.u64(1..100));
        }
        stored.state.runs.insert(key, run);
    }
    stored
}

#[test]
fn a_state_survives_that_its_ended_runs_are_archived_and_filled_in_again() {
    for seed in 0..500 {
        let stored = drawn(&mut Random::generator(seed));
        let keys: Vec<RunKey> = stored.state.runs.keys().copied().collect();
        let (left, right) = keys.split_at(keys.len() / 3);
        let (once, first) = archived(&stored, left, 1_000);
        // Archiving more never needs what was archived before.
        let (mut twice, second) = archived(&once, right, 2_000);
        assert_eq!(twice.bodies, stored.bodies, "seed {seed}");
        let slots: Vec<RunKey> = twice.state.runs.keys().copied().collect();
        assert_eq!(slots, keys, "seed {seed}");
        twice.fill(1_000, &first).expect("reads");
        twice.fill(2_000, &second).expect("reads");
        assert_eq!(twice.state, stored.state, "seed {seed}");
    }
}

#[test]
fn of_an_archived_run_slot_and_end_are_known_without_reading_it() {
    let key = RunKey::manual(60_000);
    let (read, _) = archived(&with([ended(key, 60_250)]), &[key], 9);
    assert_eq!(read.state.runs[&key], brief(key, 60_250));
    assert!(!read.state.runs[&key].is_unfinished());
}

#[test]
fn a_state_without_archives_is_read_as_ever() {
    let text = br#"{"stamp":"s","header":{"schedule":"","schedule_prev":"","zone_tables":"",
        "since":0,"floor":0,"fence":0,"keep_ms":0,"keep_slots":0,"keep_window_ms":0,
        "history_size":0,"history_ttl_ms":null,"paused":null,"missed":[]},
        "runs":[[7,false,"t","me",1,1,1,0,2,3,4,false,"failed",5,6]]}"#;
    let stored = Stored::decode(SUBJECT, text).expect("reads");
    assert_eq!(stored.state.runs[&RunKey::scheduled(7)].token, "t");
    assert!(stored.archived.is_empty());
}

#[test]
fn claims_look_into_no_archive_and_a_repeat_of_finish_looks_into_its_own() {
    let runs = (1..=6).map(|slot| ended(RunKey::scheduled(slot), slot));
    let stored = with(runs);
    let keys: Vec<RunKey> = stored.state.runs.keys().copied().collect();
    let (once, _) = archived(&stored, &keys[..3], 10);
    let (twice, _) = archived(&once, &keys[3..], 20);
    let wanted = |call: &Call| twice.wanted_by([call].into_iter()).into_iter().collect::<Vec<_>>();
    assert!(wanted(&Call::Survey).is_empty());
    assert!(wanted(&Call::Cancel { slot: 2, manual: false }).is_empty());
    assert_eq!(wanted(&finish(2)), [10]);
    assert_eq!(wanted(&finish(5)), [20]);
    assert!(wanted(&finish(7)).is_empty());
    assert_eq!(wanted(&Call::Release { slot: 5, token: String::new() }), [20]);
    let heartbeat = Call::Heartbeat { slot: 1, token: String::new(), lease_ms: 1 };
    assert_eq!(wanted(&heartbeat), [10]);
}

#[test]
fn an_archive_goes_with_the_last_of_its_runs() {
    let stored = with((1..=2).map(|slot| ended(RunKey::scheduled(slot), slot)));
    let keys: Vec<RunKey> = stored.state.runs.keys().copied().collect();
    let (mut read, text) = archived(&stored, &keys, 10);
    read.take_out(keys[0]);
    assert!(read.gone.is_empty());
    read.take_out(keys[1]);
    assert_eq!(read.gone, [10]);
    // What is no longer named is not read out of it again.
    read.state.runs.clear();
    read.fill(10, &text).expect("reads");
    assert!(read.state.runs.is_empty());
}

#[test]
fn ends_archive_before_a_claim_would_have_to() {
    let few = with((0..16).map(|slot| ended(RunKey::scheduled(slot), slot)));
    let many = with((0..70).map(|slot| ended(RunKey::scheduled(slot), slot)));
    let claim = Call::ClaimOnly(input());
    assert_eq!(few.to_archive(16, [&finish(1)].into_iter()).len(), 16);
    assert_eq!(few.to_archive(17, [&finish(1)].into_iter()).len(), 0);
    assert_eq!(few.to_archive(16, [&claim].into_iter()).len(), 0);
    assert_eq!(many.to_archive(16, [&claim].into_iter()).len(), 64);
}

fn input() -> crate::backend::contract::ClaimInput {
    crate::backend::contract::ClaimInput {
        job: "j".to_owned(),
        slot: 1,
        token: "t".to_owned(),
        instance_id: "me".to_owned(),
        history_size: 100,
        history_ttl_ms: None,
        lease_ms: None,
        overlap: None,
        force: None,
        max_early_ms: None,
        asked_at: None,
    }
}
