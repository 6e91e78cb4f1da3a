//! How many round trips a call costs, counted on the wire.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::mysql::MySqlBackend;
use anarchon::lease::model::Status;
use anarchon_tests::alone;
use anarchon_tests::inputs::{claim, limits};
use anarchon_tests::page;

use crate::store::{Database, opened};

async fn claim_of(store: &MySqlBackend, slot: i64, token: &str) -> OutcomeKind {
    RunStore::claim(store, &claim("job", slot, token)).await.expect("answers").kind
}

/// The read, the whole change as one text, the commit.
async fn counted(statement_cache: usize) {
    let Some(database) = Database::new().await else { return };
    let proxy = database.proxy().await;
    let mut options = database.options_through(&proxy);
    options.server.statement_cache = statement_cache;
    let store = opened(options).await;
    store.prepare_job(&limits("job")).await.expect("registers");
    // What is prepared is prepared once.
    for slot in 1..=2 {
        assert_eq!(claim_of(&store, slot, "warm").await, OutcomeKind::Won);
        assert!(store.heartbeat("job", slot, "warm", 30_000).await.expect("answers"));
        let ended = store.finish("job", slot, "warm", Status::Succeeded, None).await;
        assert!(ended.expect("answers"));
    }
    let won = proxy.trips(claim_of(&store, 7, "winner")).await;
    let lost = proxy.trips(claim_of(&store, 7, "loser")).await;
    assert_eq!(Some((won, lost)), page::row("MySQL, MariaDB").trips, "a winner and a loser");
    // What its own claim left need not be read.
    assert_eq!(proxy.trips(store.heartbeat("job", 7, "winner", 60_000)).await, 2);
    let ending = store.finish("job", 7, "winner", Status::Succeeded, None);
    assert_eq!(proxy.trips(ending).await, 2, "an end");
    assert_eq!(proxy.trips(claim_of(&store, 7, "late")).await, 1, "one that comes after the end");
    let many: Vec<_> = (0..500).map(|n| claim(&format!("many-{n}"), 60_000, "one")).collect();
    let together = proxy.trips(async {
        for answer in store.claim_all(&many).await {
            assert_eq!(answer.expect("answers").kind, OutcomeKind::Won);
        }
    });
    let together = together.await;
    assert!(together <= 10, "500 claims took {together} round trips");
}

#[tokio::test]
async fn a_winner_costs_three_and_a_loser_one() {
    counted(100).await;
}

#[tokio::test]
async fn it_is_the_same_with_nothing_prepared() {
    counted(0).await;
}

#[tokio::test]
async fn whoever_is_alone_claims_unread_until_somebody_else_writes() {
    let Some(database) = Database::new().await else { return };
    let proxy = database.proxy().await;
    let store = opened(database.options_through(&proxy)).await;
    let other = opened(database.options()).await;
    alone::claims_unread_until_somebody_else_writes(&store, &other, &proxy, [3, 2]).await;
}

#[tokio::test]
async fn an_open_store_that_is_asked_nothing_sends_nothing() {
    let Some(database) = Database::new().await else { return };
    let proxy = database.proxy().await;
    let store = MySqlBackend::with_options(database.options_through(&proxy)).expect("allowed");
    assert_eq!(proxy.connections(), 0, "nothing is opened before it is wanted");
    store.init().await.expect("opens");
    assert_eq!(claim_of(&store, 1, "one").await, OutcomeKind::Won);
    let before = (proxy.bytes(), proxy.connections());
    anarchon::clock::sleep_for(&anarchon::clock::SystemClock, 1_500).await;
    assert_eq!((proxy.bytes(), proxy.connections()), before);
}
