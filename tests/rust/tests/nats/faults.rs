//! Servers that crash, hang, cut connections or lose what they had.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::NatsOptions;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits};
use serde_json::Value;

use crate::server::{Ground, Private, opened};

/// Claims slots one after the other, each until its outcome is known; answers those it won.
async fn claim_slots(
    options: NatsOptions,
    name: String,
    first: i64,
    is_over: Arc<AtomicBool>,
) -> Vec<i64> {
    let store = opened(options).await;
    let mut won = Vec::new();
    for slot in first.. {
        loop {
            match RunStore::claim(&store, &claim("job", slot, &format!("{name}-{slot}"))).await {
                Ok(outcome) => {
                    if outcome.kind == OutcomeKind::Won {
                        won.push(slot);
                    }
                    break;
                }
                Err(error) => {
                    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
                    sleep_for(&SystemClock, 20).await;
                }
            }
        }
        if is_over.load(Ordering::SeqCst) {
            break;
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_win_is_lost_and_none_granted_twice_where_a_server_crashes_in_mid_traffic() {
    let Some(mut server) = Private::start(&[]).await else { return };
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..4)
        .map(|number| {
            let (options, is_over) = (server.options(), is_over.clone());
            tokio::spawn(claim_slots(options, format!("t{number}"), 1, is_over))
        })
        .collect();
    for _ in 0..3 {
        sleep_for(&SystemClock, 400).await;
        server.restart().await;
    }
    sleep_for(&SystemClock, 400).await;
    is_over.store(true, Ordering::SeqCst);
    let mut winners = std::collections::BTreeMap::new();
    for (number, task) in tasks.into_iter().enumerate() {
        for slot in task.await.expect("no panic") {
            assert_eq!(winners.insert(slot, number), None, "slot {slot} was won twice");
        }
    }
    println!("{} slots over three crashes", winners.len());
    assert!(winners.len() > 10, "{}", winners.len());
    // What was won is still held by whoever won it.
    let store = opened(server.options()).await;
    for (slot, number) in &winners {
        let theirs = RunStore::claim(&store, &claim("job", *slot, "stranger")).await;
        let outcome = theirs.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Running, "slot {slot}");
        assert_eq!(outcome.by, Some(format!("host-t{number}-{slot}")), "slot {slot}");
    }
}

#[tokio::test]
async fn without_a_server_the_outcome_is_unknown_and_with_the_same_token_it_is_found_out() {
    let Some(mut server) = Private::start(&[]).await else { return };
    let store = opened(NatsOptions { call_timeout_ms: 300, ..server.options() }).await;
    let asked = claim("job", 1, "ours");
    assert_eq!(RunStore::claim(&store, &asked).await.expect("answers").kind, OutcomeKind::Won);
    server.kill();
    let error = RunStore::claim(&store, &asked).await.expect_err("nobody is there");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    let all = store.claim_all(&[asked.clone(), claim("job", 3, "ours")]).await;
    assert!(all.iter().all(Result::is_err));
    server.start_again().await;
    let mut answer = RunStore::claim(&store, &asked).await;
    for _ in 0..20 {
        if answer.is_ok() {
            break;
        }
        answer = RunStore::claim(&store, &asked).await;
    }
    assert_eq!(answer.expect("answers").kind, OutcomeKind::Won);
    let held = RunStore::claim(&store, &claim("job", 1, "theirs")).await;
    assert_eq!(held.expect("answers").kind, OutcomeKind::Running);
}

#[tokio::test]
async fn a_server_that_hangs_is_not_waited_for_without_end() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = opened(NatsOptions { call_timeout_ms: 200, ..server.options() }).await;
    server.pause();
    let error = RunStore::claim(&store, &claim("job", 1, "t")).await.expect_err("hangs");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    let error = store.heartbeat("job", 1, "t", 1_000).await.expect_err("hangs");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    server.resume();
    // What was sent before may have been done meanwhile: it is ours all the same.
    let outcome = RunStore::claim(&store, &claim("job", 1, "t")).await;
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
}

#[tokio::test]
async fn an_answer_that_is_lost_on_its_way_is_no_win_and_its_claim_is_found_again() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = opened(NatsOptions { call_timeout_ms: 400, ..options }).await;
        store.prepare_job(&limits("job")).await.expect("registers");
        proxy.be_silent(true);
        let asked = claim("job", 1, "ours");
        let error = RunStore::claim(&store, &asked).await.expect_err("nothing comes back");
        assert_eq!(error.code(), Some(Code::BackendUnavailable));
        proxy.be_silent(false);
        proxy.break_off();
        let outcome = RunStore::claim(&store, &asked).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
        ground.clean().await;
    }
}

#[tokio::test]
async fn connections_that_are_cut_are_replaced_unnoticed() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = opened(options).await;
        for slot in 1..=12 {
            let outcome = RunStore::claim(&store, &claim("job", slot, "t")).await;
            assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
            proxy.break_off();
            assert!(store.heartbeat("job", slot, "t", 60_000).await.expect("answers"));
        }
        assert!(proxy.connections() > 6, "{}", proxy.connections());
        ground.clean().await;
    }
}

/// Once for the fleet, also where the answer to the one that told it was lost.
#[tokio::test]
async fn what_was_done_before_the_answer_was_lost_is_answered_as_done() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = Arc::new(opened(options).await);
        store.prepare_job(&limits("job")).await.expect("registers");
        for number in 1..=20 {
            let range = anarchon::lease::model::MissedRange {
                from: number * 10,
                to: number * 10,
                count: 1,
                reason: "no_instance".to_owned(),
                by: "me".to_owned(),
                at: 0,
            };
            let asked = store.clone();
            let told = tokio::spawn(async move { asked.record_missed("job", &range).await });
            sleep_for(&SystemClock, number % 4).await;
            proxy.break_off();
            assert!(told.await.expect("no panic").expect("answers"), "round {number}");
        }
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_stream_that_somebody_deletes_is_missed_and_made_anew_at_the_next_start() {
    for ground in Ground::all().await {
        let store = opened(NatsOptions { call_timeout_ms: 200, ..ground.options.clone() }).await;
        RunStore::claim(&store, &claim("job", 1, "t")).await.expect("answers");
        ground.stream("DELETE", Value::Null).await;
        let error = RunStore::claim(&store, &claim("job", 2, "t")).await.expect_err("gone");
        assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
        store.close().await.expect("closes");
        store.init().await.expect("opens");
        let outcome = RunStore::claim(&store, &claim("job", 2, "t")).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
        ground.clean().await;
    }
}

/// As the scheduler does it: from a thread and a runtime of their own, over and over.
#[test]
fn heartbeats_come_from_a_runtime_of_their_own() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("ok");
    let main = runtime();
    for ground in main.block_on(Ground::all()) {
        let store = Arc::new(main.block_on(ground.open()));
        let outcome = main.block_on(RunStore::claim(&*store, &claim("job", 1, "t")));
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
        for _ in 0..6 {
            let store = store.clone();
            let heart = std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("ok");
                // The main runtime is not running at this time: nothing of it may be needed.
                (0..3).all(|_| {
                    runtime.block_on(store.heartbeat("job", 1, "t", 60_000)).expect("answers")
                })
            });
            assert!(heart.join().expect("no panic"));
        }
        let ended = main.block_on(store.finish("job", 1, "t", Status::Succeeded, None));
        assert!(ended.expect("answers"));
        main.block_on(ground.clean());
    }
}
