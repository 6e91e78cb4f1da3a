//! One winner for each slot, however many ask and however often.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, ClaimInput};
use anarchon::backends::rabbitmq::RabbitMqOptions;
use anarchon::clock::{Clock, SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon::testing::manual_clock::ManualClock;
use anarchon_tests::inputs::input;
use anarchon_tests::words::names;
use futures_util::future::join_all;

use crate::ground::{Ground, now, opened};

/// A minute ago, give or take.
fn slot(number: i64) -> i64 {
    now() - 60_000 + number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_that_claim_each_of_500_slots_one_wins() {
    const SLOTS: i64 = 500;
    let Some(ground) = Ground::new() else { return };
    let replicas = ground.replicas(8).await;
    let base = slot(0);
    let tasks = replicas.iter().enumerate().map(|(number, replica)| {
        let replica = replica.clone();
        tokio::spawn(async move {
            let mut won = Vec::new();
            for slot in base..base + SLOTS {
                let asked = input("race", slot, &format!("{number}-{slot}"));
                if replica.claim(&asked).await.expect("answers") {
                    won.push(slot);
                }
            }
            won
        })
    });
    let mut won: Vec<i64> =
        join_all(tasks).await.into_iter().flat_map(|task| task.expect("no panic")).collect();
    won.sort_unstable();
    assert_eq!(won, (base..base + SLOTS).collect::<Vec<i64>>());
    println!("{} of {SLOTS} slots had one winner of 8", won.len());
}

#[tokio::test]
async fn the_winners_token_wins_again_and_every_other_loses() {
    let Some(ground) = Ground::new() else { return };
    let replicas = ground.replicas(3).await;
    let slot = slot(0);
    let ours = input("job", slot, "ours");
    assert!(replicas[0].claim(&ours).await.expect("answers"));
    for replica in &replicas {
        assert!(replica.claim(&ours).await.expect("answers"));
        assert!(!replica.claim(&input("job", slot, "theirs")).await.expect("answers"));
    }
    let twice = join_all(replicas.iter().map(|replica| replica.claim(&ours))).await;
    assert!(twice.into_iter().all(|answer| answer.expect("answers")));
}

#[tokio::test]
async fn a_hundred_that_fall_together_go_over_a_bounded_number_of_channels() {
    let Some(ground) = Ground::new() else { return };
    let store = opened(RabbitMqOptions { channels: 3, ..ground.options.clone() }).await;
    let slot = slot(0);
    for (token, wins) in [("ours", true), ("theirs", false), ("ours", true)] {
        let asked: Vec<ClaimInput> =
            (0..100).map(|number| input(&format!("job {number}"), slot, token)).collect();
        let answers = join_all(asked.iter().map(|asked| store.claim(asked))).await;
        assert!(answers.into_iter().all(|answer| answer.expect("answers") == wins), "{token}");
    }
}

#[tokio::test]
async fn names_of_every_kind_have_slots_and_records_of_their_own() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    let slot = slot(0);
    let mut names = names();
    // A job and a slot that together read like another job and another slot.
    names.extend(["a:b", "a", "a.1", "a1"].map(str::to_owned));
    names.sort();
    names.dedup();
    for (number, name) in names.iter().enumerate() {
        let asked = input(name, slot, &format!("{number}"));
        assert!(store.claim(&asked).await.expect("answers"), "{name:?}");
        store.record_claim(&asked).await.expect("records");
    }
    for (number, name) in names.iter().enumerate() {
        let records = store.history(name, 10).await.expect("reads");
        let by: Vec<&str> = records.iter().map(|record| record.by.as_str()).collect();
        assert_eq!(by, [format!("host-{number}")], "{name:?}");
        assert_eq!(records[0].job, *name);
    }
}

#[tokio::test]
async fn namespaces_and_prefixes_do_not_meet() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    let other = store.with_namespace("other").expect("it has namespaces");
    let mut options = ground.options.clone();
    options.prefix.push_str(".2");
    let elsewhere = opened(options).await;
    let slot = slot(0);
    for backend in [&store as &dyn Backend, &*other, &elsewhere] {
        assert!(backend.claim(&input("job", slot, "t")).await.expect("answers"));
        backend.record_claim(&input("job", slot, "t")).await.expect("records");
        assert_eq!(backend.history("job", 10).await.expect("reads").len(), 1);
    }
    assert!(!store.claim(&input("job", slot, "u")).await.expect("answers"));
    other.close().await.expect("a view closes nothing");
    assert!(store.claim(&input("job", slot, "t")).await.expect("still open"));
}

