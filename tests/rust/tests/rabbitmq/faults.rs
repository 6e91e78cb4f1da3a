//! Servers that are killed, fall silent, cut connections, or run out of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::RabbitMqOptions;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon_tests::inputs::{input, limits};
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{RABBITMQ, host_and_port};

use crate::ground::{Ground, now, opened};
use crate::private::Private;

/// Claims slot after slot with one token each; what has no answer is asked again with it.
async fn claim_on(
    store: Arc<dyn Backend>,
    base: i64,
    number: i64,
    end: Arc<AtomicBool>,
) -> Vec<i64> {
    let mut won = Vec::new();
    for step in 0.. {
        if end.load(Ordering::SeqCst) {
            break;
        }
        let slot = base + step;
        let asked = input("job", slot, &format!("{number}-{slot}"));
        let is_won = loop {
            match store.claim(&asked).await {
                Ok(is_won) => break is_won,
                Err(error) => assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}"),
            }
            sleep_for(&SystemClock, 50).await;
        };
        if is_won {
            won.push(slot);
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_server_that_is_killed_in_mid_traffic_no_win_is_lost_and_none_is_double() {
    let Some(mut server) = Private::start("").await else { return };
    let end = Arc::new(AtomicBool::new(false));
    let base = now() - 1_000_000;
    let mut tasks = Vec::new();
    for number in 0..4 {
        let store: Arc<dyn Backend> = Arc::new(opened(server.options()).await);
        tasks.push(tokio::spawn(claim_on(store, base, number, end.clone())));
    }
    for _ in 0..2 {
        sleep_for(&SystemClock, 1_500).await;
        server.restart().await;
    }
    sleep_for(&SystemClock, 500).await;
    end.store(true, Ordering::SeqCst);
    let mut won = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        won.extend(task.await.expect("no panic").into_iter().map(|slot| (slot, number)));
    }
    won.sort_unstable();
    let slots: Vec<i64> = won.iter().map(|(slot, _)| *slot).collect();
    assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "a slot was won twice");
    assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1), "a slot was won by nobody");
    println!("{} slots were won across 2 kills, each by one of 4", slots.len());
    assert!(slots.len() > 20, "there was traffic: {}", slots.len());
    // After another kill the server still knows who has each of them.
    server.restart().await;
    let store = opened(server.options()).await;
    for (slot, number) in won {
        let again = store.claim(&input("job", slot, &format!("{number}-{slot}"))).await;
        assert!(again.expect("answers"), "the win of slot {slot} is lost");
        let theirs = store.claim(&input("job", slot, "theirs")).await;
        assert!(!theirs.expect("answers"), "slot {slot} was free again");
    }
}

#[tokio::test]
async fn without_a_server_everything_is_unknown_and_a_store_goes_on_by_itself() {
    let Some(mut server) = Private::start("").await else { return };
    let store = opened(server.options()).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    let asked = input("job", now(), "ours");
    assert!(store.claim(&asked).await.expect("answers"));
    store.record_claim(&asked).await.expect("records");
    server.kill();
    let error = store.claim(&asked).await.expect_err("nobody is there");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert_eq!(store.history("job", 1).await.expect_err("nobody").code(), error.code());
    assert_eq!(store.record_claim(&asked).await.expect_err("nobody").code(), error.code());
    server.start_again().await;
    assert!(store.claim(&asked).await.expect("answers"), "with the same token it is found out");
    assert!(!store.claim(&input("job", asked.slot, "theirs")).await.expect("answers"));
    // Streams come up a little later, or not at all if the very first of them was a minute old; what
    // they held is not said to be nothing.
    match store.history("job", 5).await {
        Ok(records) => assert_eq!(records.len(), 1),
        Err(error) => assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}"),
    }
}

#[tokio::test]
async fn a_server_that_is_short_of_memory_takes_no_records_but_decides_claims() {
    let Some(server) = Private::start("").await else { return };
    let options = RabbitMqOptions { call_timeout_ms: 1_000, ..server.options() };
    let store = opened(options).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    server.control(&["set_vm_memory_high_watermark", "0.0001"]);
    // The server stops listening to a connection once it publishes.
    let asked = input("job", now(), "ours");
    let error = store.record_claim(&asked).await.expect_err("not taken");
    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
    for slot in 0..20 {
        let asked = input("job", asked.slot - slot, "ours");
        assert!(store.claim(&asked).await.expect("claims go on"));
    }
    server.control(&["set_vm_memory_high_watermark", "0.9"]);
    store.record_claim(&asked).await.expect("it is taken again");
}

#[tokio::test]
async fn connections_that_break_off_are_replaced_and_silence_is_not_waited_for_without_end() {
    let Some(ground) = Ground::new() else { return };
    let proxy = Proxy::before(host_and_port(&RABBITMQ.url().expect("it is there"))).await;
    let through = RabbitMqOptions {
        host: "127.0.0.1".to_owned(),
        port: proxy.port(),
        call_timeout_ms: 1_000,
        ..ground.options.clone()
    };
    let store = opened(through).await;
    let base = now() - 60_000;
    for step in 0..6 {
        proxy.break_off();
        let asked = input("job", base + step, "t");
        assert!(store.claim(&asked).await.expect("over a new connection"), "{step}");
        store.record_claim(&asked).await.expect("over a new connection");
    }
    proxy.be_silent(true);
    let asked = input("job", base + 10, "ours");
    let error = store.claim(&asked).await.expect_err("silence");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("no answer to a claim within 1000 ms"), "{error}");
    proxy.be_silent(false);
    // The server had heard it: that claim is ours, and nobody else's.
    assert!(store.claim(&asked).await.expect("over a new connection"));
    assert!(!store.claim(&input("job", base + 10, "theirs")).await.expect("answers"));
    assert_eq!(store.history("job", 10).await.expect("reads").len(), 6);
}

/// A caller with a shorter deadline of its own leaves; the connection is not waited on again.
#[tokio::test]
async fn a_connection_whose_caller_left_is_replaced() {
    let Some(ground) = Ground::new() else { return };
    let proxy = Proxy::before(host_and_port(&RABBITMQ.url().expect("it is there"))).await;
    let through = RabbitMqOptions {
        host: "127.0.0.1".to_owned(),
        port: proxy.port(),
        ..ground.options.clone()
    };
    let store = opened(through).await;
    let asked = input("job", now(), "ours");
    proxy.be_silent(true);
    tokio::select! {
        answer = store.claim(&asked) => panic!("a silent server answered {answer:?}"),
        () = sleep_for(&SystemClock, 100) => {}
    }
    proxy.be_silent(false);
    let before = proxy.connections();
    assert!(store.claim(&asked).await.expect("answers"));
    assert_eq!(proxy.connections(), before + 1);
}

/// Each from a thread and a runtime of its own, while the one that opened the store does nothing.
#[test]
fn a_store_is_used_from_several_runtimes() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("ok");
    let main = runtime();
    let Some(ground) = Ground::new() else { return };
    let store = Arc::new(main.block_on(ground.open()));
    let asked = input("job", now(), "ours");
    assert!(main.block_on(store.claim(&asked)).expect("answers"));
    for _ in 0..6 {
        let (store, asked) = (store.clone(), asked.clone());
        let other = std::thread::spawn(move || {
            (0..3).all(|_| runtime().block_on(store.claim(&asked)).expect("answers"))
        });
        assert!(other.join().expect("no panic"));
    }
    assert!(main.block_on(store.claim(&asked)).expect("answers"));
}
