//! How many round trips a call costs, counted on the wire.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::NatsBackend;
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::lease::model::Status;
use anarchon_tests::alone;
use anarchon_tests::inputs::{claim, limits, result};
use anarchon_tests::page;

use crate::server::{Ground, opened};

async fn claim_of(store: &NatsBackend, slot: i64, token: &str) -> OutcomeKind {
    RunStore::claim(store, &claim("job", slot, token)).await.expect("answers").kind
}

/// On servers before 2.10 the clock is measured at the start and once a minute, and costs nothing
/// in between: so it is the same on all.
#[tokio::test]
async fn a_winner_costs_two_and_a_loser_one() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = opened(options).await;
        store.prepare_job(&limits("job")).await.expect("registers");
        // The answer to the first request on a connection asks for a subscription as well.
        assert_eq!(claim_of(&store, 1, "warm").await, OutcomeKind::Won);
        let winner = proxy.trips(claim_of(&store, 7, "winner")).await;
        let loser = proxy.trips(claim_of(&store, 7, "loser")).await;
        // In the millisecond of its claim a renewal for as long as the claim changes nothing.
        let beat = proxy.trips(store.heartbeat("job", 7, "winner", 60_000)).await;
        let body = result(7, "winner");
        let end =
            proxy.trips(store.finish("job", 7, "winner", Status::Succeeded, Some(&body))).await;
        let late = proxy.trips(claim_of(&store, 7, "late")).await;
        println!("winner {winner}, loser {loser}, heartbeat {beat}, end {end}, late {late}");
        assert_eq!(Some((winner, loser)), page::row("NATS JetStream").trips);
        // What its own claim left need not be read.
        assert_eq!((beat, late), (1, 1));
        // The result is written before its end, which is told to whoever listens, and nobody answers.
        assert!((2..=3).contains(&end), "an end took {end} round trips");
        ground.clean().await;
    }
}

#[tokio::test]
async fn whoever_is_alone_claims_unread_until_somebody_else_writes() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = opened(options).await;
        let other = ground.open().await;
        alone::claims_unread_until_somebody_else_writes(&store, &other, &proxy, [2, 1]).await;
        ground.clean().await;
    }
}

#[tokio::test]
async fn claims_that_fall_together_travel_together() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = opened(options).await;
        let many: Vec<_> = (0..500).map(|n| claim(&format!("many-{n}"), 60_000, "one")).collect();
        let together = proxy.trips(async {
            for answer in store.claim_all(&many).await {
                assert_eq!(answer.expect("answers").kind, OutcomeKind::Won);
            }
        });
        let together = together.await;
        println!("500 claims in {together} turns");
        assert!(together <= 400, "500 claims took {together} round trips");
        ground.clean().await;
    }
}

#[tokio::test]
async fn an_open_store_that_is_asked_nothing_sends_nothing() {
    for ground in Ground::all().await {
        let (proxy, options) = ground.proxy().await;
        let store = NatsBackend::with_options(options).expect("allowed");
        assert_eq!(proxy.connections(), 0, "nothing is opened before it is wanted");
        store.init().await.expect("opens");
        assert_eq!(claim_of(&store, 1, "one").await, OutcomeKind::Won);
        // What greets a new connection may still be on its way.
        sleep_for(&SystemClock, 300).await;
        let before = (proxy.bytes(), proxy.connections());
        sleep_for(&SystemClock, 1_500).await;
        assert_eq!((proxy.bytes(), proxy.connections()), before);
        ground.clean().await;
    }
}
