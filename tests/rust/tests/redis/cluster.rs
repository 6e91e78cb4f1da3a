//! A cluster of two nodes: the keys of a job are together, jobs are spread.

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::redis::{RedisBackend, RedisOptions};
use anarchon::clock::{SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon::lease::model::Status;
use anarchon_tests::inputs::{claim, limits};

use crate::server::{Private, opened};

async fn start_node() -> Option<Private> {
    // The bus of a node listens 10,000 above its port.
    loop {
        let port = anarchon_tests::private::free_port();
        if port < 50_000 {
            return Private::start_on(port, &["--cluster-enabled", "yes"]).await;
        }
    }
}

async fn cluster() -> Option<(Private, Private)> {
    let (one, two) = (start_node().await?, start_node().await?);
    let _ok: String = one.tell(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]).await;
    let _ok: String = two.tell(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]).await;
    let _ok: String = two.tell(&["CLUSTER", "SET-CONFIG-EPOCH", "2"]).await;
    let _ok: String = one.tell(&["CLUSTER", "MEET", "127.0.0.1", &two.port.to_string()]).await;
    for node in [&one, &two] {
        loop {
            let told: String = node.tell(&["CLUSTER", "INFO"]).await;
            if told.contains("cluster_state:ok") && told.contains("cluster_known_nodes:2") {
                break;
            }
            sleep_for(&SystemClock, 50).await;
        }
    }
    Some((one, two))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_spread_over_the_nodes_and_each_job_is_on_one() {
    let Some((one, two)) = cluster().await else { return };
    let options = RedisOptions { cluster: true, ..one.options() };
    let store = opened(options.clone()).await;
    let names: Vec<String> = (0..60).map(|number| format!("job {{{number}}}")).collect();
    let all: Vec<_> = names.iter().map(|name| limits(name)).collect();
    assert!(store.prepare_jobs(&all).await.iter().all(Result::is_ok));
    let claims: Vec<_> = names.iter().map(|name| claim(name, 60_000, "t")).collect();
    for outcome in store.claim_all(&claims).await {
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Won);
    }
    let other = opened(options).await;
    for outcome in
        other.claim_all(&names.iter().map(|n| claim(n, 60_000, "u")).collect::<Vec<_>>()).await
    {
        assert_eq!(outcome.expect("answers").kind, OutcomeKind::Running);
    }
    for name in &names {
        assert!(store.heartbeat(name, 60_000, "t", 60_000).await.expect("answers"));
        let ended = store.finish(name, 60_000, "t", Status::Succeeded, None).await;
        assert!(ended.expect("answers"));
        assert_eq!(other.history(name, 5).await.expect("answers").len(), 1);
        assert_eq!(other.survey(name).await.expect("answers").slots, [60_000]);
        assert!(store.forget(name).await.expect("answers"));
    }
    let (first, second): (i64, i64) = (one.tell(&["DBSIZE"]).await, two.tell(&["DBSIZE"]).await);
    assert!(first > 10 && second > 10, "{first} and {second} keys");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_not_taken_for_a_single_server_and_replicas_are_waited_for() {
    let Some((one, two)) = cluster().await else { return };
    let plain = RedisBackend::with_options(one.options()).expect("allowed");
    let error = plain.init().await.expect_err("a cluster");
    assert_eq!(error.code(), Some(Code::BackendRefused));
    assert!(error.message().contains("add cluster=true"), "{error}");

    // The first node is away at the start; another one was named as well.
    let nodes = vec![format!("127.0.0.1:{}", two.port)];
    let away = RedisOptions {
        port: anarchon_tests::private::free_port(),
        ..RedisOptions::new("127.0.0.1")
    };
    let options =
        RedisOptions { cluster: true, nodes, wait_replicas: 1, wait_timeout_ms: 50, ..away };
    let store = opened(options).await;
    for number in 0..8 {
        let asked = claim(&format!("job {number}"), 60_000, "t");
        let error = RunStore::claim(&store, &asked).await.expect_err("no replica");
        assert!(error.message().contains("0 of 1 replicas"), "{error}");
    }
}