#[tokio::test]
async fn a_slot_older_than_the_window_is_granted_to_nobody_not_even_once_its_queue_is_gone() {
    let Some(ground) = Ground::new() else { return };
    let options = RabbitMqOptions { dedupe_window_ms: 1_000, ..ground.options.clone() };
    let (store, late) = (opened(options.clone()).await, opened(options.clone()).await);
    let slot = now();
    assert!(store.claim(&input("job", slot, "ours")).await.expect("answers"));
    assert!(!late.claim(&input("job", slot, "theirs")).await.expect("answers"));
    // The queue lives for 2 s: the window, and as much again.
    sleep_for(&SystemClock, 4_000).await;
    assert!(!late.claim(&input("job", slot, "theirs")).await.expect("answers"));
    assert!(!store.claim(&input("job", slot, "ours")).await.expect("answers"));
    // It is really gone: by a clock that stood still, the slot is young and free.
    let stopped: Arc<dyn Clock> = Arc::new(ManualClock::new(slot));
    let stopped = opened(RabbitMqOptions { clock: stopped, ..options }).await;
    assert!(stopped.claim(&input("job", slot, "theirs")).await.expect("answers"));
}

#[tokio::test]
async fn asking_for_a_slot_does_not_put_off_the_end_of_its_queue() {
    let Some(ground) = Ground::new() else { return };
    let start = now();
    let stopped: Arc<dyn Clock> = Arc::new(ManualClock::new(start));
    let options =
        RabbitMqOptions { dedupe_window_ms: 1_000, clock: stopped, ..ground.options.clone() };
    let store = opened(options).await;
    assert!(store.claim(&input("job", start, "ours")).await.expect("answers"));
    // Somebody asks all the time, and is refused until the queue is gone: 2 s, or a little later.
    let mut refused = 0;
    while !store.claim(&input("job", start, "theirs")).await.expect("answers") {
        refused += 1;
        assert!(refused < 300, "the queue is still there after half a minute");
        sleep_for(&SystemClock, 100).await;
    }
    assert!(refused > 2);
}

#[tokio::test]
async fn slots_ahead_of_our_clock_are_refused() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    let mut asked = input("job", now() + 3_600_000, "t");
    asked.max_early_ms = Some(2_000);
    assert!(!store.claim(&asked).await.expect("answers"));
    asked.slot = now() + 1_000;
    assert!(store.claim(&asked).await.expect("answers"));
}

#[tokio::test]
async fn two_windows_during_a_deploy_do_not_give_two_winners() {
    let Some(ground) = Ground::new() else { return };
    let old = ground.open().await;
    let changed = RabbitMqOptions { dedupe_window_ms: 7_200_000, ..ground.options.clone() };
    let new = opened(changed).await;
    let slot = slot(0);
    assert!(old.claim(&input("job", slot, "old")).await.expect("answers"));
    assert!(!new.claim(&input("job", slot, "new")).await.expect("answers"));
    assert!(new.claim(&input("job", slot + 1, "new")).await.expect("answers"));
    assert!(!old.claim(&input("job", slot + 1, "old")).await.expect("answers"));
}

#[tokio::test]
async fn manual_runs_get_a_slot_of_their_own_and_the_same_token_the_same() {
    let Some(ground) = Ground::new() else { return };
    let store = ground.open().await;
    let slot = slot(0);
    let run = |token: &str| input("job", slot, token);
    assert_eq!(store.record_manual_run(&run("a")).await.expect("answers"), Some(slot));
    assert_eq!(store.record_manual_run(&run("b")).await.expect("answers"), Some(slot + 1));
    assert_eq!(store.record_manual_run(&run("a")).await.expect("answers"), Some(slot));
    assert_eq!(store.record_manual_run(&run("b")).await.expect("answers"), Some(slot + 1));
    assert!(store.claim(&run("c")).await.expect("answers"), "the scheduled run is another");
    let records = store.history("job", 10).await.expect("reads");
    let shown: Vec<(i64, bool)> = records.iter().map(|one| (one.slot, one.manual)).collect();
    assert_eq!(shown, [(slot + 1, true), (slot, true)], "record_claim was not called for c");

    let mut old = run("d");
    old.asked_at = Some(now() - 3_600_001);
    let error = store.record_manual_run(&old).await.expect_err("a duplicate of long ago");
    assert_eq!(error.code(), Some(Code::BackendRefused), "{error}");
    // To make up for yesterday is no duplicate of yesterday.
    let mut yesterday = input("job", slot - 86_400_000, "e");
    yesterday.asked_at = Some(now());
    let used = store.record_manual_run(&yesterday).await.expect("answers");
    assert_eq!(used, Some(slot - 86_400_000));
}
