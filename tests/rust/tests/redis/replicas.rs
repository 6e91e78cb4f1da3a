//! `waitReplicas`: a change counts once enough replicas have it.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::redis::{RedisBackend, RedisOptions};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon_tests::inputs::{claim, limits};

use crate::server::{Private, opened};

/// A primary, a replica that has caught up, and options that wait for it.
async fn pair() -> Option<(Private, Private, RedisOptions)> {
    let primary = Private::start(&["--repl-diskless-sync-delay", "0"]).await?;
    let port = primary.port.to_string();
    let replica = Private::start(&["--replicaof", "127.0.0.1", &port]).await?;
    loop {
        let told: String = primary.tell(&["INFO", "replication"]).await;
        if told.contains("state=online") {
            break;
        }
        sleep_for(&SystemClock, 20).await;
    }
    let options = RedisOptions { wait_replicas: 1, ..primary.options() };
    Some((primary, replica, options))
}

/// As an instance does it: unknown is asked again, with the same token.
async fn until_won(store: &RedisBackend, slot: i64) {
    loop {
        match RunStore::claim(store, &claim("job", slot, "t")).await {
            Ok(outcome) => return assert_eq!(outcome.kind, OutcomeKind::Won),
            Err(error) => assert_eq!(error.code(), Some(Code::BackendUnavailable)),
        }
    }
}

#[tokio::test]
async fn with_a_replica_a_claim_is_won_and_the_replica_has_it() {
    let Some((_primary, replica, options)) = pair().await else { return };
    let store = opened(options).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    until_won(&store, 1).await;
    let claims: Vec<_> = (1..=20).map(|slot| claim("job", slot, "t")).collect();
    for outcome in store.claim_all(&claims).await {
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
    }
    let key = "anarchon:{default:job}:job";
    let copied: Option<String> = replica.tell(&["HGET", key, "run:20"]).await;
    assert!(copied.is_some(), "what was answered as won has reached the replica");
}

#[tokio::test]
async fn without_enough_replicas_a_claim_is_unknown_and_a_loser_is_told_at_once() {
    let Some((_primary, mut replica, mut options)) = pair().await else { return };
    until_won(&opened(options.clone()).await, 1).await;
    options.wait_timeout_ms = 60;
    let store = opened(options).await;
    replica.kill();
    let error = RunStore::claim(&store, &claim("job", 2, "t")).await.expect_err("unknown");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("0 of 1 replicas"), "{error}");
    // Neither is a heartbeat or an end believed that a failover would take back.
    assert!(store.heartbeat("job", 1, "t", 60_000).await.is_err());
    // A refusal promises nothing.
    let lost = RunStore::claim(&store, &claim("job", 1, "another")).await.expect("answers");
    assert_eq!(lost.kind, OutcomeKind::Running);
    assert!(!store.heartbeat("job", 1, "another", 60_000).await.expect("answers"));
    assert_eq!(store.active("job").await.expect("answers").len(), 2);
}
