//! How many round trips a call costs, counted on the wire.

use anarchon::backend::contract::Backend;
use anarchon::backends::rabbitmq::RabbitMqOptions;
use anarchon_tests::inputs::{input, limits};
use anarchon_tests::page;
use anarchon_tests::proxy::Proxy;
use anarchon_tests::servers::{RABBITMQ, host_and_port};

use crate::ground::{Ground, now, opened};

#[tokio::test]
async fn a_winner_costs_one_and_a_loser_two() {
    let Some(ground) = Ground::new() else { return };
    let proxy = Proxy::before(host_and_port(&RABBITMQ.url().expect("it is there"))).await;
    let through = RabbitMqOptions {
        host: "127.0.0.1".to_owned(),
        port: proxy.port(),
        channels: 1,
        ..ground.options.clone()
    };
    let store = opened(through).await;
    let slot = now() - 60_000;
    let claim = |slot: i64, token: &'static str| {
        let store = &store;
        async move { store.claim(&input("job", slot, token)).await.expect("answers") }
    };
    assert!(claim(slot, "warm").await, "a channel is open");
    let (won, lost) = page::row("RabbitMQ").trips.expect("told on the page");
    assert_eq!(proxy.trips(claim(slot + 1, "ours")).await, won, "a winner");
    assert_eq!(proxy.trips(claim(slot + 1, "ours")).await, won, "its repeat");
    let before = proxy.turns();
    assert!(!claim(slot + 1, "theirs").await);
    assert!(claim(slot + 2, "ours").await);
    // The loser's answer, its channel opened again, and the next claim.
    assert_eq!(proxy.turns() - before, lost + won, "a loser and the next winner");
    store.prepare_job(&limits("job")).await.expect("registers");
    let recorded = input("job", slot + 2, "ours");
    assert_eq!(proxy.trips(store.record_claim(&recorded)).await, 1, "a record");
}
