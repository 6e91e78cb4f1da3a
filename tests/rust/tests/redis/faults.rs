//! Servers that restart, forget their scripts, hang, fill up or lose their role.

use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::redis::RedisOptions;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits};

use crate::server::{Ground, Private, opened};

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_told_again() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = opened(server.options()).await;
    for round in 0..3 {
        let _flushed: String = server.tell(&["SCRIPT", "FLUSH"]).await;
        let claims: Vec<_> =
            (0..600).map(|number| claim(&format!("job {number}"), round + 1, "t")).collect();
        for outcome in store.claim_all(&claims).await {
            assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
        }
        let _flushed: String = server.tell(&["SCRIPT", "FLUSH"]).await;
        assert!(store.heartbeat("job 1", round + 1, "t", 60_000).await.expect("answers"));
    }
}

#[tokio::test]
async fn claims_survive_a_crash_of_a_server_that_writes_each_of_them_down() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut server) = Private::start(&durable).await else { return };
    let store = opened(server.options()).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    for slot in 1..=50 {
        let outcome = RunStore::claim(&store, &claim("job", slot, "ours")).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
    }
    assert!(store.finish("job", 50, "ours", Status::Succeeded, None).await.expect("answers"));
    server.restart().await;
    // The same store goes on, over a connection that it opens by itself.
    for slot in 1..50 {
        let theirs = RunStore::claim(&store, &claim("job", slot, "theirs")).await;
        assert_eq!(theirs.expect("answers").kind, OutcomeKind::Running, "slot {slot}");
        let ours = RunStore::claim(&store, &claim("job", slot, "ours")).await;
        assert_eq!(ours.expect("answers").kind, OutcomeKind::Won, "slot {slot}");
    }
    let ended = RunStore::claim(&store, &claim("job", 50, "theirs")).await;
    assert_eq!(ended.expect("answers").kind, OutcomeKind::Done);
}

#[tokio::test]
async fn without_a_server_the_outcome_is_unknown_and_with_the_same_token_it_is_found_out() {
    let Some(mut server) = Private::start(&["--appendonly", "yes"]).await else { return };
    let store = opened(server.options()).await;
    let asked = claim("job", 1, "ours");
    assert_eq!(RunStore::claim(&store, &asked).await.expect("answers").kind, OutcomeKind::Won);
    let _synced: redis::Value = server.tell(&["CONFIG", "SET", "appendfsync", "always"]).await;
    RunStore::claim(&store, &claim("job", 2, "ours")).await.expect("answers");
    server.kill();
    let error = RunStore::claim(&store, &asked).await.expect_err("nobody is there");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    let all = store.claim_all(&[asked.clone(), claim("job", 3, "ours")]).await;
    assert!(all.iter().all(Result::is_err));
    server.restart().await;
    assert_eq!(RunStore::claim(&store, &asked).await.expect("answers").kind, OutcomeKind::Won);
}

#[tokio::test]
async fn connections_that_the_server_cuts_are_replaced_unnoticed() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = opened(RedisOptions { pool: 3, ..server.options() }).await;
    for slot in 1..=12 {
        let outcome = RunStore::claim(&store, &claim("job", slot, "t")).await;
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
        assert!(store.heartbeat("job", slot, "t", 60_000).await.expect("answers"));
        let _killed: i64 = server.tell(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_not_waited_for_without_end() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = opened(RedisOptions { call_timeout_ms: 200, ..server.options() }).await;
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

/// A caller with a shorter deadline of its own leaves; the connection is not waited on again.
#[tokio::test]
async fn a_connection_whose_caller_left_is_replaced() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = opened(server.options()).await;
    server.pause();
    tokio::select! {
        answer = store.history("job", 1) => panic!("a paused server answered {answer:?}"),
        () = sleep_for(&SystemClock, 50) => {}
    }
    server.resume();
    assert_eq!(store.history("job", 1).await.expect("answers"), []);
    let connections: String = server.tell(&["INFO", "stats"]).await;
    assert!(connections.contains("total_connections_received"), "{connections}");
}

#[tokio::test]
async fn a_full_server_gives_unknown_and_changes_nothing_by_halves() {
    let Some(server) = Private::start(&["--maxmemory", "0"]).await else { return };
    let store = opened(server.options()).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    RunStore::claim(&store, &claim("job", 1, "t")).await.expect("answers");
    let before = store.state("job").await.expect("reads");
    let _set: String = server.tell(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = RunStore::claim(&store, &claim("job", 2, "t")).await.expect_err("full");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("is full (maxmemory)"), "{error}");
    assert!(store.heartbeat("job", 1, "t", 90_000).await.is_err());
    assert_eq!(store.state("job").await.expect("reads"), before);
    // An end begins by removing something, which a full server allows, and then it is whole.
    assert!(store.finish("job", 1, "t", Status::Succeeded, None).await.expect("answers"));
    let records = store.history("job", 5).await.expect("answers");
    assert_eq!(records[0].status, Status::Succeeded);
    assert_eq!(store.active("job").await.expect("answers"), []);
    let _set: String = server.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
    let outcome = RunStore::claim(&store, &claim("job", 2, "t")).await;
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
}

#[tokio::test]
async fn a_server_that_became_a_replica_gives_unknown_until_it_is_primary_again() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = opened(server.options()).await;
    RunStore::claim(&store, &claim("job", 1, "t")).await.expect("answers");
    let _set: String = server.tell(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]).await;
    let _role: String = server.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let error = RunStore::claim(&store, &claim("job", 2, "t")).await.expect_err("read-only");
    assert_eq!(error.code(), Some(Code::BackendUnavailable));
    assert!(error.message().contains("is a replica"), "{error}");
    let _role: String = server.tell(&["REPLICAOF", "NO", "ONE"]).await;
    let outcome = RunStore::claim(&store, &claim("job", 2, "t")).await;
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
}

/// As the scheduler does it: from a thread and a runtime of their own, over and over.
#[test]
fn heartbeats_come_from_a_runtime_of_their_own() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("ok");
    let main = runtime();
    let Some(ground) = main.block_on(Ground::shared()) else { return };
    let store = Arc::new(main.block_on(ground.open()));
    let outcome = main.block_on(RunStore::claim(&*store, &claim("job", 1, "t")));
    assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
    for _ in 0..6 {
        let store = store.clone();
        let heart = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("ok");
            // The main runtime is not running at this time: nothing of it may be needed.
            (0..3)
                .all(|_| runtime.block_on(store.heartbeat("job", 1, "t", 60_000)).expect("answers"))
        });
        assert!(heart.join().expect("no panic"));
    }
    let ended = main.block_on(store.finish("job", 1, "t", Status::Succeeded, None));
    assert!(ended.expect("answers"));
    main.block_on(ground.clean());
}
