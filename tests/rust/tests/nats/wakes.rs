//! Being told of the ends of runs.

use anarchon::backend::contract::{Backend, RunStore, Wake};
use anarchon::backends::nats::NatsBackend;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::lease::model::Status;
use anarchon_tests::heard::{Heard, listener};
use anarchon_tests::inputs::claim;

use crate::server::{Ground, opened};

async fn claim_and_release(store: &NatsBackend, job: &str, slot: i64) {
    RunStore::claim(store, &claim(job, slot, "t")).await.expect("answers");
    assert!(store.release(job, slot, "t").await.expect("answers"));
}

/// Releases one run after the other until one is heard of: a subscription is made in its own time.
async fn until_subscribed(store: &NatsBackend, heard: &Heard) {
    for slot in 1_000.. {
        claim_and_release(store, "warm", slot).await;
        sleep_for(&SystemClock, 10).await;
        if !heard.taken().is_empty() {
            break;
        }
    }
    // What is still on its way is heard before what comes next.
    claim_and_release(store, "warm-end", 1).await;
    while !heard.until_heard().await.iter().any(|(job, _)| job == "warm-end") {}
}

#[tokio::test]
async fn a_release_and_a_finish_reach_the_listeners_of_the_namespace() {
    for ground in Ground::all().await {
        let (one, other) = (ground.open().await, ground.open().await);
        let stranger = other.with_namespace("stranger").expect("a store with namespaces");
        let (ours, heard) = listener();
        let (theirs, unheard) = listener();
        other.watch(&ours);
        stranger.runs().expect("leases").watch(&theirs);
        until_subscribed(&one, &heard).await;

        claim_and_release(&one, "a job: 1", 1).await;
        assert_eq!(heard.until_heard().await, [("a job: 1".to_owned(), Wake::Released)]);
        RunStore::claim(&one, &claim("job", 2, "t")).await.expect("answers");
        assert!(one.finish("job", 2, "t", Status::Succeeded, None).await.expect("answers"));
        assert_eq!(heard.until_heard().await, [("job".to_owned(), Wake::Finished)]);
        assert!(!one.finish("job", 2, "another", Status::Succeeded, None).await.expect("answers"));
        assert_eq!(unheard.taken(), []);
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_subscription_that_was_cut_comes_back_and_ends_with_the_store() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let (store, teller) = (opened(options).await, ground.open().await);
        let (ours, heard) = listener();
        store.watch(&ours);
        until_subscribed(&teller, &heard).await;
        proxy.break_off();
        until_subscribed(&teller, &heard).await;
        store.close().await.expect("closes");
        sleep_for(&SystemClock, 100).await;
        heard.taken();
        claim_and_release(&teller, "job", 1).await;
        sleep_for(&SystemClock, 100).await;
        assert_eq!(heard.taken(), []);
        ground.clean().await;
    }
}
