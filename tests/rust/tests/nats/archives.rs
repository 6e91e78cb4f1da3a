//! Ended runs are archived many together; nobody sees a difference, but for the size of a state.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::NatsBackend;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits, result};

use crate::server::{Ground, opened};

async fn won(store: &NatsBackend, slot: i64, token: &str) -> OutcomeKind {
    RunStore::claim(store, &claim("job", slot, token)).await.expect("answers").kind
}

async fn finish(store: &NatsBackend, slot: i64, token: &str, status: Status) -> bool {
    let body = result(slot, "t");
    store.finish("job", slot, token, status, Some(&body)).await.expect("answers")
}

/// A job of which so many runs have ended.
async fn with_ended(store: &NatsBackend, count: i64) {
    store.prepare_job(&limits("job")).await.expect("registers");
    for slot in 1..=count {
        assert_eq!(won(store, slot, "t").await, OutcomeKind::Won);
        assert!(finish(store, slot, "t", Status::Succeeded).await);
    }
}

#[tokio::test]
async fn history_shows_archived_runs_as_it_shows_all() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        with_ended(&store, 40).await;
        assert_eq!(ground.count("PREFIX.*.body.*.archive.*").await, 2);
        let records = store.history("job", 100).await.expect("answers");
        assert_eq!(records.len(), 40);
        for (record, slot) in records.iter().zip((1..=40).rev()) {
            assert_eq!((record.slot, record.by.as_str()), (slot, "host-t"));
            assert_eq!((record.status, record.fence), (Status::Succeeded, Some(slot)));
            assert_eq!(record.output, Some(format!("[{slot}]")));
        }
        ground.clean().await;
    }
}

#[tokio::test]
async fn an_archived_run_answers_as_it_did() {
    for ground in Ground::all().await {
        let store = ground.open().await;
        with_ended(&store, 20).await;
        assert_eq!(won(&store, 3, "another").await, OutcomeKind::Done);
        assert!(finish(&store, 3, "t", Status::Succeeded).await, "a repeat is answered the same");
        assert!(!finish(&store, 3, "t", Status::Failed).await);
        assert!(!finish(&store, 3, "stranger", Status::Succeeded).await);
        assert!(!store.heartbeat("job", 3, "t", 30_000).await.expect("answers"));
        assert!(!store.release("job", 3, "t").await.expect("answers"));
        assert!(!store.cancel("job", 3, false).await.expect("answers"));
        let survey = store.survey("job").await.expect("answers");
        assert_eq!(survey.slots, (1..=20).collect::<Vec<i64>>());
        ground.clean().await;
    }
}

#[tokio::test]
async fn a_claim_costs_the_same_round_trips_beside_archives() {
    for ground in Ground::all().await {
        with_ended(&ground.open().await, 40).await;
        let (proxy, options) = ground.proxy().await;
        let store = opened(options).await;
        assert_eq!(won(&store, 41, "warm").await, OutcomeKind::Won);
        assert_eq!(proxy.trips(won(&store, 42, "winner")).await, 2);
        assert_eq!(proxy.trips(won(&store, 42, "loser")).await, 1);
        assert_eq!(proxy.trips(won(&store, 5, "late")).await, 1);
        ground.clean().await;
    }
}

#[tokio::test]
async fn archives_go_with_the_records_in_them() {
    for ground in Ground::all().await {
        let mut options = ground.options.clone();
        options.archive_together = 4;
        let store = opened(options).await;
        with_ended(&store, 10).await;
        assert_eq!(ground.count("PREFIX.*.body.*.archive.*").await, 2);
        let mut few = limits("job");
        few.history_size = 3;
        store.prepare_job(&few).await.expect("registers");
        // What was trimmed goes with the next change.
        assert_eq!(won(&store, 11, "t").await, OutcomeKind::Won);
        assert_eq!(ground.count("PREFIX.*.body.*.archive.*").await, 1);
        assert_eq!(ground.count("PREFIX.*.body.>").await, 4);
        assert!(store.cancel("job", 11, false).await.expect("answers"));
        assert!(store.forget("job").await.expect("answers"));
        assert_eq!(ground.count("PREFIX.*.body.>").await, 0);
        ground.clean().await;
    }
}
