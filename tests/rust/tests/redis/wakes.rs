//! Being told of the ends of runs.

use anarchon::backend::contract::{Backend, RunStore, Wake};
use anarchon::backends::redis::RedisBackend;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::lease::model::Status;
use anarchon_tests::heard::listener;
use anarchon_tests::inputs::claim;

use crate::server::Ground;

/// Waits until as many listen on the channels of the test.
async fn until_listening(ground: &Ground, namespace: &str, wanted: i64) {
    let channel = format!("{}:{namespace}:wake:{}", ground.options.prefix, ground.options.db);
    loop {
        let (_, count): (String, i64) = ground.tell(&["PUBSUB", "NUMSUB", &channel]).await;
        if count == wanted {
            return;
        }
        sleep_for(&SystemClock, 5).await;
    }
}

async fn claim_and_release(store: &RedisBackend, job: &str, slot: i64) {
    RunStore::claim(store, &claim(job, slot, "t")).await.expect("answers");
    assert!(store.release(job, slot, "t").await.expect("answers"));
}

#[tokio::test]
async fn a_release_and_a_finish_reach_the_listeners_of_the_namespace() {
    let Some(ground) = Ground::shared().await else { return };
    let (one, other) = (ground.open().await, ground.open().await);
    let stranger = other.with_namespace("stranger").expect("a store with namespaces");
    let (ours, heard) = listener();
    let (theirs, unheard) = listener();
    other.watch(&ours);
    stranger.runs().expect("leases").watch(&theirs);
    until_listening(&ground, "default", 1).await;
    until_listening(&ground, "stranger", 1).await;

    claim_and_release(&one, "a job: 1", 1).await;
    assert_eq!(heard.until_heard().await, [("a job: 1".to_owned(), Wake::Released)]);
    RunStore::claim(&one, &claim("job", 2, "t")).await.expect("answers");
    assert!(one.finish("job", 2, "t", Status::Succeeded, None).await.expect("answers"));
    assert_eq!(heard.until_heard().await, [("job".to_owned(), Wake::Finished)]);
    assert!(!one.finish("job", 2, "another", Status::Succeeded, None).await.expect("answers"));
    assert_eq!(unheard.taken(), []);
    ground.clean().await;
}

#[tokio::test]
async fn a_subscription_that_was_cut_comes_back_and_ends_with_the_store() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    let (ours, heard) = listener();
    store.watch(&ours);
    until_listening(&ground, "default", 1).await;
    let clients: String = ground.tell(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
    for client in clients.lines() {
        // Other tests subscribe on the same server: theirs come back as well.
        let id = client.split_once("id=").and_then(|(_, rest)| rest.split(' ').next());
        let _count: i64 = ground.tell(&["CLIENT", "KILL", "ID", id.expect("an id")]).await;
    }
    // What ends while nobody is subscribed is not told; the next one is.
    for slot in 1.. {
        until_listening(&ground, "default", 1).await;
        claim_and_release(&store, "job", slot).await;
        if !heard.taken().is_empty() {
            break;
        }
        sleep_for(&SystemClock, 20).await;
    }
    store.close().await.expect("closes");
    until_listening(&ground, "default", 0).await;
    ground.clean().await;
}

#[tokio::test]
async fn without_anybody_who_listens_nothing_changes() {
    let Some(ground) = Ground::shared().await else { return };
    let store = ground.open().await;
    let (ours, _) = listener();
    store.watch(&ours);
    until_listening(&ground, "default", 1).await;
    drop(ours);
    claim_and_release(&store, "job", 1).await;
    until_listening(&ground, "default", 0).await;
    claim_and_release(&store, "job", 2).await;
    ground.clean().await;
}
