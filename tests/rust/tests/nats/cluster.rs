//! A cluster of three whose leader is killed: nothing that was won is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use anarchon::backend::contract::{Backend, OutcomeKind, RunStore};
use anarchon::backends::nats::{NatsBackend, NatsOptions};
use anarchon::clock::{Clock, SystemClock, sleep_for};
use anarchon::error::Code;
use anarchon_tests::inputs::claim;
use anarchon_tests::private::free_port;
use anarchon_tests::races;
use serde_json::Value;

use crate::server::Private;
use crate::wire;

struct Cluster {
    nodes: BTreeMap<String, Private>,
}

impl Cluster {
    async fn start() -> Option<Cluster> {
        let routes: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let all: Vec<String> =
            routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let all = all.join(",");
        let mut nodes = BTreeMap::new();
        for (number, route) in routes.iter().enumerate() {
            let name = format!("n{number}");
            let cluster = format!("nats://127.0.0.1:{route}");
            let arguments =
                ["-n", &name, "--cluster_name", "three", "--cluster", &cluster, "--routes", &all];
            nodes.insert(name.clone(), Private::start(&arguments).await?);
        }
        Some(Cluster { nodes })
    }

    fn options(&self) -> NatsOptions {
        let servers = self.nodes.values().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let replicas = Some(3);
        NatsOptions { servers, replicas, call_timeout_ms: 1_000, ..NatsOptions::new("h") }
    }

    async fn leader(&self, prefix: &str) -> Option<String> {
        let subject = format!("$JS.API.STREAM.INFO.{prefix}");
        for node in self.nodes.values() {
            let server = format!("127.0.0.1:{}", node.port);
            let info = wire::ask(&server, &subject, "").await.unwrap_or(Value::Null);
            if let Some(leader) = info["cluster"]["leader"].as_str() {
                return Some(leader.to_owned());
            }
        }
        None
    }
}

/// A cluster takes its time until it has a leader for its metadata.
async fn opened(options: NatsOptions) -> NatsBackend {
    let store = NatsBackend::with_options(options).expect("allowed");
    let deadline = SystemClock.mono_ms() + 60_000;
    loop {
        match store.init().await {
            Ok(()) => return store,
            Err(error) => {
                assert!(SystemClock.mono_ms() < deadline, "{error}");
                sleep_for(&SystemClock, 200).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_takes_no_win_along() {
    let Some(mut cluster) = Cluster::start().await else { return };
    let store = opened(cluster.options()).await;
    let mut won = Vec::new();
    let mut longest = 0;
    let mut since = SystemClock.mono_ms();
    for slot in 1..=200 {
        if slot == 100 {
            let leader = cluster.leader("anarchon").await.expect("the stream has a leader");
            cluster.nodes.get_mut(&leader).expect("it is one of ours").kill();
            println!("{leader} led the stream and was killed");
        }
        loop {
            let answer = RunStore::claim(&store, &claim("job", slot, &format!("t{slot}"))).await;
            match answer {
                Ok(outcome) => {
                    assert_eq!(outcome.kind, OutcomeKind::Won, "slot {slot}");
                    won.push(slot);
                    break;
                }
                Err(error) => {
                    assert_eq!(error.code(), Some(Code::BackendUnavailable), "{error}");
                    assert!(SystemClock.mono_ms() - since < 60_000, "{error}");
                    sleep_for(&SystemClock, 50).await;
                }
            }
        }
        longest = longest.max(SystemClock.mono_ms() - since);
        since = SystemClock.mono_ms();
    }
    println!("200 slots; the longest wait for an answer was {longest} ms");
    let other = opened(cluster.options()).await;
    for slot in won {
        let outcome = RunStore::claim(&other, &claim("job", slot, "stranger")).await;
        let outcome = outcome.expect("answers");
        assert_eq!(outcome.kind, OutcomeKind::Running, "slot {slot}");
        assert_eq!(outcome.by, Some(format!("host-t{slot}")), "slot {slot}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_on_a_cluster_of_three_one_wins() {
    let Some(cluster) = Cluster::start().await else { return };
    let options = NatsOptions { call_timeout_ms: 10_000, ..cluster.options() };
    let mut stores: Vec<Arc<dyn Backend>> = Vec::new();
    for _ in 0..20 {
        stores.push(Arc::new(opened(options.clone()).await));
    }
    races::one_wins_each_slot(&stores, 20).await;
}
