//! How many round trips a call costs, counted on the wire.

use anarchon::backend::contract::{OutcomeKind, RunStore};
use anarchon::lease::model::Status;
use anarchon_tests::alone;
use anarchon_tests::inputs::{claim, limits};
use anarchon_tests::page;

use crate::store::{Schema, opened};
use anarchon::backend::contract::Backend;
use anarchon::backends::postgres::PostgresBackend;

async fn claim_of(store: &PostgresBackend, slot: i64, token: &str) -> OutcomeKind {
    RunStore::claim(store, &claim("job", slot, token)).await.expect("answers").kind
}

async fn counted(statement_cache: usize) {
    let Some(schema) = Schema::new().await else { return };
    let proxy = schema.proxy().await;
    let mut options = schema.options_through(&proxy);
    options.server.statement_cache = statement_cache;
    options.notify = false;
    let store = opened(options).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    // What is prepared is prepared once.
    for slot in 1..=2 {
        assert_eq!(claim_of(&store, slot, "warm").await, OutcomeKind::Won);
        assert_eq!(claim_of(&store, slot, "other").await, OutcomeKind::Running);
        assert!(store.heartbeat("job", slot, "warm", 30_000).await.expect("answers"));
        let ended = store.finish("job", slot, "warm", Status::Succeeded, None).await;
        assert!(ended.expect("answers"));
    }
    let won = proxy.trips(claim_of(&store, 7, "winner")).await;
    let lost = proxy.trips(claim_of(&store, 7, "loser")).await;
    assert_eq!(Some((won, lost)), page::row("PostgreSQL").trips, "a winner and a loser");
    // What its own claim left need not be read.
    assert_eq!(proxy.trips(store.heartbeat("job", 7, "winner", 60_000)).await, 1);
    let ending = store.finish("job", 7, "winner", Status::Succeeded, None);
    assert_eq!(proxy.trips(ending).await, 1, "an end");
    assert_eq!(proxy.trips(claim_of(&store, 7, "late")).await, 1, "one that comes after the end");
    let many: Vec<_> = (0..500).map(|n| claim(&format!("many-{n}"), 60_000, "one")).collect();
    let together = proxy.trips(async {
        for answer in store.claim_all(&many).await {
            assert_eq!(answer.expect("answers").kind, OutcomeKind::Won);
        }
    });
    let together = together.await;
    assert!(together <= 4, "500 claims took {together} round trips");
}

#[tokio::test]
async fn a_winner_costs_two_and_a_loser_one() {
    counted(100).await;
}

#[tokio::test]
async fn it_is_the_same_with_nothing_prepared() {
    counted(0).await;
}

#[tokio::test]
async fn whoever_is_alone_claims_unread_until_somebody_else_writes() {
    let Some(schema) = Schema::new().await else { return };
    let proxy = schema.proxy().await;
    let mut options = schema.options_through(&proxy);
    options.notify = false;
    let store = opened(options).await;
    let other = opened(schema.options()).await;
    alone::claims_unread_until_somebody_else_writes(&store, &other, &proxy, [2, 1]).await;
}

#[tokio::test]
async fn an_open_store_that_is_asked_nothing_sends_nothing() {
    let Some(schema) = Schema::new().await else { return };
    let proxy = schema.proxy().await;
    let store = PostgresBackend::with_options(schema.options_through(&proxy)).expect("allowed");
    assert_eq!(proxy.connections(), 0, "nothing is opened before it is wanted");
    store.init().await.expect("opens");
    assert_eq!(claim_of(&store, 1, "one").await, OutcomeKind::Won);
    let before = (proxy.bytes(), proxy.connections());
    anarchon::clock::sleep_for(&anarchon::clock::SystemClock, 1_500).await;
    assert_eq!((proxy.bytes(), proxy.connections()), before);
}
